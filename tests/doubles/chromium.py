"""A real browser to press buttons in: Debian's chromium over its debugging pipe, nothing else.

`--remote-debugging-pipe` speaks JSON ended by a zero byte on descriptors 3 and 4.
"""

import base64
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import RuntimeFailure
from tests.support import HANGS_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
TIMEOUT_S = HANGS_S
# What chromium says of a page that is being left.
_LEFT = ("navigated or closed", "context was destroyed", "Cannot find context")
_LOOK_S = 0.02

KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Delete": 46,
}


# The middle of an element, or what lies over it; and a guard over the press that follows: an event
# that lands elsewhere, because the page has moved meanwhile, is kept from whatever it would press.
_AIM = """e => {
    e.scrollIntoView({block: 'center', behavior: 'instant'});
    const box = e.getBoundingClientRect();
    const place = [box.x + box.width / 2, box.y + box.height / 2];
    const meant = at => e.contains(at) || e === at.closest('label')?.control;
    const top = document.elementFromPoint(...place);
    if (!meant(top)) return [null, top.outerHTML.slice(0, 200)];
    window.pressed = false;
    const guard = event => {
        if (!meant(event.target)) { event.stopImmediatePropagation(); event.preventDefault(); }
        else if (event.type === 'click') window.pressed = true;
    };
    window.unguard?.();
    const kinds = ['mousedown', 'mouseup', 'click'];
    for (const kind of kinds) addEventListener(kind, guard, true);
    window.unguard = () => { for (const kind of kinds) removeEventListener(kind, guard, true); };
    return place;
}"""


