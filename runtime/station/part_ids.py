"""Keep a part id that was announced for the next part, until its trigger takes it, once."""

from collections.abc import Callable

from edgeseg.runtime.events.codes import PartNote

NAME = "part_id"  # the key of its error counter


class AnnouncedPart:
    """The announced part id; the caller holds the station's lock.

    An id is for a trigger after it, within `max_age_s`: an older one belongs to a part that passed
    without a trigger, and would name the wrong part. A repeated id of the last part is ignored:
    networks deliver twice.
    """

    def __init__(self, max_age_s: float, on_error: Callable[[str, str], None]) -> None:
        self._max_age_ns, self._on_error = int(max_age_s * 1e9), on_error
        self._waiting: tuple[str, int] | None = None
        self._taken = ""
        self._used = False  # nobody misses ids where none are announced

    def announce(self, part_id: str, now_ns: int) -> None:
        """Set the id of the next part; an empty one withdraws it."""
        self._used = True
        if part_id and part_id == self._taken:
            return
        if self._waiting is not None and part_id not in ("", self._waiting[0]):
            self._on_error(NAME, f"{self._waiting[0]} was never taken: {part_id} came after it")
        self._waiting = (part_id, now_ns) if part_id else None

    def take(self, at_ns: int) -> tuple[str, PartNote]:
        """Return the id for a trigger of that moment, and a note on it."""
        if not self._used:
            return "", PartNote.NONE
        if self._waiting is None or self._waiting[1] > at_ns:
            self._on_error(NAME, "a part came without an id")
            return "", PartNote.MISSING
        (part_id, announced_ns), self._waiting = self._waiting, None
        self._taken = part_id
        age_ns = at_ns - announced_ns
        if age_ns > self._max_age_ns:
            self._on_error(NAME, f"{part_id} is not taken: announced {age_ns / 1e9:.1f} s before")
            return "", PartNote.STALE
        return part_id, PartNote.NONE
