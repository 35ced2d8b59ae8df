"""The region of the teaching page, drawn with a mouse, a finger and keys in a real browser."""

import numpy as np

from tests.doubles.chromium import Browser, Tab
from tests.doubles.fake_teach import HEIGHT, WIDTH
from tests.doubles.fakes import wait
from tests.support.teach_site import PHONE, Site


def at(tab: Tab, x: float, y: float) -> tuple[float, float]:
    """Where a pixel of the camera is on the screen."""
    px, py = tab.evaluate(
        f"(p => [p.x, p.y])(new DOMPoint({x}, {y}).matrixTransform($('drawing').getScreenCTM()))"
    )
    return px, py


def add_shape(tab: Tab) -> None:
    """One of the chosen kind, with keys."""
    tab.evaluate("$('add-shape').focus()")
    tab.press("Enter")


def near(actual: list, expected: list) -> None:
    assert np.abs(np.array(actual) - np.array(expected)).max() <= 1


def test_region_is_drawn_with_a_mouse(site: Site) -> None:
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden && size[0] === " + str(WIDTH))
    tab.drag(at(tab, 40, 30), at(tab, 100, 100), at(tab, 280, 200))
    wait(lambda: site.fake.drawn["roi"] is not None, "no roi")
    near(site.fake.drawn["roi"], [40, 30, 240, 170])
    tab.click("input[name=tool][value=ignore]")
    corners = [(60, 60), (120, 60), (90, 110)]
    for corner in corners:
        tab.drag(at(tab, *corner))
    assert "3 corners" in tab.text("#tool-help")
    tab.reload()  # in the middle of a shape
    tab.wait_for("regionLoaded && draft.length === 3 && !$('live').hidden")
    tab.click("input[name=tool][value=roi]")
    assert tab.evaluate("draft.length") == 0  # another tool gives it up
    tab.click("input[name=tool][value=ignore]")
    for corner in [*corners, corners[0]]:
        tab.drag(at(tab, *corner))
    wait(lambda: len(site.fake.drawn["ignore"]) == 1, "no polygon")
    near(site.fake.drawn["ignore"][0], corners)
    tab.drag(at(tab, 90, 75), at(tab, 95, 80), at(tab, 110, 95))
    wait(lambda: site.fake.drawn["ignore"][0][0][0] > 70, "not moved")
    near(site.fake.drawn["ignore"][0], [(x + 20, y + 20) for x, y in corners])
    tab.click("#region-undo")
    wait(lambda: site.fake.drawn["ignore"][0][0][0] < 70, "not undone")
    tab.click("#shapes li:last-child button:last-child")
    wait(lambda: site.fake.drawn["ignore"] == [], "not deleted")
    tab.click("#region-undo")
    wait(lambda: len(site.fake.drawn["ignore"]) == 1, "not back")


def test_region_is_drawn_with_a_finger(site: Site) -> None:
    tab = site.open("region", PHONE)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    tab.wait_for("regionLoaded && !$('live').hidden")
    tab.click("input[name=locate][value=anchor]")
    heights = "[...document.querySelectorAll('#locate input')].map(e => e.offsetHeight)"
    assert min(tab.evaluate(heights)) >= 44  # for a finger
    tab.wait_for("tool() === 'anchor' && $('tool-help').innerText.startsWith('Pull a rectangle')")
    assert site.fake.drawn["locate"] == "none"  # until there is a mark
    tab.evaluate("scrollTo(0, 0)")
    tab.touch(at(tab, 100, 80), at(tab, 120, 100), at(tab, 180, 160))
    wait(lambda: site.fake.drawn["locate"].startswith("anchor:"), "no anchor")
    near([int(v) for v in site.fake.drawn["locate"][7:].split(",")], [100, 80, 80, 80])
    mark = site.fake.drawn["locate"]
    tab.click("input[name=locate][value=blob]")
    wait(lambda: site.fake.drawn["locate"] == "blob", "no outline")
    tab.wait_for("tool() === 'roi' && $('tool-anchor').hidden")
    tab.click("input[name=locate][value=anchor]")
    wait(lambda: site.fake.drawn["locate"] == mark, "the mark was forgotten")


