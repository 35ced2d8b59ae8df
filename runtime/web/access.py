"""Who may see the page: loopback freely, anyone else with the token; no other site may act."""

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol
from urllib.parse import urlsplit

from edgeseg.errors import UsageError

COOKIE = "edgeseg"
MIN_TOKEN = 16  # characters: guessing over the network stays hopeless
ACTION_HEADER = "X-Edgeseg"  # other sites cannot send it without a preflight, which we refuse


class Headers(Protocol):
    """What we need of a request's headers; http.client's find them in any case."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value of one header."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The rules of one server."""

    host: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"host={self.host!r}: everyone on the network could watch, "
                "expected a token; give token_file=FILE or leave the host at 127.0.0.1"
            )
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            raise UsageError(
                f"the page's token has {len(self.token)} characters, expected {MIN_TOKEN} or more "
                'of ASCII; try: python -c "import secrets; print(secrets.token_urlsafe())"'
            )

    def may_read(self, headers: Headers, *, query_token: str | None = None) -> bool:
        """Whether a request carries the token, or comes through a loopback name."""
        foreign = headers.get("Sec-Fetch-Site") == "cross-site"
        if foreign and headers.get("Sec-Fetch-Mode") != "navigate":
            return False  # another site may link to the page, but not embed its pictures
        if self.token is None:
            # A page of another site can resolve its own name to 127.0.0.1 (DNS rebinding); its
            # requests then arrive here, and only the Host header gives it away.
            return is_loopback(_host_name(headers.get("Host", "")))
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        offered = bearer.strip() if scheme.lower() == "bearer" else query_token
        if offered is not None and _same(offered, self.token):
            return True
        return _same(_cookie_of(headers), self.cookie_value())

    def may_act(self, headers: Headers) -> bool:
        """Whether a request that changes something was made by our own page or by a tool."""
        if not self.may_read(headers) or headers.get(ACTION_HEADER) is None:
            return False
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == headers.get("Host", "")

    def cookie_value(self) -> str:
        """Derived from the token, so that the browser does not store the token itself."""
        key = (self.token or "").encode()
        return hmac.new(key, b"edgeseg page cookie", hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host_name(host_header: str) -> str:
    """`name:port` or `[::1]:port` to the name."""
    try:
        return urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return ""


def _cookie_of(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def _same(offered: str, expected: str) -> bool:
    """Compare in constant time, so that the answer's delay tells nothing."""
    return hmac.compare_digest(offered.encode("utf-8", "replace"), expected.encode())
