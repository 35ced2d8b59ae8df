"""A missed defect on the page: found among the parts that passed, drawn, tried, learned, undone."""

from pathlib import Path

from edgeseg.base.messages import Message
from edgeseg.runtime.web.access import Access
from edgeseg.teach.marks import SeenCard
from edgeseg.teach.service import TeachService
from edgeseg.teach.web import serve
from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser, Tab
from tests.doubles.fakes import wait
from tests.doubles.person import LONG_S
from tests.support.missed_project import fitted_project, outline_of, passed, striped
from tests.support.small_models import frames
from tests.support.teach_site import DESK, HAND, Site, keep

EARLIER, MARKED, NEXT = (34, 35, 24, 26, 19), 39, 62
ON_SCREEN = """(([x, y]) => { const m = $("drawing").getScreenCTM();
    return [m.a * x + m.e, m.d * y + m.f]; })([%f, %f])"""


def box(tab: Tab, corner: tuple[float, float], opposite: tuple[float, float]) -> None:
    """Pull a box over the picture, in its own pixels."""
    tab.wait_for("sketch && !$('live').hidden && $('live').naturalWidth")
    tab.evaluate("$('stage').scrollIntoView({block: 'center'})")
    tab.drag(*(tab.evaluate(ON_SCREEN % point) for point in (corner, opposite)))
    tab.wait_for("drawn.ignore.length === 1")


def name_person(tab: Tab, name: str) -> None:
    tab.evaluate(f"$('person').value = {name!r}; $('person').oninput()")


def look_for(tab: Tab, name: str) -> None:
    """Look at newer parts until one of this name is among them."""
    there = f"passed.some(part => part.part === {name!r})"
    tab.wait_for(f"{there} || ($('missed-look').click(), false)", timeout_s=LONG_S)


def test_an_operator_marks_and_takes_back(site: Site) -> None:
    site.fill()
    tab = site.open("run", HAND)
    tab.click("#missed-look")
    tab.wait_for("document.querySelector('#missed-parts li img')?.naturalWidth")
    tab.click("#missed-parts .actions button")
    box(tab, (100, 80), (200, 160))
    tab.click("#missed-store")  # no kind yet
    tab.wait_for("$('missed-card').innerText.includes('Name the kind of the defect first.')")
    tab.evaluate("$('missed-kind').value = 'scratch'")
    name_person(tab, "Ann")
    site.fake.refusal = Message("missed_other_card", name="part-001")
    tab.click("#missed-store")
    tab.wait_for("$('missed-card').innerText.includes('is not the part on the card')")
    assert tab.evaluate("drawn.ignore.length") == 1  # nothing that was drawn is lost
    site.fake.refusal = ""
    site.browser.events.clear()  # the browser logs a refusal
    site.fake.calls.clear()
    tab.click("#missed-store")
    tab.wait_for("!$('missed-waiting').hidden && $('missed-sketch').hidden")
    (call,) = [call for call in site.fake.calls if call[0] == "mark_missed"]
    assert (call[1:3], call[4:]) == (("part-001", "SN 001"), ("scratch", "supervisor", "Ann"))
    (corners,) = call[3]
    xs, ys = zip(*corners, strict=True)
    assert abs(min(xs) - 100) + abs(max(xs) - 200) + abs(min(ys) - 80) + abs(max(ys) - 160) < 12
    tab.evaluate("$('language').value = 'de'; $('language').onchange()")
    assert "Übersehene Fehler, die warten: 1" in tab.text("#missed-waiting")
    tab.click("#missed-waiting .actions button")
    site.called("withdraw_missed", "part-001", "supervisor", "Ann")
    tab.wait_for("$('missed-waiting').hidden")


def test_what_is_drawn_for_a_missed_defect_leaves_the_region_alone(site: Site) -> None:
    site.fill()
    region = {"roi": [10, 20, 200, 150], "ignore": [], "locate": "none", "drawn_on": ""}
    site.fake.drawn = {**region, "smallest": 0}
    tab = site.open("region")
    tab.wait_for("regionLoaded && drawn.roi")
    tab.click("#tab-run")
    tab.click("#missed-look")
    tab.click("#missed-parts .actions button")
    box(tab, (100, 80), (200, 160))
    tab.click("#tab-region")
    tab.wait_for("sketch === null && drawn.roi && !drawn.ignore.length && !$('live').hidden")
    assert tab.evaluate("$('stage').parentElement.tagName") == "MAIN"
    assert not [call for call in site.fake.calls if call[0] == "set_region"]


