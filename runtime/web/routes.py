"""List a server's addresses as a table: who may use each, and the function that answers."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, TypeVar

from edgeseg.base.messages import Message, Words
from edgeseg.base.plain import Malformed, parse_object, record
from edgeseg.runtime.web.access import Role

MAX_BODY = 4096

Values = TypeVar("Values")


class Refused(Exception):
    """A refusal of a request: a status, and a sentence for the person who asked."""

    def __init__(self, status: HTTPStatus, sentence: Words) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request from someone who may make it."""

    role: Role
    caught: tuple[str, ...]  # by the groups of the route's path
    query: Mapping[str, str]
    body: bytes = b""
    came_ns: int = 0  # time.monotonic_ns() of the request's first byte

    def whole(self, key: str) -> int:
        """Return a number from the query, or 0 if it is none."""
        text = self.query.get(key, "0")
        return int(text) if text.isdecimal() and len(text) < 16 else 0

    def values(self, kind: type[Values], expected: str) -> Values:
        """Return the JSON object of the body as a record."""
        try:
            return record(kind, parse_object(self.body))
        except Malformed:
            raise Refused(HTTPStatus.BAD_REQUEST, f"expected {expected}") from None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A complete answer."""

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LivePictures:
    """An endless answer: one JPEG after another; None when none came in time."""

    watch: AbstractContextManager[Callable[[float], bytes | None]]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One address; `path` is a regular expression of all of it, percent signs decoded."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Request], Answer | LivePictures]
    role: Role = "operator"  # the least that may ask
    public: bool = False  # open without a token, and however crowded it is
    max_body: int = MAX_BODY
    body_s: float | None = None  # for a body that may take longer than others
    # A place for a body, from before it comes: by the address of who sends it, and its length.
    hold: Callable[[str, int], AbstractContextManager[None]] = lambda address, length: nullcontext()


def json_answer(value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Make an answer of values as JSON."""
    body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return Answer(content_type="application/json", body=body, status=status)


def page_answer(value: object) -> Answer:
    """Answer with the keys of sentences, for a page in another language."""
    return json_answer(for_page(value))


def for_page(value: Any) -> Any:
    """Return plain values: messages in words, their keys and values as `NAME_said` beside them."""
    if isinstance(value, Message):
        return str(value)
    if isinstance(value, list | tuple):
        return [for_page(item) for item in value]
    if not isinstance(value, dict):
        return value
    said = {f"{name}_said": _keys(item) for name, item in value.items()}
    return {
        **{name: for_page(item) for name, item in value.items()},
        **{name: keys for name, keys in said.items() if keys},
    }


def _keys(value: object) -> Any:
    """Return keys and values of a message or of a list of them; None for anything else."""
    if isinstance(value, Message):
        return value.to_json()
    messages = value if isinstance(value, list) else []
    return [item.to_json() for item in messages if isinstance(item, Message)] or None


def jpeg_answer(jpeg: bytes | None) -> Answer:
    """Make an answer of a picture, or refuse if it no longer exists."""
    if jpeg is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no such picture")
    return Answer(content_type="image/jpeg", body=jpeg)


def html_answer(html: bytes) -> Answer:
    """Make an answer of a page, which may run its own script and no other."""
    policy = {"Content-Security-Policy": content_security_policy(html)}
    return Answer(content_type="text/html; charset=utf-8", body=html, headers=policy)


def health_answer(healthy: bool, sentence: str) -> Answer:
    """Make an answer for a service that restarts a stopped stream."""
    status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
    body = sentence.encode() + b"\n"
    return Answer(content_type="text/plain; charset=utf-8", body=body, status=status)


def content_security_policy(html: bytes) -> str:
    """Allow only our own inline script and style, by their hashes."""

    def hashes(tag: bytes) -> str:
        bodies = re.findall(b"<%s>(.*?)</%s>" % (tag, tag), html, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(body).digest()).decode() for body in bodies)
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    return (
        f"default-src 'none'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
        f"base-uri 'none'; frame-ancestors 'none'; "
        f"script-src {hashes(b'script')}; style-src {hashes(b'style')}"
    )
