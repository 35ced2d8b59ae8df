"""The teaching page in a browser, over a service that answers at once, or over a real one."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgeseg.runtime.web.access import Access
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.web import serve
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fake_teach import FakeTeach
from tests.doubles.fakes import wait
from tests.support.teach_engine import CHILD

PHONE, HAND, TABLET = (360, 740), (390, 844), (820, 1180)
DESK, HALL = (1280, 800), (1920, 1080)
# The fake answers at once, so its page need not wait long before it asks again.
QUICK = (
    "const later = window.setTimeout; window.setTimeout = (run, ms, ...rest) =>"
    " later(run, ms <= 2000 ? ms / 10 : ms, ...rest);"
)
TABS = ("collect", "region", "fit", "judge", "run")


class Site:
    """A page over a fake."""

    def __init__(self, browser: Browser, **tokens: str) -> None:
        self.fake, self.errors, self.browser = FakeTeach(), [], browser
        self.tabs: list[Tab] = []
        self.server = serve(
            self.fake,
            Access(host="127.0.0.1", **tokens),
            port=0,
            on_error=lambda *error: self.errors.append(error),
        )

    def fill(self) -> None:
        """Everything that a page can show."""
        for kind, count in (("good", 14), ("bad", 3)):
            for _ in range(count):
                self.fake.capture(kind=kind)
        self.fake.end_fit()
        self.fake.running = "running"

    def open(
        self, tab: str, size_wh: tuple[int, int] = DESK, *, token: str = "", dark: bool = False
    ) -> Tab:
        query = f"?token={token}" if token else ""
        url = f"{self.server.url}{query}#{tab}"
        opened = self.browser.open(url, size_wh=size_wh, first=QUICK, dark=dark)
        self.tabs.append(opened)
        opened.wait_for("document.documentElement.dataset.ready")
        return opened

    def called(self, *call: object) -> None:
        wait(lambda: call in self.fake.calls, f"{call} in {self.fake.calls}")

    def called_list(self, asked: tuple) -> None:
        """Which pictures were asked for, from where on, and whether nothing had changed."""
        wait(lambda: asked in self.fake.lists, f"{asked} in {self.fake.lists}")

    def close(self) -> None:
        problems = self.browser.problems()
        for tab in self.tabs:
            tab.close()
        self.server.stop()
        assert not problems, problems
        assert not self.errors, self.errors


def keep(tab: Tab, name: str, tmp_path: Path) -> None:
    """Save a picture where EDGESEG_SCREENSHOTS says, for people to judge."""
    folder = Path(os.environ.get("EDGESEG_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(folder / f"teach-{name}.png")


@contextmanager
def taught(
    folder: Path, source: str, *, child: Sequence[str] = CHILD, rate: float = 0.05
) -> Iterator[tuple[TeachService, str]]:
    """A new project at a camera, and its page."""
    project = Project.open_or_create(folder)
    project.store(replace(project.settings(), source=source, rate=rate))
    service = TeachService(project, child=child)
    service.open_camera()
    errors: list[tuple[str, str]] = []
    server = serve(
        service, Access(host="127.0.0.1"), port=0, on_error=lambda *error: errors.append(error)
    )
    try:
        yield service, server.url
    finally:
        service.close()
        server.stop()
    assert not errors, errors
