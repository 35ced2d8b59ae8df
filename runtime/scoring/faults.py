"""Things that went wrong without stopping the run: counted, and said without flooding the log."""

import threading
import time
from collections import Counter
from collections.abc import Callable

_SAY_AGAIN_S = 60.0


class Faults:
    """Counts errors by name from any thread; says the first of each name, then one a minute."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._said_s: dict[str, float] = {}

    def count(self, name: str, message: str) -> None:
        """Count one error; the message must be free of credentials."""
        now_s = time.monotonic()
        with self._lock:
            self._counts[name] += 1
            total = self._counts[name]
            quiet = now_s - self._said_s.get(name, -_SAY_AGAIN_S) < _SAY_AGAIN_S
            if not quiet:
                self._said_s[name] = now_s
        if not quiet:
            more = f" ({total} so far)" if total > 1 else ""
            self._say(f"{name}: {message}{more}")

    def totals(self) -> dict[str, int]:
        """All counts so far."""
        with self._lock:
            return dict(self._counts)