def _find(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


class PageLeft(RuntimeFailure):
    """A page was asked while another one took its place."""


class Tab:
    """One page, with the size and colour scheme of a device."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        return self._browser.call(method, session=self._session, **params)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeFailure(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until an expression is true; while a page loads it may also fail."""
        deadline_s = time.monotonic() + timeout_s
        guarded = f"(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()"
        while not self._evaluate_or_none(guarded):
            if time.monotonic() > deadline_s:
                raise RuntimeFailure(f"never true: {expression}")
            time.sleep(_LOOK_S)

    def _evaluate_or_none(self, expression: str) -> Any:
        """The value; None also where another page came meanwhile."""
        try:
            return self.evaluate(expression)
        except PageLeft:
            return None

    def click(self, selector: str) -> None:
        """Press what a person sees there, again if it was covered or moved away under the press."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while problem := self._press(selector):
            if time.monotonic() > deadline_s:
                raise RuntimeFailure(f"{selector} {problem}")
            time.sleep(_LOOK_S)

    def _press(self, selector: str) -> str:
        """What stood in the way; nothing if it was pressed."""
        found = _find(selector)
        self.wait_for(f"(e => e && !e.disabled && e.getClientRects().length)({found})")
        place = None
        while (now := self.evaluate(f"({_AIM})({found})")) != place:
            place = now  # a page that is still being filled moves
            time.sleep(_LOOK_S)
        x, y = now
        if x is None:
            return f"is covered by {y}"
        self.drag((x, y))
        landed = self._evaluate_or_none("window.unguard?.(), window.pressed")
        return "moved away under the press" if landed is False else ""  # None: another page

    def drag(self, *points_xy: tuple[float, float]) -> None:
        """The left button down at the first point, up at the last."""
        first, last = points_xy[0], points_xy[-1]
        self._mouse("mouseMoved", first, button="none")
        self._mouse("mousePressed", first)
        for point in points_xy[1:]:
            self._mouse("mouseMoved", point)
        self._mouse("mouseReleased", last)

    def _mouse(self, kind: str, at_xy: tuple[float, float], *, button: str = "left") -> None:
        x, y = at_xy
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def touch(self, *points_xy: tuple[float, float]) -> None:
        """A finger that goes down at the first point and up at the last."""
        for index, (x, y) in enumerate(points_xy):
            kind = "touchMove" if index else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str, *, shift: bool = False, ctrl: bool = False) -> None:
        """A key by its name."""
        about: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 * shift + 2 * ctrl}
        about["windowsVirtualKeyCode"] = KEYS.get(key, ord(key[0].upper()))
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def text(self, selector: str) -> str:
        """What stands in the first element that is found."""
        return str(self.evaluate(f"{_find(selector)}.innerText"))

    def reload(self) -> None:
        """Load the page again; when this returns, the old one is gone."""
        begin = len(self._browser.events)
        self.call("Page.reload")
        self._browser.wait_event("Page.frameNavigated", session=self._session, begin=begin)

    def close(self) -> None:
        """Close the page; what it still says while it closes is no problem of its own."""
        self.call("Page.close")
        self._browser.wait_detached(self._session)

    def screenshot(self, path: Path) -> None:
        """A PNG of the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """The process and its pipe."""

    def __init__(self, pid: int, read_fd: int, write_fd: int) -> None:
        self._pid, self._read_fd, self._write_fd = pid, read_fd, write_fd
        self._pending = b""
        self._number = 0
        self._profile: dict[str, str] = {}  # of the pages that are opened
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, *, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            left = any(words in answer["error"]["message"] for words in _LEFT)
            raise (PageLeft if left else RuntimeFailure)(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait_event(self, method: str, *, session: str, begin: int) -> None:
        """Wait for an event of a page, among those from number `begin` on."""
        while (method, session) not in {
            (event.get("method"), event.get("sessionId")) for event in self.events[begin:]
        }:
            self.events.append(self._receive())

    def wait_detached(self, session: str) -> None:
        """Wait until a page is gone, and forget what was said."""
        gone = ("Target.detachedFromTarget", session)
        while gone not in {
            (event.get("method"), event.get("params", {}).get("sessionId")) for event in self.events
        }:
            self.events.append(self._receive())
        self.events.clear()

    @contextmanager
    def own_profile(self) -> Iterator[None]:
        """Let pages keep things from each other's sites, and be gone with all of it at the end."""
        self._profile = self.call("Target.createBrowserContext")
        yield
        self.call("Target.disposeBrowserContext", **self._profile)
        self._profile = {}
        self.events.clear()

    def open(
        self, url: str, *, size_wh: tuple[int, int], dark: bool = False, first: str = ""
    ) -> Tab:
        """A new page; `first` is a script that runs before its own."""
        target = self.call("Target.createTarget", url="about:blank", **self._profile)["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, attached["sessionId"])
        width, height = size_wh
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        if first:
            tab.call("Page.addScriptToEvaluateOnNewDocument", source=first)
        tab.call("Page.navigate", url=url)
        return tab

    def problems(self) -> list[str]:
        """What the pages logged as errors, and exceptions that nobody caught.

        The picture of a part is kept for seconds, and a browser on a busy computer may ask later:
        the page then shows the next part (docs/screen.md), so that is no problem.
        """
        problems = []
        for event in self.events:
            entry = event.get("params", {}).get("entry", {})
            if event.get("method") == "Runtime.exceptionThrown":
                problems.append(str(event["params"]["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and entry.get("level") == "error":
                text, url = str(entry.get("text")), str(entry.get("url", ""))
                if not ("404" in text and "/parts/" in url):
                    problems.append(f"{text} {url}")
        return problems

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            if not select.select([self._read_fd], [], [], TIMEOUT_S)[0]:
                raise RuntimeFailure(f"chromium said nothing for {TIMEOUT_S} s")
            data = os.read(self._read_fd, 1 << 20)
            if not data:
                raise RuntimeFailure("chromium has ended")
            self._pending += data
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def close(self) -> None:
        """End the process that open_browser started."""
        os.close(self._write_fd)  # chromium ends when its pipe does
        deadline_s = time.monotonic() + 5
        while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline_s:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.05)
        os.close(self._read_fd)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start it with an empty profile, and end it; skip the test where it is not installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        arguments = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        pid = os.posix_spawn(
            program,
            arguments,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                # Through high numbers: a pipe may itself have been given number 3 or 4.
                (os.POSIX_SPAWN_DUP2, to_browser, 103),
                (os.POSIX_SPAWN_DUP2, from_browser, 104),
                (os.POSIX_SPAWN_DUP2, 103, 3),
                (os.POSIX_SPAWN_DUP2, 104, 4),
                (os.POSIX_SPAWN_CLOSE, 103),
                (os.POSIX_SPAWN_CLOSE, 104),
            ],
        )
        os.close(to_browser)
        os.close(from_browser)
        browser = Browser(pid, answers, commands)
        try:
            yield browser
        finally:
            browser.close()
