"""The teaching page over a service that answers at once, in a browser."""

import os
from pathlib import Path

from edgeseg.teach.web import WebOptions, serve
from tests.support.chromium import Browser, Tab
from tests.support.fake_teach import FakeTeach
from tests.support.fakes import wait

PHONE, TABLET, DESK, HALL = (360, 740), (820, 1180), (1280, 800), (1920, 1080)
TABS = ("collect", "region", "fit", "judge", "run")


class Site:
    """A page over a fake."""

    def __init__(self, browser: Browser, **tokens: str) -> None:
        self.fake, self.errors, self.browser = FakeTeach(), [], browser
        self.tabs: list[Tab] = []
        self.server = serve(
            self.fake,
            WebOptions(port=0, **tokens),
            on_error=lambda *error: self.errors.append(error),
        )

    def fill(self) -> None:
        """Everything that a page can show."""
        for kind, count in (("good", 14), ("bad", 3)):
            for _ in range(count):
                self.fake.capture(kind=kind)
        self.fake.end_fit()
        self.fake.running = "running"

    def open(self, tab: str, size_wh: tuple[int, int] = DESK, *, token: str = "") -> Tab:
        query = f"?token={token}" if token else ""
        opened = self.browser.open(f"{self.server.url}{query}#{tab}", size_wh=size_wh)
        self.tabs.append(opened)
        opened.wait_for("document.documentElement.dataset.ready")
        return opened

    def called(self, *call: object) -> None:
        wait(lambda: call in self.fake.calls, f"{call} in {self.fake.calls}")

    def close(self) -> None:
        problems = self.browser.problems()
        for tab in self.tabs:
            tab.close()
        self.server.stop()
        assert (problems, self.errors) == ([], [])


def keep(tab: Tab, name: str, tmp_path: Path) -> None:
    """Save a picture where EDGESEG_SCREENSHOTS says, for people to judge."""
    folder = Path(os.environ.get("EDGESEG_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(folder / f"teach-{name}.png")
