"""The promise: alarms are counted at each rate, alone and together, with exact intervals."""

from types import SimpleNamespace

import numpy as np

from edgeseg.bench.studies.decide.promise import RATES, Kept, kept, table
from edgeseg.contract.binomial import exact_interval


def test_alarms_are_counted_at_what_the_good_images_can_promise() -> None:
    scores = np.arange(1.0, 100.0)  # 99 good images: enough for one in a hundred
    good = SimpleNamespace(of_parts=SimpleNamespace(scores=scores, peaks=scores))
    model = SimpleNamespace(calibration=SimpleNamespace(good=good))
    rows = kept(model, [50.0, 95.5, 98.5, 200.0], category="part")
    assert [row.asked for row in rows] == list(RATES)
    assert [row.promised for row in rows] == [0.01, 0.05, 0.10]
    assert [row.alarms for row in rows] == [1, 3, 3]
    assert {row.images for row in rows} == {4}


def test_all_categories_stand_together() -> None:
    rows = [
        Kept(category=name, asked=rate, promised=rate, images=40, alarms=alarms)
        for name, alarms in (("a", 1), ("b", 3))
        for rate in RATES
    ]
    together = [row for row in table(rows) if row["category"] == "all"]
    assert [row["asked"] for row in together] == ["1%", "5%", "10%"]
    assert {(row["good images"], row["alarms"], row["rate"]) for row in together} == {
        (80, 4, "5.0%")
    }
    low, high = exact_interval(4, 80)
    assert {row["interval"] for row in together} == {f"{low:.1%} to {high:.1%}"}
