"""Camera credentials never reach a log, an event, a metric or a page.

Redacting too much costs a little readability; too little costs a password. Where a text is
ambiguous (an unescaped `/` or `@` in a password), everything that could be a secret goes.
"""

import re

HIDDEN = "***"

_SCHEME = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)"
# Up to the LAST @ of the word: passwords hold unescaped @, / and ! in the wild.
_USERINFO = re.compile(_SCHEME + r"\S*@")
_WHOLE_URL = re.compile(_SCHEME + r".*@", re.DOTALL)  # the same, spaces included
# The same inside a query, percent-encoded once or twice: rtsp%3A%2F%2Fuser%3Apw%40cam.
_ENCODED_USERINFO = re.compile(
    r"(?P<scheme>%(?:25)?3A%(?:25)?2F%(?:25)?2F)\S*%(?:25)?40", re.IGNORECASE
)
_SECRET_WORD = (
    r"pass|pwd|psw|pas\b|pw|secret|token|auth|cred|login|user|usr|session|sid|sig|key|cookie|bearer"
)
# key=value in queries (?password=), paths (/user=admin_password=x_channel=1) and GStreamer
# properties (user-pw = "x y"); also an escaped equals sign.
_KEY_VALUE = re.compile(
    rf"(?P<key>(?<![A-Za-z])[\w\-]*(?:{_SECRET_WORD})[\w\-]*)(?P<equals>\s*(?:=|%3D)\s*)"
    r"(?:\([a-z]+\)\s*)?"  # GStreamer's (string) before a value
    r"(?:\\\"(?:(?!\\\").)*\\\"|\"(?:\\.|[^\"\\])*\"?|'[^']*'?|[^&\s]*)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"\b(?P<kind>Basic|Bearer|Digest)\s+[A-Za-z0-9+/=_.\-]{4,}")


def redact(text: str) -> str:
    """The text without user names, passwords and tokens."""
    text = _USERINFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _ENCODED_USERINFO.sub(rf"\g<scheme>{HIDDEN}%40", text)
    text = _KEY_VALUE.sub(rf"\g<key>\g<equals>{HIDDEN}", text)
    return _HEADER.sub(rf"\g<kind> {HIDDEN}", text)


def redact_url(url: str) -> str:
    """The same for a text that is one URL, where even a space belongs to the password."""
    match = _WHOLE_URL.match(url)
    return redact(f"{match['scheme']}{HIDDEN}@{url[match.end() :]}" if match else url)
