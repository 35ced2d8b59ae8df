"""What the page's server needs from whoever has something to show."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from edgeseg.runtime.web.access import Access


class Page(Protocol):
    """What the server shows."""

    access: Access

    def html(self) -> bytes:
        """The page itself."""

    def state(self, *, source_index: int, after: int) -> Mapping[str, object]:
        """Live numbers; scores of one source from a bucket on."""

    def events(self, *, after: int) -> list[dict[str, object]]:
        """Events with a higher number."""

    def metrics(self) -> tuple[str, bytes]:
        """Content type and body for Prometheus."""

    def health(self) -> tuple[bool, str]:
        """Whether frames are being scored, and a sentence."""

    def alarm_picture(self, number: int) -> bytes | None:
        """JPEG of a recent alarm."""

    def drift_picture(self, source_index: int) -> bytes | None:
        """JPEG of where a source has drifted."""

    def source_count(self) -> int:
        """How many sources there are."""

    def watch(self, source_index: int) -> AbstractContextManager[Callable[[float], bytes | None]]:
        """The next JPEG of the live view, again and again."""

    def record(self, *, active: bool) -> bool:
        """Start or stop recording; returns whether a video is being written now."""
