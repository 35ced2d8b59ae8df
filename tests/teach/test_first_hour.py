"""From an empty project to a running station, clicked through in a real browser.

The camera, the child process, the golden check and the station are real; the model is the one of
tests/support/teach_engine, whose score is the brightest pixel, so that a fit takes a second.
"""

import time
from pathlib import Path

import numpy as np

from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fake_teach import scene
from tests.doubles.gige_camera import SERIAL, gige_camera
from tests.doubles.person import DESK, LONG_S, collect, draw, fit, judge, run
from tests.support.teach_site import keep, taught


def brightest(picture_hwc: np.ndarray, score: int) -> np.ndarray:
    """A scene whose score is known."""
    picture_hwc = np.minimum(picture_hwc, 90)
    picture_hwc[100:140, 150:200] = score
    return picture_hwc


def fit_and_run(tab: Tab, name: str, tmp_path: Path) -> None:
    """Until a verdict is shown."""
    fit(tab)
    judge(tab)
    keep(tab, f"{name}-judge", tmp_path)
    run(tab)


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
        # On a busy computer the camera may have shown good parts that were not captured.
        odd = "[...$('alarms').children].find(li => li.innerText.includes('score 250'))"
        tab.wait_for(f"{odd}.querySelector('img').naturalWidth")
        tab.wait_for("Number($('counters').innerText.match(/Defect\\s+(\\d+)/)[1]) > 0")
        bad.unlink()
        tab.evaluate("$('person').focus()")
        tab.call("Input.insertText", text="Ann")
        tab.evaluate(f"{odd}.querySelector('.actions button').click()")
        tab.wait_for("$('alarms').innerText.includes('Marked: Was good')")
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        keep(tab, "folder-run", tmp_path)
        tab.click("#learn-start")  # it would let nearly every defect pass: Ann alone cannot do it
        tab.wait_for("!$('asked').hidden && $('asked').innerText.includes('Ann wants to learn')")
        assert "really good?" in tab.text("#asked-what")
        assert service.state()["model"]["threshold"] < 200
        tab.evaluate("$('asked').querySelector('.person').select()")
        tab.call("Input.insertText", text="Bob")
        tab.click("#confirm")
        learned = "state.model.threshold === 250 && state.run.state === 'running'"
        tab.wait_for(learned, timeout_s=LONG_S)
        tab.evaluate("window.confirm = () => true")
        tab.click("#rollback")
        tab.wait_for("state.model.threshold < 200")
        browser.events.clear()  # the browser logs the refusal
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
