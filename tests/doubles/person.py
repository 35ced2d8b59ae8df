"""What a person presses on the teaching page, from the first picture to a running station."""

from collections.abc import Callable

from tests.doubles.chromium import Tab
from tests.support import HANGS_S

DESK = (1280, 800)
LONG_S = HANGS_S  # for a process of its own, on a computer that is busy


def look(tab: Tab) -> None:
    """Wait for the page and for the camera's picture on it."""
    tab.wait_for("!$('capture').disabled && !$('live').hidden", timeout_s=LONG_S)


def collect(tab: Tab, count: int, *, part: Callable[[int], None] = lambda index: None) -> None:
    """Press the button for each part, once `part` has brought it."""
    look(tab)
    for index in range(count):
        part(index)
        before = tab.evaluate("state.good")
        tab.click("#capture")
        tab.wait_for(f"state.good > {before}")


def draw(tab: Tab, *corners_share: tuple[float, float]) -> None:
    """Pull a rectangle over the picture."""
    tab.click("#tab-region")
    tab.wait_for("regionLoaded && !$('live').hidden")
    box = tab.evaluate("(b => [b.x, b.y, b.width, b.height])($('drawing').getBoundingClientRect())")
    tab.drag(*((box[0] + x * box[2], box[1] + y * box[3]) for x, y in corners_share))
    tab.wait_for("$('region-saved').innerText !== '' && drawn.roi !== null")


def fit(tab: Tab) -> None:
    """Until it has ended, well or not."""
    tab.click("#tab-fit")
    tab.click("#fit-start")
    tab.wait_for("['done', 'failed'].includes(state.fit.state)", timeout_s=LONG_S)


def judge(tab: Tab) -> None:
    """Until each picture that sets the threshold was looked at, with its map, and kept."""
    tab.click("#fit-next")
    tab.wait_for("!$('judged').hidden && document.querySelector('#look img')?.naturalWidth")
    keep_all(tab)


def keep_all(tab: Tab) -> None:
    """Say of each picture that is asked for that it is good."""
    while waiting := tab.evaluate("judged.waiting"):
        tab.click("#look .asks .actions button")
        tab.wait_for(f"judged.waiting < {waiting}")


def mark(tab: Tab, alarm: str, word: str) -> None:
    """Say of an alarm that it was good, a defect or to be ignored; a name is typed already."""
    look_at_rejects(tab, f"alarms.some(alarm => alarm.id === {alarm!r})")
    button = ("good", "defect", "ignore").index(word) + 1
    tab.click(f"#alarms li[data-part='{alarm}'] .actions button:nth-child({button})")
    said = f"alarms.find(alarm => alarm.id === {alarm!r})?.marks.some(one => one.mark === {word!r})"
    tab.wait_for(said, timeout_s=LONG_S)


def look_at_rejects(tab: Tab, wanted: str) -> None:
    """Ask for the new rejects until what is wanted is on the page: by itself none comes."""
    tab.wait_for(
        f"{wanted} || ($('rejects-new').disabled || $('rejects-new').click(), false)",
        timeout_s=LONG_S,
    )


def run(tab: Tab) -> None:
    """Until a verdict is shown."""
    tab.click("#judge-next")
    tab.click("#run-start")
    tab.wait_for(
        "state.run.state === 'running' && $('verdict').matches('.good, .bad')", timeout_s=LONG_S
    )
