"""How parts lie, chosen on the page and refused by a fit that cannot follow them."""

from pathlib import Path

import numpy as np

from edgeseg.vision.images import write_image
from tests.doubles.chromium import Browser
from tests.doubles.fake_teach import HEIGHT, WIDTH
from tests.doubles.person import DESK, collect, fit
from tests.support.teach_site import keep, taught


def test_a_part_that_cannot_be_followed(browser: Browser, tmp_path: Path) -> None:
    for index in range(6):  # no two of one size: the outline is no part's
        picture_hwc = np.full((HEIGHT, WIDTH, 3), 60, np.uint8)
        side = 20 + 30 * index
        picture_hwc[20 : 20 + side, 30 : 30 + side] = 100 + 10 * index
        write_image(tmp_path / "camera" / f"{index}.png", picture_hwc)
    with taught(tmp_path / "line3", str(tmp_path / "camera")) as (service, url):
        tab = browser.open(url, size_wh=DESK)
        collect(tab, 6)
        tab.click("#tab-region")
        tab.click("#locate input[value=blob]")
        tab.wait_for("$('region-saved').innerText.startsWith('Stored.')")
        assert service.project.settings().region.locate == "blob"
        assert 'locate = "blob"' in (service.project.folder / "project.toml").read_text()
        fit(tab)
        tab.wait_for("$('fit-sentence').matches('.failed')")
        refusal = tab.text("#fit-sentence")
        assert refusal.startswith("locate=blob: the part does not stand out")
        keep(tab, "locate-fit", tmp_path)
        tab.click("#fit-region")
        tab.wait_for("tab === 'region' && !$('locate-refused').hidden")
        assert refusal in tab.text("#locate-refused")
        keep(tab, "locate-refused", tmp_path)
        tab.click("#locate input[value=none]")
        tab.wait_for("$('locate-refused').hidden")
        fit(tab)
        tab.wait_for("state.fit.state === 'done' && $('fit-region').hidden")
        assert service.region()["locate"] == "none"
        assert browser.problems() == []
        tab.close()
