"""What a page shows where people decide: long lists, marks that are taken back, a second person."""

from tests.support.teach_site import Site

LOSS = {
    "planted_found": 48,
    "planted_lost": 22,
    "known_lost": 0,
    "asks": True,
    "sentence": "22 of 48 planted defects that are found now would be lost, 45.8%",
}


def test_a_long_list_is_shown_in_parts_and_asked_for_by_its_revision(site: Site) -> None:
    for _ in range(130):
        site.fake.capture()
    tab = site.open("collect")
    tab.wait_for("document.querySelectorAll('#thumbnails li').length === 60")
    assert tab.text("#shown") == "1 to 60 of 130, the newest first"
    assert tab.evaluate("$('newer').disabled && !$('older').disabled")
    for shown in ("61 to 120", "121 to 130"):
        tab.click("#older")
        tab.wait_for(f"$('shown').innerText.startsWith('{shown}')")
    assert tab.evaluate("document.querySelectorAll('#thumbnails li').length") == 10
    assert tab.evaluate("$('older').disabled")
    tab.evaluate("picturesAsked = 0")  # as if three seconds had passed
    site.called_list(("good", 120, True))
    for name in site.fake.kept["good"][:10]:
        site.fake.remove(name)
    tab.wait_for("$('shown').innerText.startsWith('61 to 120 of 120')")
    site.browser.events.clear()  # the browser logs pictures that went while it was loading them


def test_a_mark_is_taken_back_where_all_marks_are(site: Site) -> None:
    site.fill()
    site.fake.mark("alarm-002", "ignore", who="operator", name="Ann")
    site.fake.alarm_ids = ["alarm-002"]
    tab = site.open("run")
    tab.click("#marks summary")
    tab.wait_for("$('marks').innerText.includes('Ignore here (Ann, operator)')")
    tab.click("#marks li .actions button")
    tab.wait_for("document.activeElement === $('person')")
    tab.call("Input.insertText", text="Bob")
    tab.click("#marks li .actions button")
    site.called("withdraw", "alarm-002", "supervisor", "Bob", "operator", "Ann")
    tab.wait_for("!$('no-marks').hidden")


def test_what_loses_many_defects_is_said_asked_for_and_confirmed(site: Site) -> None:
    site.fill()
    site.fake.mark("alarm-002", "good", who="supervisor", name="Ada")
    site.fake.loss = LOSS
    tab = site.open("run")
    assert tab.evaluate("$('asked').hidden")
    tab.click("#learn-preview")
    tab.wait_for("$('preview').innerText.includes('22 of 48 planted defects')")
    assert "really good?" in tab.text("#preview")
    tab.click("#learn-start")
    tab.wait_for("document.activeElement === $('person')")
    tab.call("Input.insertText", text="Ada")
    tab.click("#learn-start")
    site.called("learn", "supervisor", "Ada", "shown")
    sentence = f"is this part really good? Look at alarm-002: {LOSS['sentence']}; so much"
    when = "2026-11-17T11:05:00Z"
    site.fake.asked = {"what": "learn", "name": "Ada", "when": when, "sentence": sentence}
    tab.wait_for("!$('asked').hidden && $('asked').innerText.includes('Ada wants to learn this')")
    assert "Is this part really good? Look at alarm-002" in tab.text("#asked-what")
    tab.evaluate("document.querySelector('#asked .person').value = ''")
    tab.evaluate("document.querySelector('#asked .person').focus()")
    tab.call("Input.insertText", text="Bob")
    tab.click("#confirm")
    site.called("confirm", "supervisor", "Bob")
    tab.wait_for("$('asked').hidden")
