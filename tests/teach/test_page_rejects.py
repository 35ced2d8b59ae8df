"""The rejects of the teaching page: a mark goes to the part on the card under the finger."""

from edgeseg.base.messages import Message
from edgeseg.teach.marks import SeenCard
from tests.support.teach_site import DESK, HAND, Site

MIDDLE = """(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();
    return [b.x + b.width / 2, b.y + b.height / 2]; })(document.querySelector('%s'))"""


def ready(site: Site, size_wh: tuple[int, int] = DESK):
    site.fill()
    tab = site.open("run", size_wh)
    tab.wait_for("document.querySelectorAll('#alarms li').length === 3")
    tab.wait_for("['part', 'held'].every(id => $(id + '-view').querySelector('img'))")
    tab.evaluate("$('person').value = 'Ann'; $('person').oninput()")
    return tab


def test_alarms_that_come_between_finger_down_and_up_move_no_card(site: Site) -> None:
    tab = ready(site)
    x, y = tab.evaluate(MIDDLE % "#alarms li:nth-child(2) .actions button:nth-child(2)")
    mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
    tab.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    for number in range(4, 9):
        site.fake.alarm_ids.insert(0, f"alarm-{number:03d}")
    tab.wait_for("$('rejects-new').innerText === '5 new' && $('held').dataset.part === 'alarm-008'")
    tab.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    site.called("mark", "alarm-002", "defect", "supervisor", "Ann")
    assert site.fake.card == SeenCard(id="alarm-002", part="SN 002")
    assert tab.evaluate("alarms.map(one => one.id)") == ["alarm-003", "alarm-002", "alarm-001"]


def test_other_peoples_marks_come_and_move_no_button_and_no_focus(site: Site) -> None:
    tab = ready(site, HAND)
    place = "#alarms li:nth-child(1) .actions button:nth-child(3)"
    tab.evaluate(f"document.querySelector('{place}').focus({{preventScroll: true}})")
    before = tab.evaluate(MIDDLE % place)
    site.fake.mark("alarm-003", "good", who="operator", name="Bob")
    tab.evaluate("rejectsAsked = 0")  # as if two seconds had passed
    tab.wait_for("$('alarms').innerText.includes('Was good (Bob, operator)')")
    assert tab.evaluate(f"document.activeElement === document.querySelector('{place}')")
    assert tab.evaluate(MIDDLE % place) == before


def test_a_mark_of_another_card_is_refused_in_the_persons_language(site: Site) -> None:
    tab = ready(site)
    tab.evaluate("$('language').value = 'de'; $('language').onchange()")
    before = tab.evaluate("$('alarms').getBoundingClientRect().top + scrollY")
    site.fake.refusal = Message("mark_other_card", name="alarm-003")
    tab.click("#alarms li:first-child .actions button:nth-child(1)")
    tab.wait_for("!document.querySelector('#alarms-card .problem').hidden")
    assert tab.text("#alarms-card .problem").startswith("Alarm alarm-003: ist nicht das Teil")
    assert tab.evaluate("$('alarms').getBoundingClientRect().top + scrollY") == before
    site.browser.events.clear()  # the browser logs a refusal
