"""Read a camera that gives one picture per request: http://camera/picture.jpg.

FFmpeg would decode a picture that was cut on its way, with the missing part grey. Here it is
decoded like a file: a picture that a fit refuses is an unreadable frame.

A picture is stamped when it is requested: it is exposed after that, unless the camera sends one
that it has stored. Where the answer tells its age, the stamp is as much earlier.
"""

import time
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPBasicAuthHandler,
    HTTPDigestAuthHandler,
    HTTPPasswordMgrWithDefaultRealm,
    build_opener,
)

from edgeseg.base.errors import DatasetError
from edgeseg.runtime.capture.captures import Grab, Pace, Wait
from edgeseg.vision.images import IMAGE_SUFFIXES, decode_image
from edgeseg.vision.picture_size import MAX_PIXELS

_MOST_BYTES = 64_000_000  # of one picture
_MOST_A_SECOND = 10.0  # requests: gentle to a small camera, and enough for one that is asked


def is_picture_address(text: str) -> bool:
    """Whether an address names a picture, not a stream."""
    try:
        parts = urlsplit(text)
    except ValueError:  # a bracket in a password looks like an address of IPv6
        return False
    suffix = PurePosixPath(parts.path).suffix.lower()
    return parts.scheme.lower() in ("http", "https") and suffix in IMAGE_SUFFIXES


def seconds_kept(headers: HTTPMessage) -> float:
    """Return how long the picture was stored on the server or on the way, by its headers.

    Both dates are of the server's clock, in whole seconds: a second that has begun counts.
    """
    age = headers.get("Age", "0").strip()
    kept_s = float(age) if age.isdecimal() else 0.0
    try:
        answered, modified = (
            parsedate_to_datetime(headers[name]) for name in ("Date", "Last-Modified")
        )
        kept_s = max(kept_s, (answered - modified).total_seconds())
    except (TypeError, ValueError):  # one of them is missing, or is no date
        pass
    return kept_s + 1.0 if kept_s > 0 else 0.0


class PictureAddress:
    """A source that requests pictures; no answer loses it, a damaged one is unreadable."""

    fps = 0.0

    def __init__(
        self, url: str, *, timeout_s: float, wait: Wait, max_pixels: int = MAX_PIXELS
    ) -> None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
        self._timeout_s, self._max_pixels = timeout_s, max_pixels
        self._pace = Pace(_MOST_A_SECOND, wait=wait)
        passwords = HTTPPasswordMgrWithDefaultRealm()
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            passwords.add_password(None, self._url, user, password)
        self._opener = build_opener(
            HTTPDigestAuthHandler(passwords), HTTPBasicAuthHandler(passwords)
        )

    def read(self) -> Grab | None:
        """Return the next picture; None when no answer has one."""
        if self._pace.ending():
            return None
        asked_ns, asked_wall_s = time.monotonic_ns(), time.time()
        try:
            with self._opener.open(self._url, timeout=self._timeout_s) as answer:
                data = answer.read(_MOST_BYTES + 1)
                kept_s = seconds_kept(answer.headers)
        except (OSError, HTTPException, ValueError):  # also refused, or no HTTP at all
            return None
        grabbed_ns, wall_s = asked_ns - int(kept_s * 1e9), asked_wall_s - kept_s
        if not data:
            return None
        try:
            image_hwc = decode_image(data, name="a picture", max_pixels=self._max_pixels)
        except DatasetError:
            return Grab(None, "rgb", grabbed_ns, wall_s)
        return Grab(image_hwc, "rgb", grabbed_ns, wall_s)

    def close(self) -> None:
        """Do nothing: no connection stays open between two requests."""
