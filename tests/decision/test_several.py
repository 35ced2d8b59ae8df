"""A picture of several parts: the worst of them is its verdict, and marks lie in the picture."""

import itertools
import math

import numpy as np
import pytest

from edgeseg.decision.prediction import Prediction
from edgeseg.decision.several import PartLooks, judge_parts
from edgeseg.decision.thresholds import Thresholds
from edgeseg.vision.blobs import PartFound, PartsFound
from edgeseg.vision.geometry import Pose, Roi, View
from edgeseg.vision.locate import Found
from tests.support.thresholds import made_up_thresholds

FRAME_HW, SIDE = (120, 200), 40
LIMITS: Thresholds = made_up_thresholds(1.0)


def looks(kinds: str, *, lacking: str = "") -> PartLooks:
    """A row of parts: g and d whole ones, x one that cannot be judged."""
    parts, views = [], []
    for number, kind in enumerate(kinds):
        x = 20.0 + 40 * number
        pose = Pose(x=x, y=60.0, degrees=90.0 * number, home_xy=(SIDE / 2, SIDE / 2))
        look = None if kind == "x" else pose
        found = Found(pose=pose, oddness=9.0 if kind == "x" else 0.0, reason="two of it", look=look)
        parts.append(PartFound(found=found, box_xywh=(int(x) - 15, 45, 30, 30)))
        if look is not None:
            roi = Roi(x=0, y=0, w=SIDE, h=SIDE)
            views.append(View(frame_hw=FRAME_HW, size_hw=(80, 80), roi=roi, pose=pose))
    return PartLooks(
        seen=PartsFound(parts=tuple(parts), lacking=lacking), frame_hw=FRAME_HW, views=tuple(views)
    )


def predictions(kinds: str) -> list[Prediction]:
    """High in the upper left corner of what is cut out, where there is a defect."""
    made = []
    for number, kind in enumerate(kinds.replace("x", "")):
        map_hw = np.full((80, 80), 0.1, np.float32)
        if kind == "d":
            map_hw[10:20, 10:20] = 4.0
        made.append(Prediction(map_hw=map_hw, score=(3.0 if kind == "d" else 0.5) + number / 100))
    return made


@pytest.mark.parametrize("kinds", ["".join(three) for three in itertools.product("gdx", repeat=3)])
@pytest.mark.parametrize("lacking", ["", "parts are 3, expected 4"])
def test_the_worst_part_is_the_verdict_of_the_picture(kinds, lacking):
    judged = judge_parts(looks(kinds, lacking=lacking), predictions(kinds), LIMITS)
    expected = "defect" if "d" in kinds else "invalid" if "x" in kinds or lacking else "good"
    assert judged.areas.verdict == expected
    each = {"g": "good", "d": "defect", "x": "invalid"}
    assert [part.verdict for part in judged.parts] == [each[kind] for kind in kinds]
    assert (judged.doubt is not None) == (expected == "invalid")
    scores = [prediction.score for prediction in predictions(kinds)]
    if scores:
        assert judged.prediction.score == max(scores)
    else:
        assert math.isnan(judged.prediction.score)


def test_no_part_at_all_is_never_good():
    judged = judge_parts(looks("", lacking="no part stands out"), [], LIMITS)
    assert judged.areas.verdict == "invalid"
    assert "no part stands out" in str(judged.doubt)


def test_marks_lie_on_the_part_that_is_defective():
    """The corner of what is cut out turns with the part: a quarter more for each of them."""
    corners = [(-8, -8), (-8, 8), (8, 8), (8, -8)]  # of the defect, from the middle of the part
    for number, (right, down) in enumerate(corners):
        kinds = "".join("d" if place == number else "g" for place in range(4))
        judged = judge_parts(looks(kinds), predictions(kinds), LIMITS)
        (region,) = judged.areas.regions
        x, y, w, h = region.box_xywh
        middle = (20 + 40 * number + 1.56 * right, 60 + 1.56 * down)
        assert (x + w / 2, y + h / 2) == pytest.approx(middle, abs=1.5)
        map_hw = judged.prediction.map_hw
        assert map_hw.shape == FRAME_HW
        assert judged.marked_hw[round(middle[1]), round(middle[0])]
        assert np.count_nonzero(judged.marked_hw) < 64
        assert map_hw.max() == pytest.approx(4.0, abs=0.1)


def test_what_cannot_be_judged_is_where_people_are_told_to_look():
    judged = judge_parts(looks("gxg"), predictions("gxg"), LIMITS)
    assert [region.box_xywh for region in judged.areas.regions] == [(45, 45, 30, 30)]
    assert "part 2 of 3 at 45,45: two of it" in str(judged.doubt)


def test_an_alarm_below_the_smallest_area_is_taken_back_but_no_doubt_is():
    for kinds, verdict in (("dgg", "good"), ("dxg", "invalid")):
        judged = judge_parts(looks(kinds), predictions(kinds), LIMITS, min_area=500)
        assert judged.areas.verdict == verdict
        assert judged.parts[0].verdict == "good"
