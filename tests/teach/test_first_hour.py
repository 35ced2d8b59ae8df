"""From an empty project to a running station, clicked through in a real browser.

The camera, the child process, the golden check and the station are real; the model is the one of
tests/support/teach_engine, whose score is the brightest pixel, so that a fit takes a second.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.contract.images import write_image
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.web import WebOptions, serve
from tests.support.chromium import Browser, Tab, open_browser
from tests.support.fake_teach import scene
from tests.support.gige_camera import SERIAL, gige_camera
from tests.support.teach_engine import CHILD
from tests.support.teach_site import DESK, keep

LONG_S = 120.0  # for a process of its own, on a computer that is busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@contextmanager
def taught(folder: Path, source: str) -> Iterator[tuple[TeachService, str]]:
    """A new project at a camera, and its page."""
    project = Project.begun(folder)
    project.store(replace(project.settings(), source=source, rate=0.05))
    service = TeachService(project, child=CHILD)
    service.open_camera()
    errors: list[tuple[str, str]] = []
    server = serve(service, WebOptions(port=0), on_error=lambda *error: errors.append(error))
    try:
        yield service, server.url
    finally:
        service.close()
        server.stop()
    assert errors == []


def brightest(picture_hwc: np.ndarray, score: int) -> np.ndarray:
    """A scene whose score is known."""
    picture_hwc = np.minimum(picture_hwc, 90)
    picture_hwc[100:140, 150:200] = score
    return picture_hwc


def collect(tab: Tab, count: int) -> None:
    """Press the button for each part."""
    tab.wait_for("!$('capture').disabled && !$('live').hidden")
    for _ in range(count):
        before = tab.evaluate("state.good")
        tab.click("#capture")
        tab.wait_for(f"state.good > {before}")


def draw(tab: Tab, *corners_share: tuple[float, float]) -> None:
    """Pull a rectangle over the picture."""
    tab.click("#tab-region")
    tab.wait_for("regionLoaded && !$('live').hidden")
    box = tab.evaluate("(b => [b.x, b.y, b.width, b.height])($('drawing').getBoundingClientRect())")
    tab.drag(*((box[0] + x * box[2], box[1] + y * box[3]) for x, y in corners_share))
    tab.wait_for("$('region-saved').innerText.startsWith('Stored.')")


def fit_and_run(tab: Tab, name: str, tmp_path: Path) -> None:
    """Until a verdict is shown."""
    tab.click("#tab-fit")
    tab.click("#fit-start")
    tab.wait_for("state.fit.state === 'done'", timeout_s=LONG_S)
    tab.click("#fit-next")
    tab.wait_for("!$('judged').hidden && document.querySelector('#worst img')?.naturalWidth")
    keep(tab, f"{name}-judge", tmp_path)
    tab.click("#judge-next")
    tab.click("#run-start")
    tab.wait_for(
        "state.run.state === 'running' && $('verdict').matches('.good, .bad')", timeout_s=LONG_S
    )


def test_a_folder_as_camera(browser: Browser, tmp_path: Path) -> None:
    for index in range(8):
        picture_hwc = brightest(scene(5 * index), 100 + 5 * index)
        write_image(tmp_path / "camera" / f"{index}.png", picture_hwc)
    bad = tmp_path / "camera" / "scratch.png"
    with taught(tmp_path / "line3", str(tmp_path / "camera")) as (service, url):
        begin_s = time.monotonic()
        tab = browser.open(url, size_wh=DESK)
        collect(tab, 6)
        keep(tab, "folder-collect", tmp_path)
        draw(tab, (0.3, 0.2), (0.5, 0.5), (0.8, 0.9))
        fit_and_run(tab, "folder", tmp_path)
        seconds = time.monotonic() - begin_s
        print(f"from the open page to a running station: {seconds:.1f} s, folder as camera")
        write_image(bad, brightest(scene(50), 250))  # a part that is not good comes along
        tab.wait_for("document.querySelector('#alarms li img')?.naturalWidth")
        tab.wait_for("Number($('counters').innerText.match(/Defect\\s+(\\d+)/)[1]) > 0")
        bad.unlink()
        tab.evaluate("$('person').focus()")
        tab.call("Input.insertText", text="Ann")
        tab.click("#alarms li:first-child .actions button:nth-child(1)")
        tab.wait_for("$('alarms').innerText.includes('Marked: Was good')")
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        keep(tab, "folder-run", tmp_path)
        tab.click("#learn-start")
        learned = "state.model.threshold === 250 && state.run.state === 'running'"
        tab.wait_for(learned, timeout_s=LONG_S)
        tab.evaluate("window.confirm = () => true")
        tab.click("#rollback")
        tab.wait_for("state.model.threshold < 200")
        tab.reload()  # nothing is lost
        tab.wait_for(
            "tab === 'run' && state.run.state === 'running' && $('verdict').matches('.good')"
        )
        assert service.region()["roi"] is not None
        tab.click("#run-stop")
        tab.wait_for("state.run.state === 'stopped' && state.camera.ok")
        assert browser.problems() == []
        tab.close()


def test_a_camera_of_gige_vision(browser: Browser, tmp_path: Path) -> None:
    with gige_camera() as camera:
        camera.start()
        with taught(tmp_path / "line4", f"aravis:{SERIAL}") as (service, url):
            begin_s = time.monotonic()
            tab = browser.open(url, size_wh=DESK)
            collect(tab, 6)
            fit_and_run(tab, "gige", tmp_path)
            seconds = time.monotonic() - begin_s
            print(
                f"from the open page to a running station: {seconds:.1f} s, camera of GigE Vision"
            )
            assert service.state()["camera"]["width"] == 512
            keep(tab, "gige-run", tmp_path)
            tab.click("#run-stop")
            tab.wait_for("state.run.state === 'stopped'")
            assert browser.problems() == []
            tab.close()
