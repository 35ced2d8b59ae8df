"""The region of the teaching page, drawn with a mouse, a finger and keys in a real browser."""

import numpy as np

from tests.support.chromium import Tab
from tests.support.fake_teach import HEIGHT, WIDTH
from tests.support.fakes import wait
from tests.support.teach_site import PHONE, Site


def at(tab: Tab, x: float, y: float) -> tuple[float, float]:
    """Where a pixel of the camera is on the screen."""
    px, py = tab.evaluate(
        f"(p => [p.x, p.y])(new DOMPoint({x}, {y}).matrixTransform($('drawing').getScreenCTM()))"
    )
    return px, py


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
    tab.click("input[name=tool][value=anchor]")
    tab.evaluate("scrollTo(0, 0)")
    tab.touch(at(tab, 100, 80), at(tab, 120, 100), at(tab, 180, 160))
    wait(lambda: site.fake.drawn["locate"].startswith("anchor:"), "no anchor")
    near([int(v) for v in site.fake.drawn["locate"][7:].split(",")], [100, 80, 80, 80])


def test_region_is_drawn_with_keys(site: Site) -> None:
    tab = site.open("region")
    tab.wait_for("regionLoaded && !$('live').hidden")
    tab.evaluate("$('add-shape').focus()")
    tab.press("Enter")
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