def test_region_is_drawn_with_keys(site: Site) -> None:
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden")
    add_shape(tab)
    wait(lambda: site.fake.drawn["roi"] == [80, 60, 160, 120], "no roi")
    tab.wait_for("document.activeElement.dataset.key === 'roi'")
    tab.press("ArrowRight")
    tab.press("ArrowDown", shift=True)
    wait(lambda: site.fake.drawn["roi"] == [81, 70, 160, 120], "not moved")
    tab.press("Tab")  # its first corner
    tab.press("ArrowLeft", shift=True)
    wait(lambda: site.fake.drawn["roi"] == [71, 70, 170, 120], "not widened")
    tab.press("z", ctrl=True)
    wait(lambda: site.fake.drawn["roi"] == [81, 70, 160, 120], "not undone")
    tab.press("Delete")
    wait(lambda: site.fake.drawn["roi"] is None, "not deleted")
    assert site.fake.drawn["ignore"] == []
    assert tuple(tab.evaluate("size")) == (WIDTH, HEIGHT)


def test_region_is_drawn_on_a_whole_picture_while_the_station_runs(site: Site) -> None:
    site.fill()
    tab = site.open("region")
    tab.wait_for("regionLoaded && $('live').src.includes('/pictures/good/good-0014.png')")
    tab.wait_for("!$('live').hidden && $('hold').hidden")
    assert tab.evaluate("size") == [WIDTH, HEIGHT]  # the camera is there
    site.fake.running, site.fake.camera_ok = "stopped", False
    tab.reload()
    tab.wait_for("regionLoaded && !$('live').hidden && size[0] === 640")  # the picture's own


def test_how_parts_lie_is_chosen_with_keys(site: Site) -> None:
    site.fill()
    site.fake.running = "stopped"
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden && size[0] === " + str(WIDTH))
    tab.evaluate("document.querySelector('input[name=locate][value=none]').focus()")
    tab.press("ArrowDown")
    wait(lambda: site.fake.drawn["locate"] == "blob", "no outline")
    # Where a part lies differs from picture to picture: a fit names places in its first one.
    tab.wait_for("$('live').src.includes('/pictures/good/good-0001.png') && $('hold').hidden")
    assert "good-0001.png" in tab.text("#locate-picture")
    tab.press("ArrowDown")
    tab.wait_for("locateNow() === 'anchor' && tool() === 'anchor'")
    wait(lambda: site.fake.drawn["locate"] == "none", "stored before a mark was drawn")
    add_shape(tab)
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120", "no mark")
    tab.click("#shapes li button:nth-of-type(2)")
    wait(lambda: site.fake.drawn["locate"] == "none", "not deleted")
    tab.wait_for("document.querySelector('input[name=locate][value=none]').checked")
    tab.click("#region-undo")
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120", "not back")
    tab.wait_for("document.querySelector('input[name=locate][value=anchor]').checked")


def test_shapes_stay_on_the_picture_that_they_were_drawn_on(site: Site) -> None:
    site.fill()
    site.fake.running = "stopped"
    site.fake.remove("good-0001.png")
    site.fake.reference = ("removed", "good-0001.png")
    site.fake.drawn["locate"] = "blob"
    tab = site.open("region")
    tab.wait_for("$('live').src.includes('/pictures/removed/good-0001.png')")
    assert "good-0001.png" in tab.text("#locate-picture")
    tab.click("input[name=locate][value=none]")
    site.fake.reference = None  # as the service does
    tab.click("input[name=locate][value=blob]")
    tab.wait_for("$('live').src.includes('/pictures/good/good-0002.png')")
    assert "good-0002.png" in tab.text("#locate-picture")


