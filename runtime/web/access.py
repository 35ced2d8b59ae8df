"""Decide who may see the page: loopback freely, others with a token; no other site may act.

One token opens everything. Where there is a second token, for supervisors, the first one is for
operators: it opens everything except what changes a decision.
"""

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting

COOKIE = "edgeseg"  # and edgeseg-supervisor, which can be given back alone
MIN_TOKEN = 16  # characters: guessing over the network stays hopeless
ACTION_HEADER = "X-Edgeseg"  # other sites cannot send it without a preflight, which we refuse

Role = Literal["operator", "supervisor"]


def token_in(path: Path | None, *, setting: str = "token_file") -> str | None:
    """Read a token from a file, since arguments are visible to everyone on the computer."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Setting(setting, path), f": cannot be read ({error})") from None


class Headers(Protocol):
    """The headers of a request, found in upper or lower case."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value of one header."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The access rules of one server."""

    host: str
    token: str | None = field(default=None, repr=False)
    supervisor_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                Setting("host", repr(self.host)),
                ": everyone on the network could watch, expected a token; give ",
                Setting("token_file", "FILE"),
                " or leave the host at 127.0.0.1",
            )
        for name, token in (("page", self.token), ("supervisor", self.supervisor_token)):
            if token is not None and (len(token) < MIN_TOKEN or not token.isascii()):
                raise UsageError(
                    f"the {name}'s token has {len(token)} characters, expected {MIN_TOKEN} or more "
                    'of ASCII; try: python -c "import secrets; print(secrets.token_urlsafe())"'
                )
        if self.token is not None and self.token == self.supervisor_token:
            raise UsageError(
                "operators have the supervisor's token, expected another; "
                "give one file alone where everyone may do everything"
            )

    def role(self, headers: Headers, *, query_token: str | None = None) -> Role | None:
        """Return the role of a request, by its token or loopback name; None if it may not enter."""
        foreign = headers.get("Sec-Fetch-Site") == "cross-site"
        if foreign and headers.get("Sec-Fetch-Mode") != "navigate":
            return None  # another site may link to the page, but not embed its pictures
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        offered = bearer.strip() if scheme.lower() == "bearer" else query_token
        for token, role in self._tokens():
            by_token = offered is not None and _same(offered, token)
            if by_token or _same(_cookie_of(headers, self.cookie_name(role)), cookie_value(token)):
                return role
        # A page of another site can resolve its own name to 127.0.0.1 (DNS rebinding); its
        # requests then arrive here, and only the Host header gives it away.
        if self.token is None and is_loopback(_host_name(headers.get("Host", ""))):
            return self._least
        return None

    def may_act(self, headers: Headers) -> bool:
        """Whether a request that changes something was made by our own page or by a tool."""
        if self.role(headers) is None or headers.get(ACTION_HEADER) is None:
            return False
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        return origin is None or _place(origin) == headers.get("Host", "")

    def cookie_for(self, offered: str) -> str | None:
        """Return the `name=value` that replaces a token in the browser; None for a wrong token."""
        for token, role in self._tokens():
            if _same(offered, token):
                return f"{self.cookie_name(role)}={cookie_value(token)}"
        return None

    def cookie_name(self, role: Role) -> str:
        """Return the cookie's name; each token has its own."""
        return COOKIE if role == self._least else f"{COOKIE}-{role}"

    @property
    def _least(self) -> Role:
        """The lowest role that a request can have."""
        return "supervisor" if self.supervisor_token is None else "operator"

    def _tokens(self) -> list[tuple[str, Role]]:
        """Return the tokens with their roles, the strongest first."""
        pairs: list[tuple[str | None, Role]] = [
            (self.supervisor_token, "supervisor"),
            (self.token, self._least),
        ]
        return [(token, role) for token, role in pairs if token is not None]


def cookie_value(token: str) -> str:
    """Derive a value from the token, so that the browser does not store the token itself."""
    return hmac.new(token.encode(), b"edgeseg page cookie", hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host_name(host_header: str) -> str:
    """Return the name in `name:port` or `[::1]:port`."""
    try:
        return urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str | None:
    """Return name and port of `http://name:port`; None if it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _cookie_of(headers: Headers, name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("Cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def _same(offered: str, expected: str) -> bool:
    """Compare in constant time, so that the delay of an answer reveals nothing."""
    return hmac.compare_digest(offered.encode("utf-8", "replace"), expected.encode())
