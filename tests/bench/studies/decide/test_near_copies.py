"""The promise by parts: alarms on new parts, counted by pictures and by parts."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from edgeseg.bench.studies.decide.near_copies import (
    RATES,
    WAYS,
    Counted,
    counted_alarms,
    counted_before,
    lost_images,
    table,
    taken_again,
)
from edgeseg.bench.studies.trust.report import write_rows
from edgeseg.contract.binomial import exact_interval
from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.evaluation.threshold import GoodImageScores


def test_alarms_are_those_above_the_threshold_of_the_parts() -> None:
    scores = np.arange(30, dtype=np.float32)
    grid = np.ones((1, 1), np.float32)
    good = GoodImageScores(
        scores=scores,
        peaks=scores,
        frame_d2=scores,
        d2_mean=grid,
        d2_std=grid,
        groups=np.repeat(np.arange(10, dtype=np.float32), 3),
    )
    model = SimpleNamespace(calibration=SimpleNamespace(good=good))
    rows = counted_alarms(
        model, np.array([28.5, 29.5, 40.0]), category="part", frames=3, way="each part"
    )
    assert [row.asked for row in rows] == list(RATES)
    assert {(row.parts, row.new, row.alarms) for row in rows} == {(10, 3, 2)}
    assert rows[0].promised == 1 / 11


def test_all_categories_stand_together_by_frames_rate_and_way() -> None:
    rows = [
        Counted(
            category=name,
            frames=2,
            counted=way,
            parts=50,
            asked=rate,
            promised=rate,
            new=40,
            alarms=alarms,
        )
        for name, alarms in (("a", 1), ("b", 3))
        for rate in RATES
        for way in WAYS
    ]
    together = [row for row in table(rows) if row["category"] == "all"]
    assert [row["asked"] for row in together] == ["1%", "1%", "2%", "2%", "5%", "5%", "10%", "10%"]
    low, high = exact_interval(4, 80)
    assert {(row["new parts"], row["alarms"], row["interval"]) for row in together} == {
        (80, 4, f"{low:.1%} to {high:.1%}")
    }


def test_a_stopped_run_goes_on_with_what_it_has_counted(tmp_path: Path) -> None:
    rows = [
        Counted(
            category="a",
            frames=8,
            counted=way,
            parts=15,
            asked=rate,
            promised=max(rate, 1 / 16),
            new=40,
            alarms=3,
        )
        for rate in RATES
        for way in WAYS
    ]
    lost = [{"category": "a", "images": 60, "lost": 1, "share": "1.7%"}]
    assert counted_before(tmp_path) == ([], [])
    write_rows(tmp_path, "near_copies", title="t", rows=table(rows))
    write_rows(tmp_path, "lost", title="t", rows=lost)
    assert counted_before(tmp_path) == (rows, lost)


def test_a_picture_taken_again_is_lost_and_another_part_is_not() -> None:
    scene, rng = SceneGenerator(size_hw=(256, 256)), np.random.default_rng(0)
    pictures = [scene.good(index) for index in range(6)]
    assert lost_images(pictures) == 0
    assert lost_images([*pictures, taken_again(pictures[2], rng)]) == 1