def test_a_preview_says_why_missed_defects_cannot_be_learned(site: Site) -> None:
    site.fill()
    site.fake.look_at_parts()
    outline = [(1.0, 2.0), (30.0, 2.0), (30.0, 40.0)]
    card = SeenCard(id="part-001", part="SN 001")
    site.fake.mark_missed(card, outline, kind="scratch", who="operator", name="Ann")
    good, counts = {"alarms": 1, "parts": 40}, {"n_all": 4, "n_now": 4, "n_then": 3}
    site.fake.blockers |= {
        "missed": ["scratch/part-001.png"],
        "would_learn": [],
        "held_back": [{"name": "scratch/part-001.png", "reason": Message("hold_missed_teach")}],
        "change": {
            **{"known": 5, "found_before": 4, "found_after": 3},
            "by_others": {"found": 2, "of": 4},
            "kinds": [{"sentence": Message("change_kind_others", kind="dent", **counts, n=2)}],
            **{"good_before": good, "good_after": good},
            **{"per_thousand_before": 25.0, "per_thousand_after": 25.0},
        },
    }
    tab = site.open("run")
    tab.click("#learn-preview")
    tab.wait_for("$('preview').innerText.includes('Missed defects that cannot be learned: 1')")
    told = tab.text("#preview")
    for words in (
        "ewer of the known defects would be found",
        "4 of 5",
        "3 of 5",
        "25 (1 of 40 parts)",
        "2 of 4",
        "dent: 4 of 4 are found now, 3 then; 2 by what the other pictures teach",
    ):
        assert words in told
    assert tab.evaluate("$('learn-start').disabled")
    name_person(tab, "Ada")
    tab.click("#preview .cards .actions button")
    site.called("withdraw_missed", "part-001", "supervisor", "Ada")
    tab.wait_for("$('preview').hidden && $('missed-waiting').hidden")


def test_a_missed_defect_is_learned_and_the_next_such_part_is_found(
    browser: Browser, tmp_path: Path
) -> None:
    camera = tmp_path / "camera"
    for number, frame in enumerate(frames(2, size_hw=(64, 64))):
        write_image(camera / f"good{number}.png", frame)
    for number in (MARKED, NEXT):
        write_image(camera / f"part{number}.png", striped(number))
    project = fitted_project(tmp_path / "line3", source=str(camera))
    service = TeachService(project)
    for number in EARLIER:  # which an earlier shift has marked
        part = passed(number)
        service._parts.offer(part)
        wait(lambda part=part: part.key in [p.id for p in list(service._parts._kept)], part.key)
        card = SeenCard(id=part.key, part=f"SN {number}")
        said = {"kind": "stripes", "who": "operator", "name": "Bob"}
        service.mark_missed(card, [outline_of(number)], **said)
    errors: list[tuple[str, str]] = []
    server = serve(
        service, Access(host="127.0.0.1"), port=0, on_error=lambda *error: errors.append(error)
    )
    try:
        tab = browser.open(f"{server.url}#run", size_wh=DESK)
        tab.wait_for("document.documentElement.dataset.ready")
        tab.click("#run-start")
        look_for(tab, f"part{MARKED}.png")
        look_for(tab, f"part{NEXT}.png")
        assert service.alarms() == []  # both pass
        look_for(tab, f"part{MARKED}.png")
        card_at = f"passed.findIndex(part => part.part === 'part{MARKED}.png') + 1"
        place = tab.evaluate(card_at)
        tab.click(f"#missed-parts li:nth-child({place}) .actions button")
        corners = outline_of(MARKED)
        box(tab, corners[0], corners[2])
        keep(tab, "missed-draw", tmp_path)
        name_person(tab, "Ann")
        tab.evaluate("$('missed-kind').value = 'stripes'")
        tab.click("#missed-store")
        tab.wait_for("state.missed === 6 && missed.length === 6", timeout_s=LONG_S)
        tab.click("#learn-preview")
        tab.wait_for("!$('preview').hidden", timeout_s=LONG_S)
        assert tab.evaluate("preview.change.found_before") == 0
        assert tab.evaluate("preview.change.found_after") > 0
        assert "Known defects found then" in tab.text("#preview")
        assert "each by what the others teach" in tab.text("#preview")
        assert "stripes: 0 of 6 are found now" in tab.text("#preview")
        assert "Alarms per 1,000 good parts then" in tab.text("#preview")
        assert tab.evaluate("document.querySelectorAll('#preview .cards li').length") == 6
        keep(tab, "missed-preview", tmp_path)
        before = service.state()["model"]["version"]
        tab.click("#learn-start")
        tab.wait_for(f"state.model.version !== {before!r} && state.missed === 0", timeout_s=LONG_S)
        name = f"part{NEXT}.png"
        wait(lambda: name in [alarm["part"] for alarm in service.alarms()], "the next such part")
        tab.evaluate("window.confirm = () => true")
        tab.click("#rollback")
        tab.wait_for(f"state.model.version === {before!r}", timeout_s=LONG_S)
        newest = service.alarms()[0]["id"]
        # After the station has swapped the version of before in, it passes again.
        passes = f"passed.some(part => part.part === {name!r} && part.id > {newest!r})"
        tab.wait_for(f"{passes} || ($('missed-look').click(), false)", timeout_s=LONG_S)
        tab.click("#run-stop")
        tab.wait_for("state.run.state === 'stopped'", timeout_s=LONG_S)
        assert browser.problems() == []
        tab.close()
    finally:
        service.close()
        server.stop()
    assert not errors, errors
