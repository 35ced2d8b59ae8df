"""A page with a client for it, for the tests of the web server."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.sinks.counters import Counters
from edgeseg.runtime.sinks.shift_times import ShiftTimes
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.page_sink import PageSink
from tests.support.brightness_model import brightness_metadata
from tests.support.http_client import request
from tests.support.scored_frames import FakeView

TOKEN = "a-token-of-the-test-0123456789"


class FakeRecorder:
    def __init__(self) -> None:
        self.active = False
        self.error: str | None = None

    def start(self) -> None:
        if self.error:
            raise RuntimeFailure(self.error)
        self.active = True

    def stop(self) -> None:
        self.active = False


def unsaved(on_error: Callable[[str, str], None]) -> Counters:
    """Counters of this run alone."""
    return Counters(None, times=ShiftTimes(), on_error=on_error)


class Site:
    """A page and a client for it."""

    def __init__(
        self,
        *,
        token: str | None = None,
        stale_after_s: float = 10.0,
        station: Station | None = None,
        recipes: tuple[str, ...] = (),
    ) -> None:
        self.view, self.recorder, self.errors = FakeView(), FakeRecorder(), []
        metadata = brightness_metadata()
        self.drift = DriftSink(metadata)
        self.counters = unsaved(lambda name, text: self.errors.append((name, text)))
        self.page = PageSink(
            metadata=metadata,
            view=self.view,
            counters=self.counters,
            on_error=lambda name, text: self.errors.append((name, text)),
            host="127.0.0.1",
            port=0,
            token=token,
            drift=self.drift,
            recorder=self.recorder,
            stale_after_s=stale_after_s,
            station=station,
            recipes=recipes,
        )
        self.port = urlsplit(self.page.url).port or 0

    def ask(
        self, path: str, *, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; `_` in a header's name stands for `-`."""
        return request(self.port, method, path, body=body, headers=headers)

    def state(self, query: str = "") -> dict:
        return json.loads(self.ask(f"/state{query}")[2])

    def screen(self, query: str = "") -> dict:
        return json.loads(self.ask(f"/screen{query}")[2])

    def rejects(self, query: str = "") -> dict:
        return json.loads(self.ask(f"/rejects{query}")[2])


@contextmanager
def running(
    *,
    token: str | None = None,
    station: Station | None = None,
    recipes: tuple[str, ...] = (),
) -> Iterator[Site]:
    """A page that is closed again; nothing may have gone wrong behind it."""
    started = Site(token=token, station=station, recipes=recipes)
    try:
        yield started
    finally:
        started.page.close()
    assert started.errors == []
