"""The teaching page for everybody: axe-core finds nothing serious on any tab."""

import pytest

from edgeseg.base.messages import Message
from tests.doubles.axe import serious_findings
from tests.support.teach_site import DESK, HAND, TABS, Site


@pytest.mark.parametrize(("size_wh", "dark"), [(DESK, True), (HAND, False)])
def test_nothing_serious_is_found(site: Site, size_wh: tuple[int, int], dark: bool) -> None:
    site.fill()
    site.fake.mark("alarm-002", "good", who="operator", name="Ann")
    site.fake.warning = Message("planted_low_pictures", n=23, names="good-0001.png", n_without=81)
    site.fake.capturing = "parts"
    site.fake.auto = {"taken": 3, "sentence": Message("auto_never_empty"), "empty": "7"}
    site.fake.blockers["guards"] = [{"name": "bad-0002.png", "kind": "bad"}]
    tab = site.open("collect", size_wh, dark=dark)
    found = {}
    for name in TABS:
        tab.click(f"#tab-{name}")
        if name == "judge":
            tab.wait_for("document.querySelectorAll('#judge .cards li').length === 11")
        if name == "run":
            tab.click("#learn-preview")
            tab.wait_for("!$('preview').hidden")
            for details in ("marks", "history", "figures"):
                tab.click(f"#{details} summary")
            tab.wait_for("document.querySelector('#marks li')")
            tab.wait_for("document.querySelector('#history li')")
        for language in ("en", "de"):
            tab.evaluate(f"speak('{language}')")
            found[name, language] = serious_findings(tab)
    assert {place: findings for place, findings in found.items() if findings} == {}