def test_a_mark_that_is_brought_back_is_on_its_picture(site: Site) -> None:
    site.fill()
    mark = {"locate": "anchor:80,60,160,120", "drawn_on": "good-0003.png"}
    site.fake.drawn = {"roi": None, "ignore": [], "smallest": 0, **mark}
    tab = site.open("region")
    tab.wait_for("regionLoaded && drawn.locate !== 'none'")
    tab.click("#shapes li button:nth-of-type(2)")
    wait(lambda: site.fake.drawn["locate"] == "none", "not deleted")
    tab.wait_for("drawn.drawn_on === ''")
    tab.click("#region-undo")
    wait(lambda: site.fake.drawn["locate"] != "none", "not back")
    assert site.fake.drawn == {"roi": None, "ignore": [], "smallest": 0, **mark}


def test_angles_that_were_edited_by_hand_stay(site: Site) -> None:
    site.fake.drawn = {"roi": None, "ignore": [], "locate": "anchor:80,60,160,120,angles=12.5"}
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden && drawn.locate !== 'none'")
    tab.evaluate("document.querySelector('#drawing polygon').focus()")
    tab.press("ArrowRight")
    wait(lambda: site.fake.drawn["locate"] == "anchor:81,60,160,120,angles=12.5", "not moved")
    assert tab.evaluate(TURNS + ".filter(e => e.checked).map(e => e.parentElement.innerText)") == [
        "12.5°"
    ]
    tab.click("input[name=turns][value='5']")
    wait(lambda: site.fake.drawn["locate"] == "anchor:81,60,160,120,angles=5", "not chosen")
    tab.click("#turns-other input")
    wait(lambda: site.fake.drawn["locate"] == "anchor:81,60,160,120,angles=12.5", "not back")


TURNS = "[...document.querySelectorAll('#turns label:not([hidden]) input')]"


def test_how_far_parts_may_turn_is_chosen_with_keys_before_and_after_the_mark(site: Site) -> None:
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden && $('turns').hidden")
    tab.click("input[name=locate][value=anchor]")
    tab.wait_for("!$('turns').hidden && document.querySelector('input[name=turns]').checked")
    assert tab.evaluate(TURNS + ".map(e => e.parentElement.innerText)") == [
        "0°",
        "5°",
        "10°",
        "20°",
    ]
    tab.evaluate("document.querySelector('input[name=turns]').focus()")
    tab.press("ArrowRight")
    add_shape(tab)
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120,angles=5", "no angles")
    tab.click("input[name=turns][value='20']")
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120,angles=20", "not chosen")
    tab.click("#shapes li button:nth-of-type(2)")  # the mark is drawn again
    wait(lambda: site.fake.drawn["locate"] == "none", "not deleted")
    tab.click("input[name=locate][value=anchor]")
    add_shape(tab)
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120,angles=20", "forgotten")
    tab.click("input[name=turns][value='0']")
    wait(lambda: site.fake.drawn["locate"] == "anchor:80,60,160,120", "not taken back")
    tab.click("#region-undo")
    tab.wait_for("document.querySelector('input[name=turns][value=\\'20\\']').checked")


def test_an_operator_sees_how_parts_lie_and_changes_nothing(browser: Browser) -> None:
    site = Site(browser, token="an-operators-token-1", supervisor_token="a-supervisors-token-1")
    try:
        site.fake.drawn["locate"] = "blob"
        tab = site.open("region", token="an-operators-token-1")
        tab.wait_for("regionLoaded && locateNow() === 'blob'")
        choices = "[...document.querySelectorAll('input[name=locate]')]"
        assert tab.evaluate(choices + ".map(e => [e.checked, e.disabled])") == [
            [False, True],
            [True, True],
            [False, True],
        ]
    finally:
        site.close()


def test_the_smallest_defect_is_asked_for(site: Site) -> None:
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden")
    tab.evaluate("$('smallest').value = 12; $('smallest').onchange()")
    wait(lambda: site.fake.drawn.get("smallest") == 12, "not stored")
    site.fake.drawn = {**site.fake.drawn, "smallest": 7}
    again = site.open("region")
    again.wait_for("regionLoaded && $('smallest').value === '7'")
