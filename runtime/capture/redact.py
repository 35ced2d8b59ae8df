"""Hide camera credentials in logs, events, metrics and pages.

Known places of credentials: the user part of an address, values of names such as `password` in its
path and query, an address inside a query, properties of GStreamer, an Authorization header.
Redacting too much costs a little readability; too little costs a password. Where a text can be
read in two ways (an unescaped `/`, `@` or `&` in a password), what is secret in either is hidden.
"""

import re
from urllib.parse import unquote

HIDDEN = "***"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_ENCODED_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*%(?:25)*3A%(?:25)*2F%(?:25)*2F", re.I)
_HOST = re.compile(r"(?:[\w.\-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::\d{1,5})?")
_WORDS = (
    r"pass|pwd|psw|pas\b|pw|secret|token|auth|cred|login|user|usr|session|sid|sig|key|cookie|bearer"
)
_NAME = rf"(?:(?<![A-Za-z])[\w\-]*(?:{_WORDS})[\w\-]*|(?<=[?&])[pu])"
# In queries (?password=), paths (/user=admin_password=x) and properties (user-pw = "x y"); also
# with an escaped equals sign, and as JSON.
_KEY = re.compile(rf"(?P<name>{_NAME})(?P<equals>\"?\s*(?:=|%3D|(?<=\"):)\s*)", re.I)
# After a secret, a name is shown only if it is one of these: it could be a part of the secret.
_PLAIN_NAMES = (
    r"user(?:name)?|usr|login(?:use|pas)?|pass(?:word|wd)?|pwd|pw|token|auth|key|u|p"
    r"|channel|ch|camera|cam|id|stream|subtype|profile|fps|width|height|resolution|quality"
)
_PLAIN = re.compile(rf"(?P<name>{_PLAIN_NAMES})=(?P<value>.*)", re.I | re.S)
_SMALL = re.compile(r"\d{1,3}|\d{1,4}x\d{1,4}")
_HEADER = re.compile(r"\b(?P<kind>Basic|Bearer|Digest)\s+[A-Za-z0-9+/=_.\-]{4,}")
_QUOTED = re.compile(r"\\\"(?:(?!\\\").)*\\\"|\"(?:\\.|[^\"\\])*\"?|'[^']*'?", re.S)
_TYPE = re.compile(r"\([a-z]+\)\s*")  # GStreamer's (string) before a value
_STARTS = re.compile(rf"{_SCHEME.pattern}|{_KEY.pattern}", re.I)
_SPACE = re.compile(r"\s|\Z")
_BEFORE_THE_NEXT = re.compile(rf"\s{_KEY.pattern}|{_SCHEME.pattern}", re.I)


def redact(text: str) -> str:
    """Return the text without user names, passwords and tokens."""
    shown: list[str] = []
    at = 0
    while (start := _STARTS.search(text, at)) is not None:
        shown.append(text[at : start.end()])
        hide = _address if start["name"] is None else _value
        at = hide(text, start, shown)
    shown.append(text[at:])
    return _HEADER.sub(rf"\g<kind> {HIDDEN}", "".join(shown))


def redact_url(url: str) -> str:
    """Redact a text that is one address, where even a space belongs to the password."""
    scheme = _SCHEME.match(url)
    return redact(url) if scheme is None else scheme[0] + _rest(url[scheme.end() :])


def _address(text: str, scheme: re.Match[str], shown: list[str]) -> int:
    """Append the redacted address that begins at its scheme; return its end."""
    begin = scheme.end()
    following = _BEFORE_THE_NEXT.search(text, begin)
    limit = len(text) if following is None else following.start()
    quote = text[scheme.start() - 1 : scheme.start()]
    closing = text.rfind(quote, begin, limit) if quote and quote in "\"'" else -1
    # A password with a space: up to the last @ that could belong to this address.
    last = max(begin, text.rfind("@", begin, limit))
    end = closing if closing >= 0 else _end_of_word(text, last)
    shown.append(_rest(text[begin:end]))
    return end


def _value(text: str, key: re.Match[str], shown: list[str]) -> int:
    """Append a placeholder for the value behind the name of a secret; return its end."""
    kind = _TYPE.match(text, key.end())
    begin = key.end() if kind is None else kind.end()
    quoted = _QUOTED.match(text, begin)
    if quoted is not None:
        shown.append(HIDDEN)
        return quoted.end()
    end = _end_of_word(text, begin)
    shown.append(_hide(text[begin:end]))
    return end


def _end_of_word(text: str, begin: int) -> int:
    space = _SPACE.search(text, begin)
    return len(text) if space is None else space.start()


def _rest(rest: str) -> str:
    """Redact what follows the scheme of an address."""
    cut = re.search(r"[/?#]", rest)
    authority, path = (rest, "") if cut is None else (rest[: cut.start()], rest[cut.start() :])
    _, user, host = authority.rpartition("@")
    user = f"{HIDDEN}@" if user else ""
    if "@" not in path:
        return user + (host + _path(path) if _HOST.fullmatch(host) else HIDDEN)
    # Either the password holds a `/`, or the path an `@`. A name of a host and a query before the
    # first @ are no password: there is no colon.
    if not user and ":" not in host and _HOST.fullmatch(host) and _has_query(path):
        return host + _path(path)
    before, _, after = path.rpartition("@")
    if _KEY.search(before) is not None:  # then what follows the last @ can be its value
        return HIDDEN
    return f"{HIDDEN}@{_rest(after)}"


def _has_query(path: str) -> bool:
    """Whether a query begins before the first @, with a known name."""
    query = re.match(r"/[^?@]*(?P<name>\?[\w\-.]+=)", path)
    return query is not None and (
        _KEY.search(query["name"]) is not None or _PLAIN.match(query["name"][1:]) is not None
    )


def _path(path: str) -> str:
    """Redact path and query, with the secrets and addresses inside them."""
    inner, key = _SCHEME.search(path), _KEY.search(path)
    encoded = _ENCODED_SCHEME.search(path)
    first = min((match.start() for match in (inner, key, encoded) if match), default=len(path))
    if key is not None and key.start() == first:
        return path[: key.end()] + _hide(path[key.end() :])
    if inner is not None and inner.start() == first:
        return path[: inner.end()] + _rest(path[inner.end() :])
    return path if encoded is None else path[: encoded.start()] + _decode(path[encoded.start() :])


def _decode(text: str) -> str:
    """Decode and redact an address inside a query; what follows it belongs to the query again."""
    address, mark, after = text.partition("&")
    while _SCHEME.match(address) is None and (plain := unquote(address)) != address:
        address = plain
    return redact_url(address) + (mark + _path(after) if mark else "")


def _hide(value: str) -> str:
    """Hide a secret value, and what follows it unless it cannot be a part of the secret."""
    shown = HIDDEN
    for parameter in value.split("&")[1:]:
        plain = _PLAIN.fullmatch(parameter)
        if plain is None:
            continue
        if _KEY.search(f"&{plain['name']}="):
            shown += f"&{plain['name']}={HIDDEN}"
        elif _SMALL.fullmatch(plain["value"]):
            shown += f"&{parameter}"
    return shown
