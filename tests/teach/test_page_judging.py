"""The Judge tab: what sets the threshold is looked at first, and few found defects are said."""

from pathlib import Path

import pytest

from edgeseg.base.messages import Message
from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser
from tests.doubles.fake_teach import WIDTH
from tests.doubles.person import LONG_S, fit
from tests.support.teach_engine import TAIL_CHILD, part
from tests.support.teach_site import DESK, HALL, HAND, Site, keep, taught

WEAK = Message("planted_low_pictures", n=23, names="good-0001.png, good-0002.png", n_without=81)


@pytest.mark.parametrize("size_wh", [DESK, HAND, HALL])
def test_what_sets_the_threshold_is_asked_above_the_fold(
    site: Site, size_wh: tuple[int, int], tmp_path: Path
) -> None:
    site.fill()
    site.fake.warning = WEAK
    tab = site.open("judge", size_wh)
    for language, title, weak in (
        ("en", "Look at these 2 pictures first: is each part good?", "Only 23% of the planted"),
        (
            "de",
            "Sehen Sie zuerst diese 2 Bilder an: Ist jedes Teil gut?",
            "Nur 23\u00a0% der künstl",
        ),
    ):
        tab.evaluate(f"speak('{language}')")
        tab.wait_for(f"$('look-title').innerText === {title!r}")
        tab.wait_for(f"document.querySelector('#look img').naturalWidth === {WIDTH}")
        assert tab.text("#weak").startswith(weak)
        assert tab.text("#recall .flag").split("\n")[-1].startswith("⚠ 90")
        ends = tab.evaluate(
            "[...document.querySelector('#look li').querySelectorAll('.actions button')]"
            ".map(button => button.getBoundingClientRect().bottom)"
        )
        assert len(ends) == 2
        assert max(ends) <= size_wh[1]
        order = "$('look').compareDocumentPosition($('judge-next'))"
        assert tab.evaluate(order) == 4  # behind it
        keep(tab, f"look-{size_wh[0]}-{language}", tmp_path)


def test_each_picture_is_kept_or_removed_before_run(site: Site) -> None:
    site.fill()
    tab = site.open("judge")
    tab.wait_for("document.querySelectorAll('#look .asks').length === 2")
    assert tab.text("#look-badge") == "2"
    focus = "document.activeElement.ariaLabel || document.activeElement.innerText"
    tab.click("#judge-next")
    tab.wait_for("!document.querySelector('#look-card .problem').hidden")
    assert tab.evaluate("tab") == "judge"
    assert tab.evaluate(focus) == "Good: keep: good-0001.png"
    tab.click("#look .asks .actions button")
    site.called("keep", "good-0001.png", "supervisor")
    tab.wait_for("document.querySelectorAll('#look .kept').length === 1")
    tab.wait_for(f"({focus}) === 'Good: keep: good-0002.png'")
    tab.wait_for("$('look-badge').innerText === '1'")
    tab.click("#look .asks .actions button:nth-child(2)")
    site.called("remove", "good-0002.png")
    tab.wait_for("document.querySelectorAll('#look li').length === 1")  # it has lost its card
    tab.wait_for("$('look-badge').hidden && document.activeElement === $('fit-again')")
    assert tab.text("#changed-words").startswith("One picture was removed since this fit")
    tab.click("#judge-next")
    tab.wait_for("document.querySelector('#look-card .problem').innerText.startsWith('Fit again')")
    tab.click("#toast-undo")
    site.called("restore", "good-0002.png")
    tab.wait_for("document.querySelectorAll('#look .asks').length === 1 && $('changed').hidden")
    tab.click("#look .asks .actions button")
    tab.wait_for("$('judge-next').matches('.main')")
    tab.click("#judge-next")
    tab.wait_for("location.hash === '#run'")


def test_a_kept_picture_can_still_be_removed_and_other_odd_ones_lose_their_card(
    site: Site,
) -> None:
    site.fill()
    site.fake.kept_names |= {"good-0001.png", "good-0002.png"}
    tab = site.open("judge")
    tab.wait_for("$('look-title').innerText.startsWith('Looked at and kept')")
    assert tab.evaluate("document.querySelectorAll('#worst li').length") == 6
    tab.click("#worst li .actions button")
    site.called("remove", "good-0003.png")
    tab.wait_for("document.querySelectorAll('#worst li').length === 5")
    tab.click("#look li .actions button:nth-child(2)")
    site.called("remove", "good-0001.png")
    tab.wait_for("$('changed-words').innerText.startsWith('2 pictures were removed')")
    tab.click("#fit-again")
    tab.wait_for("tab === 'fit'")


def test_a_picture_that_came_since_is_said(site: Site) -> None:
    site.fill()
    tab = site.open("judge")
    tab.wait_for("$('changed').hidden")
    site.fake.capture()
    tab.wait_for("$('changed-words').innerText === 'One picture is new since this fit.'")


def test_after_a_fit_the_way_leads_to_the_pictures(site: Site) -> None:
    site.fill()
    tab = site.open("fit")
    tab.wait_for("$('fit-end').innerText === 'Fitted. Look at 2 pictures first.'")
    tab.click("#fit-next")
    tab.wait_for("tab === 'judge' && !$('look-card').hidden")


@pytest.mark.parametrize(("language", "size_wh"), [("en", HAND), ("de", DESK)])
def test_two_defective_parts_among_forty_are_asked_for_though_the_threshold_is_above_them(
    browser: Browser, tmp_path: Path, language: str, size_wh: tuple[int, int]
) -> None:
    slipped = {"x.png": 152, "y.png": 150}  # 1.3 times the usual score
    scores = {f"g{at:02d}.png": 100 + at for at in range(38)} | slipped
    with taught(tmp_path / "line3", "", child=TAIL_CHILD, rate=0.02) as (service, url):
        for name, score in scores.items():
            write_image(service.project.pictures("good") / name, part(score, seed=score))
        tab = browser.open(url, size_wh=size_wh)
        tab.wait_for("document.documentElement.dataset.ready")
        tab.evaluate(f"speak({language!r})")
        fit(tab)
        tab.click("#fit-next")
        tab.wait_for("document.querySelectorAll('#look .asks').length === 3", timeout_s=LONG_S)
        assert tab.evaluate("judged.threshold") > 152
        names = "[...document.querySelectorAll('#look li')].map(li => li.innerText.split('\\n')[0])"
        assert tab.evaluate(names) == ["x.png", "y.png", "g37.png"]
        odder = {"en": "odder than all 39 other", "de": "auffälliger als alle 39 anderen"}
        assert odder[language] in tab.text("#look li")
        assert "x.png, y.png (" in tab.text("#weak")
        tab.wait_for("document.querySelector('#look img')?.naturalWidth")
        keep(tab, f"two-in-forty-{size_wh[0]}-{language}", tmp_path)
        for left in (2, 1):
            tab.click("#look .asks .actions button:nth-child(2)")
            tab.wait_for(f"document.querySelectorAll('#look .asks').length === {left}")
        tab.click("#fit-again")
        fit(tab)
        tab.click("#fit-next")
        tab.wait_for("judged?.threshold < 150 && $('weak').innerText !== ''")
        assert ".png" not in tab.text("#weak")
        assert service.count("good") == 38
        assert browser.problems() == []
        tab.close()
