"""Makes the pictures of the pages from the pages themselves; needs chromium, takes a minute.

    python -m docs.screenshots docs/pictures

A synthetic part lies before a folder that is the camera. The teaching page fits it, and
`edgeseg stream --serve` shows the model that was fitted. Not part of the package.
"""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.doubles import person
from tests.doubles.chromium import Browser, Tab, open_browser
from tests.doubles.server_process import ServerProcess

GOOD = 60
QUALITY = 75  # of a JPEG: a page stays sharp, and below 150 kB
SEEN = 220  # frames that a stream has scored: from 200 on its drift watch knows
PART = ("--size", "384x512", "--train", str(GOOD))
CAMERA = "synthetic:fps=5,defects=0.1,height=384,width=512"
# The page of a stream: the name of the picture, size, language, and whether it is dark.
LOOKS = (
    ("live", (1280, 800), "en", False),
    ("live-phone", (390, 844), "en", True),
    ("live-hall", (1920, 1080), "de", True),
)
# A defect, with the reject that is held and one in the list; words and picture are of one part.
STOPPED = """$('verdict').matches('.bad') && $('held-view').querySelector('img')
    && document.querySelector('#alarms img')?.naturalWidth"""
ROOT = Path(__file__).resolve().parents[1]
EDGESEG = (sys.executable, "-m", "edgeseg")


class Page(ServerProcess):
    """A command with a page, while it is entered."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self._words, self.url = words, f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> "Page":
        self._listen([*EDGESEG, *self._words, "--serve", str(self.port)])
        return self


def keep(tab: Tab, path: Path) -> None:
    """Save what the window shows."""
    shown = tab.call("Page.captureScreenshot", format="jpeg", quality=QUALITY)
    path.write_bytes(base64.b64decode(shown["data"]))


def teach(browser: Browser, work: Path, out: Path) -> None:
    """Collect, fit and judge."""
    good, camera = work / "gears/train/good", work / "camera"
    shutil.copytree(work / "gears/test/good", camera)
    words = ("teach", "--project", str(work / "line3"), "--source", str(camera))
    with Page(*words, "--graph", str(work / "lite1.onnx")) as page:
        tab = browser.open(page.url, size_wh=person.DESK)
        person.look(tab)
        shutil.copytree(good, work / "line3/good", dirs_exist_ok=True)  # as if they were captured
        seen = "[...$('thumbnails').querySelectorAll('img')].slice(0, 6).every(e => e.naturalWidth)"
        tab.wait_for(f"state.good === {GOOD} && $('thumbnails').children.length && {seen}")
        tab.wait_for("state.parts.different", timeout_s=person.LONG_S)  # which takes its time
        bar = "$('enough').querySelector('i')"
        tab.wait_for(f"{bar}.offsetWidth === Math.round({bar}.parentNode.clientWidth)")
        keep(tab, out / "teach-collect.jpg")
        person.fit(tab)
        person.judge(tab)
        tab.evaluate("scrollTo(0, 0)")
        keep(tab, out / "teach-judge.jpg")
        tab.close()


def live(browser: Browser, work: Path, out: Path) -> None:
    """The page of a stream, at the moment of a reject."""
    model = work / "line3/fit/model.onnx"
    with Page("stream", "--model", str(model), "--source", CAMERA) as page:
        for name, size_wh, language, dark in LOOKS:
            first = f"localStorage.setItem('edgeseg.language', '{language}')"
            tab = browser.open(page.url, size_wh=size_wh, dark=dark, first=first)
            seen = f"state.sources[0].scored > {SEEN} && {STOPPED}"
            tab.wait_for(seen, timeout_s=person.LONG_S)
            keep(tab, out / f"{name}.jpg")
            tab.close()


def edgeseg(words: Sequence[str], *, cwd: Path) -> None:
    """Run a command of this checkout to its end."""
    place = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*EDGESEG, *words]
    subprocess.run(command, cwd=cwd, env=place, check=True, stdout=subprocess.DEVNULL)


def main(out: Path) -> None:
    """Make all pictures anew."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        work = Path(folder)
        edgeseg(["synthesize", "gears", *PART], cwd=work)
        edgeseg(["export-backbone", "lite1.onnx"], cwd=work)
        teach(browser, work, out)
        live(browser, work, out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} FOLDER")
    main(Path(sys.argv[1]))
