"""The Learn card: what stands in the way is seen and taken back where it stands."""

import pytest

from edgeseg.base.messages import Message
from tests.support.teach_site import Site


def filled(site: Site) -> None:
    site.fill()
    site.fake.mark("alarm-002", "good", who="operator", name="Ann")


def test_a_known_defect_that_holds_pictures_back_is_taken_out_on_the_page(site: Site) -> None:
    filled(site)
    site.fake.blockers["guards"] = [
        {"name": "bad-0002.png", "kind": "bad"},
        {"name": "alarm-002", "kind": "mark"},
        {"name": "by-hand.png", "kind": "golden"},
    ]
    tab = site.open("run")
    tab.click("#learn-preview")
    tab.wait_for("$('preview').innerText.includes('because of these known defects: 3')")
    cards = "[...document.querySelectorAll('#preview .flagged')]"
    buttons = tab.evaluate(f"{cards}.map(card => card.querySelectorAll('.actions button').length)")
    assert buttons == [1, 1, 1]
    for place in (0, 2):
        tab.wait_for(f"{cards}[{place}].querySelector('img').naturalWidth")
    tab.click("#preview .flagged .actions button")
    site.called("remove", "bad-0002.png")
    tab.wait_for("$('preview').hidden && document.activeElement === $('learn-preview')")
    assert tab.evaluate("$('learn-start').disabled")
    assert tab.text("#toast-text") == "bad-0002.png was removed."


def test_golden_pictures_that_would_be_wrong_stand_in_the_preview(site: Site) -> None:
    filled(site)
    site.fake.blockers |= {
        "golden": [
            {"name": "good-0003.png", "kind": "good", "ours": True},
            {"name": "old.png", "kind": "bad", "ours": False},
        ],
        "problems": ["good/good-0003.png: judged defect, expected good"],
    }
    tab = site.open("run")
    tab.click("#learn-preview")
    tab.wait_for("$('preview').innerText.includes('stand against the next version: 2')")
    assert tab.evaluate("$('learn-start').disabled")  # it would be refused
    tab.click("#preview .flagged .actions button")
    site.called("remove", "good-0003.png")


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "Somebody put it into the recipe"), ("de", "Jemand hat es in das Rezept gelegt")],
)
def test_a_golden_picture_placed_by_hand_is_seen_and_withdrawn(
    site: Site, language: str, words: str
) -> None:
    filled(site)
    hand = {"name": "by hand.png", "kind": "bad", "ours": False, "approved": False}
    site.fake.blockers |= {"golden": [hand], "problems": ["bad/by hand.png: was never approved"]}
    tab = site.open("run")
    tab.evaluate(f"speak({language!r})")
    tab.click("#learn-preview")
    tab.wait_for(f"$('preview').innerText.includes({words!r})")
    tab.wait_for("document.querySelector('#preview .flagged img').naturalWidth")
    tab.evaluate("document.querySelectorAll('.person').forEach(one => { one.value = ''; })")
    tab.click("#preview .flagged .actions button")
    tab.wait_for("document.activeElement === $('person')")  # a name is asked for first
    tab.evaluate("$('person').value = 'Bob'")
    tab.click("#preview .flagged .actions button")
    site.called("withdraw_golden", "bad/by hand.png", "supervisor", "Bob")
    tab.wait_for("$('preview').hidden && document.activeElement === $('learn-preview')")


def test_what_waits_for_a_second_supervisor_is_withdrawn(site: Site) -> None:
    filled(site)
    site.fake.asked = {"what": "learn", "name": "Ada", "when": 0, "sentence": "Look at it"}
    tab = site.open("run")
    tab.wait_for("!$('asked').hidden")
    tab.evaluate("document.querySelector('#asked .person').value = 'Ada'")
    tab.evaluate("document.querySelector('#asked .person').oninput()")
    tab.evaluate("speak('de')")
    assert tab.text("#withdraw-asked") == "Zurücknehmen"
    tab.click("#withdraw-asked")
    site.called("withdraw_asked", "supervisor", "Ada")
    tab.wait_for("$('asked').hidden")


def test_a_mark_is_taken_back_in_the_preview(site: Site) -> None:
    filled(site)
    tab = site.open("run")
    tab.evaluate("$('person').value = 'Bob'")
    tab.click("#learn-preview")
    tab.wait_for("!$('preview').hidden")
    tab.click("#preview .cards .actions button")
    site.called("withdraw", "alarm-002", "supervisor", "Bob", "operator", "Ann")
    tab.wait_for("$('preview').hidden && $('toast-text').innerText === 'Taken back: alarm-002'")


def test_a_preview_that_takes_long_is_cancelled(site: Site) -> None:
    filled(site)
    tab = site.open("run")
    tab.wait_for("$('learn-cancel').hidden")
    site.fake.learning = {"state": "running", "share": 0.3, "sentence": "", "left_s": 200.0}
    tab.wait_for("$('learn-left').innerText === 'About 4 minutes left.'")
    tab.click("#learn-cancel")
    site.called("cancel_learn", "supervisor")
    tab.wait_for("$('learn-cancel').hidden && !$('learn-preview').disabled")
    running = {"state": "running", "share": 0.3, "sentence": Message("run_checking")}
    site.fake.learning = running  # the new version takes over: too late
    tab.wait_for("$('learn-preview').disabled && $('learn-cancel').hidden")


def test_there_is_a_way_back_only_where_there_is_a_version_of_before(site: Site) -> None:
    filled(site)
    site.fake.before = None
    tab = site.open("run")
    tab.wait_for("!$('learn').hidden && $('rollback').hidden")
    site.fake.before = "3fa9c1d20b77"
    tab.wait_for("!$('rollback').hidden")
    tab.evaluate("window.confirm = words => { window.asked = words; return true; }")
    tab.click("#rollback")
    site.called("rollback", "supervisor")
    assert "3fa9c1d20b77" in tab.evaluate("window.asked")


def test_a_failed_learning_stands_in_the_history_with_its_pictures(site: Site) -> None:
    filled(site)
    failed = {"event": "learn_failed", "when": "2026-11-17T11:05:00Z", "names": ["alarm-002"]}
    failed["why"] = Message("learn_golden", names="good-0003.png")
    site.fake.history = lambda *, most=None: [failed]
    tab = site.open("run")
    tab.click("#history summary")
    tab.wait_for("$('history').innerText.includes('Not learned')")
    for part in ("alarm-002", "Next version is refused", "good-0003.png"):
        assert part in tab.text("#history") or part.lower() in tab.text("#history")


def test_a_mark_that_cannot_be_read_is_seen_and_taken_back(site: Site) -> None:
    filled(site)
    site.fake.marks = lambda: [{"id": "alarm-001", "said": "damaged", "marks": []}]
    site.fake.withdraw = lambda alarm, *, by, of: site.fake._note("withdraw", alarm, of) or {}
    tab = site.open("run")
    tab.evaluate("$('person').value = 'Bob'")
    tab.click("#marks summary")
    tab.wait_for("$('marks').innerText.includes('Cannot be read')")
    tab.click("#marks li .actions button")
    site.called("withdraw", "alarm-001", None)
