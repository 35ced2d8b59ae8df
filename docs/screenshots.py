"""Makes the pictures of the pages from the pages themselves; needs chromium, takes a minute.

    python -m docs.screenshots docs/pictures

A synthetic part lies before a folder that is the camera. The teaching page fits it, and
`edgeseg stream --serve` shows the model that was fitted. Not part of the package.
"""

import base64
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
QUALITY = 80  # of a JPEG: a page stays sharp, and below 150 kB
SEEN = 220  # frames that a stream has scored: from 200 on its drift watch knows
PART = ("--size", "384x512", "--train", str(GOOD))
CAMERA = "synthetic:fps=5,defects=0.1,height=384,width=512"
# The live picture has the red frame of an alarm, like the figures beside it.
FRAMED = """() => {
    const one = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
    const pen = one.getContext('2d');
    pen.drawImage($('picture'), 0, 0, 1, 1, 0, 0, 1, 1);
    const [red, green] = pen.getImageData(0, 0, 1, 1).data;
    return red > 2 * green;
}"""
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
        keep(tab, out / "teach-collect.jpg")
        person.fit(tab)
        person.judge(tab)
        keep(tab, out / "teach-judge.jpg")
        tab.close()


def live(browser: Browser, work: Path, out: Path) -> None:
    """The page of a stream, at the moment of an alarm."""
    model = work / "line3/fit/model.onnx"
    with Page("stream", "--model", str(model), "--source", CAMERA) as page:
        tab = browser.open(page.url, size_wh=person.DESK)
        now = "state.sources[0]"
        seen = f"{now}.scored > {SEEN} && {now}.verdict === 'defect' && ({FRAMED})()"
        tab.wait_for(seen, timeout_s=person.LONG_S)
        keep(tab, out / "live.jpg")
        tab.close()


def edgeseg(words: Sequence[str], *, cwd: Path) -> None:
    """Run a command to its end."""
    subprocess.run([*EDGESEG, *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


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
