"""The Collect and Fit tabs: parts and not pictures, why nothing is kept, how long it takes."""

from pathlib import Path

import pytest

from edgeseg.base.messages import Message
from tests.support.teach_site import DESK, HALL, HAND, Site, keep


@pytest.mark.parametrize("size_wh", [DESK, HAND, HALL])
def test_pictures_of_one_part_count_once_on_the_way_to_a_promise(
    site: Site, size_wh: tuple[int, int], tmp_path: Path
) -> None:
    tab = site.open("collect", size_wh)
    tab.wait_for("$('parts-count').innerText === 'No good parts yet.'")
    for _ in range(37):
        site.fake.capture()
    site.fake.different = 12
    tab.wait_for(
        "$('parts-count').innerText === '37 pictures of 12 different parts. "
        "The others show a part again and count once.'"
    )
    percent = "2\u00a0%"
    assert tab.text("#parts-goal") == (
        f"Collect at least 20 different parts. 49 promise {percent} false alarms."
    )
    bar = "parseFloat($('enough').querySelector('i').style.width)"
    assert tab.evaluate(bar) == pytest.approx(100 * 12 / 49)
    flag = "the part of good-0001.png again: counts once"
    tab.wait_for(f"$('thumbnails').innerText.includes({flag!r})")
    keep(tab, f"parts-{size_wh[0]}-en", tmp_path)
    tab.evaluate("speak('de')")
    assert tab.text("#parts-count").startswith("37 Bilder von 12 verschiedenen Teilen.")
    flag = "wieder das Teil von good-0001.png: zählt nur einmal"
    tab.wait_for(f"$('thumbnails').innerText.includes({flag!r})")
    keep(tab, f"parts-{size_wh[0]}-de", tmp_path)
    tab.evaluate("speak('en')")
    for different, said in (
        (30, f"Enough to begin. 49 different parts promise {percent} false alarms: 19 to go."),
        (37, f"Enough to begin. 49 different parts promise {percent} false alarms: 12 to go."),
    ):
        site.fake.different = different
        tab.wait_for(f"$('parts-goal').innerText === {said!r}")
    tab.wait_for("$('parts-count').innerText === '37 pictures, each of a different part.'")
    for _ in range(12):
        site.fake.capture()
    site.fake.different = 49
    tab.wait_for("$('parts-goal').innerText.startsWith('Enough: 49 different parts')")


def test_parts_that_are_still_being_counted_are_not_made_up(site: Site) -> None:
    site.fake.capture()
    site.fake._different = lambda: None
    tab = site.open("collect")
    tab.wait_for("$('parts-count').innerText.startsWith('1 pictures; different parts are being')")
    assert tab.text("#parts-goal").startswith("Collect at least 20 different parts.")
    tab.evaluate("speak('de')")
    tab.wait_for("$('parts-count').innerText.startsWith('1 Bilder; verschiedene Teile werden gez')")


@pytest.mark.parametrize("size_wh", [DESK, HAND, HALL])
def test_every_new_part_says_why_it_takes_nothing_and_shows_what_counts_as_empty(
    site: Site, size_wh: tuple[int, int], tmp_path: Path
) -> None:
    tab = site.open("collect", size_wh)
    tab.wait_for("$('auto-state').hidden")
    site.fake.auto = {"taken": 3, "sentence": Message("auto_never_empty"), "empty": "7"}
    tab.click("input[name=auto][value=parts]")
    tab.wait_for("$('auto-count').innerText === 'Kept since then: 3'")
    assert tab.text("#auto-words").startswith("Nothing more is kept: the view was not empty")
    tab.wait_for("$('empty-view').naturalWidth")
    keep(tab, f"empty-{size_wh[0]}-en", tmp_path)
    tab.evaluate("speak('de')")
    assert tab.text("#auto-words").startswith("Nichts weiter wird aufgenommen")
    keep(tab, f"empty-{size_wh[0]}-de", tmp_path)
    site.fake.calls.clear()
    tab.click("#auto-again")
    site.called("auto_capture", "parts")
    site.fake.auto = {"taken": 0, "sentence": Message("auto_waits"), "empty": "9"}
    tab.wait_for("$('empty-view').src.endsWith('name=9')")
    tab.click("input[name=auto][value=off]")
    tab.wait_for("$('auto-state').hidden")


def test_how_long_a_fit_takes_and_how_busy_the_computer_is(site: Site) -> None:
    site.fake.capture()
    tab = site.open("fit")
    busy = "The computer is busy: this work gets 8\u00a0% of one core."
    for left_s, core, said in (
        (None, None, "How long it takes is not known yet."),
        (400.0, 0.08, f"About 7 minutes left. {busy}"),
        (61.0, 1.7, "About 70 seconds left."),
        (4.0, 0.6, "A few seconds left."),
    ):
        running = {"state": "running", "share": 0.4, "sentence": ""}
        site.fake.fit = {**running, "left_s": left_s, "core": core}
        tab.wait_for(f"$('fit-left').innerText === {said!r}")
    site.fake.end_fit()
    tab.wait_for("$('fit-left').innerText === ''")


def test_a_fit_of_before_is_not_called_missing(site: Site) -> None:
    site.fill()
    site.fake.kept_names |= set(site.fake.fitted_names)
    site.fake.fit = {"state": "none", "share": 0.0, "sentence": ""}  # the service was started anew
    tab = site.open("fit")
    tab.wait_for("$('fit-end').innerText.startsWith('Fitted ') && !$('fit-next').hidden")
