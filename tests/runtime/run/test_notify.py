"""sd_notify over a real datagram socket: ready, status, a watchdog that only a live loop feeds."""

import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.progress import ignore
from edgeseg.cli.stream_command import stream
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.run.notify import Notifier
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from tests.doubles.fakes import Blocking, BrightnessSession, Canned, camera, clip, grey, opens, wait
from tests.support import HANGS_S
from tests.support.brightness_model import brightness_metadata, write_brightness_model


class Manager:
    """What systemd hears."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(30)

    def lines(self) -> list[str]:
        return self.socket.recv(65536).decode().splitlines()

    def pending(self) -> list[str]:
        """All that was sent so far."""
        heard: list[str] = []
        self.socket.setblocking(False)
        try:
            while True:
                heard += self.lines()
        except BlockingIOError:
            return heard
        finally:
            self.socket.settimeout(30)


@pytest.fixture(params=["a file", "Linux' own name space"])
def manager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory() as folder:  # a socket's name must be short
        in_space = f"@edgeseg-test-{os.getpid()}-{time.monotonic_ns()}"
        address = str(Path(folder) / "notify") if request.param == "a file" else in_space
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        heard = Manager(address)
        yield heard
        heard.socket.close()


def pipeline(
    session: BrightnessSession, *captures: object, stop: threading.Event, file: bool = False
) -> Pipeline:
    return Pipeline(
        session,
        [clip() if file else camera()],
        config=PipelineConfig(queue_size=8, stall_timeout_s=0.4),
        faults=Faults(ignore),
        stop=stop,
        note=ignore,
        opener=opens(*captures),  # type: ignore[arg-type]
    )


def run(made: Pipeline) -> threading.Thread:
    def scored() -> None:
        with Notifier(made):
            made.run()

    thread = threading.Thread(target=scored)
    thread.start()
    return thread


def test_ready_status_watchdog_and_stopping(manager: Manager) -> None:
    made = pipeline(BrightnessSession(), Canned([grey(1)] * 20), stop=threading.Event(), file=True)
    with Notifier(made):
        assert manager.pending() == [], "not ready before the loop runs"
        made.run()
    ready, watchdog, status, *rest = manager.pending()
    assert (ready, watchdog) == ("READY=1", "WATCHDOG=1")
    assert status.startswith("STATUS=0 s  in ")
    assert rest[-1] == "STOPPING=1"
    assert rest.count("READY=1") == 0


def test_a_lost_camera_is_no_reason_to_start_again(manager: Manager) -> None:
    stop = threading.Event()
    made = pipeline(BrightnessSession(), Canned([grey(1)]), stop=stop)
    thread = run(made)
    wait(lambda: made.faults.totals().get("source_lost", 0) > 0, "the loss")
    manager.pending()
    heard = [manager.lines() for _ in range(3)]
    stop.set()
    thread.join(HANGS_S)
    assert all("WATCHDOG=1" in lines for lines in heard)
    assert manager.pending()[-1] == "STOPPING=1"


def test_a_hung_loop_stops_feeding(manager: Manager) -> None:
    stop, hung = threading.Event(), threading.Event()

    def meanwhile() -> None:
        if threading.current_thread() is not threading.main_thread() and made.meters.scored:
            hung.set()
            wait(stop.is_set, "the test's end")

    session = BrightnessSession(meanwhile=meanwhile)
    made = pipeline(session, Canned([grey(1)] * 9), stop=stop, file=True)
    thread = run(made)
    wait(hung.is_set, "the second frame")
    manager.pending()
    time.sleep(0.5)  # five rounds of the loop, if it went on
    silent = manager.pending() == []
    stop.set()
    thread.join(HANGS_S)
    assert silent


def test_a_driver_that_never_returns_stops_the_feeding(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, stop = threading.Event(), threading.Event()
    made = pipeline(BrightnessSession(), Blocking(release), stop=stop)
    notifier = Notifier(made)
    made.readers[0].start()
    wait(lambda: made.readers[0].is_stuck(time.monotonic() + 61), "it is in its driver")
    notifier.beat()
    assert "WATCHDOG=1" in manager.pending()
    monkeypatch.setattr(Reader, "is_stuck", lambda self, now_s: True)
    notifier._next_status_s = 0.0
    notifier.beat()
    (status,) = manager.pending()
    assert status.startswith("STATUS=cam: its driver hangs  ")
    stop.set()
    release.set()
    assert made.readers[0].join(timeout_s=HANGS_S)
    monkeypatch.undo()
    assert not made.readers[0].is_stuck(time.monotonic() + 3600)


def test_the_command_itself_tells_it(manager: Manager, tmp_path: Path) -> None:
    model = tmp_path / "part.onnx"
    write_brightness_model(model, metadata=brightness_metadata())
    source = "synthetic:fps=0,frames=5,height=64,width=96"
    done = CliRunner().invoke(
        stream, ["--model", str(model), "--backend", "cpu", "--source", source]
    )
    assert done.exit_code == 0, done.output
    heard = manager.pending()
    assert heard[:2] == ["READY=1", "WATCHDOG=1"]
    assert heard[-1] == "STOPPING=1"


def test_without_a_manager_nothing_is_sent_and_without_its_socket_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    made = pipeline(BrightnessSession(), Canned([grey(1)] * 3), stop=threading.Event(), file=True)
    with Notifier(made):
        made.run()
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    Notifier(made).beat()
