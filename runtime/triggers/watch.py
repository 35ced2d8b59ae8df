"""Check time-outs in a separate thread, which no hung inference can block."""

import threading

from edgeseg.runtime.station.station import Station

_EVERY_S = 0.01


class StationWatch:
    """A thread that ticks the station until it is closed."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="station", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._station.tick()

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join(1.0)
