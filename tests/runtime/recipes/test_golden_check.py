"""The golden check passes what was approved, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.progress import ignore
from edgeseg.runtime.backends.base import Outputs
from edgeseg.runtime.recipes import check_record as record_module
from edgeseg.runtime.recipes.approval import read_approval, write_approval
from edgeseg.runtime.recipes.check_record import CheckRecord, records_of, write_record
from edgeseg.runtime.recipes.golden_check import RecipeJudge, approve, check_golden, prove
from edgeseg.runtime.recipes.open_judge import check_recipe
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.vision.images import write_image
from tests.doubles.fakes import BrightnessSession
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.recipe_folders import CPU, approve_now, edit, new_recipe, part


@pytest.fixture
def bottle(tmp_path: Path) -> Recipe:
    return new_recipe(tmp_path / "bottle")


def checked(recipe: Recipe, **options: object) -> CheckRecord:
    return check_recipe(recipe, CPU, note=ignore, **options)


def problems(recipe: Recipe, **options: object) -> list[str]:
    record = checked(recipe, **options)
    assert record.passed == (not record.problems)
    return list(record.problems)


def test_what_was_approved_passes_with_the_rates_that_so_few_pictures_support(
    bottle: Recipe,
) -> None:
    record = checked(bottle)
    assert record.passed
    assert [item.verdict for item in record.pictures] == ["good"] * 3 + ["defect"] * 2
    assert [item.score for item in record.pictures] == pytest.approx([150, 160, 170, 220, 240])
    assert (record.repeats, record.largest_spread) == (3, 0.0)
    for rate, count in ((record.false_alarms, 3), (record.misses, 2)):
        expected = stats.binomtest(0, count).proportion_ci(0.95, method="exact")
        assert (rate.mistakes, rate.pictures) == (0, count)
        assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high))
    assert str(record.misses) == "0 of 2, so the rate is between 0.0% and 84.2%"


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9, 0.999])
def test_a_corrupted_model_fails(bottle: Recipe, share: float) -> None:
    whole = bottle.model.read_bytes()
    place = int(share * len(whole))
    for damaged in (
        whole[:place],
        whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :],
    ):
        bottle.model.write_bytes(damaged)
        (problem,) = problems(bottle)
        assert problem.startswith(f"{bottle.model}: ")
    bottle.model.unlink()
    with pytest.raises(UsageError, match="no such model"):
        checked(bottle)


def test_another_precision_fails_whatever_its_scores(bottle: Recipe) -> None:
    metadata = replace(brightness_metadata(), precision="fp16")
    write_brightness_model(bottle.model, metadata=metadata)
    found = problems(bottle)
    assert "precision fp16, approved was fp32" in found
    assert found[0].startswith("model ")


def test_another_model_another_threshold(bottle: Recipe) -> None:
    write_brightness_model(bottle.model, metadata=brightness_metadata(), repeats=1)
    (problem,) = problems(bottle)
    assert problem.startswith("model ")
    approve_now(bottle)
    assert problems(edit(bottle, "# threshold = 1.0", "threshold = 199.0")) == [
        "threshold 199, approved was 200"
    ]


def test_a_score_out_of_its_bounds_and_a_turned_verdict(bottle: Recipe) -> None:
    expected = read_approval(bottle)
    first, *others = expected.pictures
    for moved, passes in ((1.9, True), (2.1, False)):
        pictures = (replace(first, score=first.score + moved), *others)
        write_approval(bottle, replace(expected, pictures=pictures))
        found = problems(bottle)
        assert (found == []) == passes, "one hundredth of 200"
    assert found == ["good/150.png: score 150, approved was 152.1 +- 2"]
    write_approval(bottle, replace(expected, pictures=(*others, replace(first, verdict="unsure"))))
    assert problems(bottle) == ["good/150.png: judged good, approved was unsure"]


def test_golden_pictures_that_were_changed_lost_or_slipped_in(bottle: Recipe) -> None:
    write_image(bottle.golden / "good" / "150.png", part(150, base=91))
    (bottle.golden / "bad" / "240.png").unlink()
    write_image(bottle.golden / "good" / "new.png", part(140))
    found = problems(bottle)
    assert found[:3] == [
        "good/150.png: is not the picture that was approved",
        "bad/240.png: is gone",
        "good/new.png: was never approved; run `edgeseg recipe approve`",
    ]


class Wandering(BrightnessSession):
    """A device whose answers are not the same twice."""

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        outputs = super()._run(frames_nhwc)
        return {**outputs, "score": outputs["score"] + np.float32(0.5 * len(self.batches))}


def test_answers_that_differ_between_repeats_fail(bottle: Recipe) -> None:
    metadata = brightness_metadata()
    write_approval(bottle, approve(RecipeJudge(bottle, BrightnessSession(metadata))))
    assert check_golden(RecipeJudge(bottle, BrightnessSession(metadata))).passed
    record = check_golden(RecipeJudge(edit(bottle, "= 0.01 ", "= 9.0 "), Wandering(metadata)))
    assert record.problems[0] == "good/150.png: scores of 3 repeats differ by 1"
    assert record.largest_spread == pytest.approx(1.0)


def test_a_score_that_is_no_number_fails(bottle: Recipe) -> None:
    class Broken(BrightnessSession):
        def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
            outputs = super()._run(frames_nhwc)
            return {**outputs, "score": outputs["score"] * np.float32(np.nan)}

    record = check_golden(RecipeJudge(bottle, Broken(brightness_metadata())))
    assert not record.passed
    assert record.pictures[0].score is None
    json.dumps(record.facts(), allow_nan=False)
    with pytest.raises(RuntimeFailure, match="gives no finite score"):
        approve(RecipeJudge(bottle, Broken(brightness_metadata())))


def test_a_new_model_is_proven_by_its_verdicts_alone(bottle: Recipe) -> None:
    dimmer = BrightnessSession(brightness_metadata(threshold=190.0))
    assert prove(RecipeJudge(bottle, dimmer)).passed
    worse = BrightnessSession(brightness_metadata(threshold=165.0))
    record = prove(RecipeJudge(bottle, worse))
    assert record.problems == ("good/170.png: judged defect, expected good",)
    assert (record.false_alarms.mistakes, record.misses.mistakes) == (1, 0)
    blind = BrightnessSession(brightness_metadata(threshold=230.0))
    assert prove(RecipeJudge(bottle, blind)).problems == ("bad/220.png: judged good, expected bad",)


def test_a_wrong_verdict_is_not_approved(bottle: Recipe) -> None:
    write_image(bottle.golden / "good" / "210.png", part(210))
    with pytest.raises(RuntimeFailure) as refused:
        approve_now(bottle)
    path = bottle.golden / "good" / "210.png"
    assert str(refused.value) == (
        f"{path}: judged defect (210, threshold 200), expected good; take it out, or choose "
        "another threshold with `edgeseg threshold`"
    )


# The live master part.

MASTER = [part(150 + index % 2) for index in range(8)]


@pytest.fixture
def with_master(bottle: Recipe) -> Recipe:
    for index, frame in enumerate(MASTER):
        write_image(bottle.golden / "master" / f"{index}.png", frame)
    approve_now(bottle)
    return bottle


def moved(frame: NDArray[np.uint8], right: float) -> NDArray[np.uint8]:
    matrix = np.array([[1.0, 0.0, right], [0.0, 1.0, 0.0]])
    return cv2.warpAffine(frame, matrix, frame.shape[1::-1], borderMode=cv2.BORDER_REFLECT)


def test_the_master_as_it_was_passes(with_master: Recipe) -> None:
    record = checked(with_master, live=MASTER)
    assert record.passed
    assert record.master["brightness"] == pytest.approx(1.0)
    assert record.master["right"] == pytest.approx(0.0, abs=1e-9)
    rng = np.random.default_rng(0)
    noisy = [
        np.clip(frame + rng.normal(0, 2, frame.shape), 0, 255).astype(np.uint8) for frame in MASTER
    ]
    assert problems(with_master, live=noisy) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: np.clip(f * 0.75, 0, 255).astype(np.uint8), "the light has changed: "),
        (lambda f: np.clip(f * 1.3, 0, 255).astype(np.uint8), "the light has changed: "),
        (lambda f: cv2.GaussianBlur(f, (0, 0), 1.5), "the focus has changed: "),
        (lambda f: moved(f, 3.0), "the camera or the part has moved "),
        (lambda f: f[:-8], "frames of 96x56, approved 96x64"),
    ],
    ids=["darker", "brighter", "blurred", "moved", "cropped"],
)
def test_changed_light_lost_focus_and_a_moved_camera_fail(
    with_master: Recipe, change: object, text: str
) -> None:
    found = problems(with_master, live=[change(frame) for frame in MASTER])
    assert any(problem.startswith(f"master part: {text}") for problem in found), found


def test_a_defect_on_the_master_fails(with_master: Recipe) -> None:
    spotted = [part(225) for _ in MASTER]
    found = problems(with_master, live=spotted)
    assert "master part: judged defect, approved was good" in found


def test_a_master_that_was_never_approved(bottle: Recipe) -> None:
    with pytest.raises(UsageError, match="no master part is approved"):
        checked(bottle, live=MASTER)


# Records.


def test_records_are_kept_in_order_and_the_oldest_go(
    bottle: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "_KEPT", 3)
    record = checked(bottle)
    paths = [write_record(bottle, replace(record, repeats=index)) for index in range(5)]
    assert records_of(bottle) == paths[-3:]
    assert json.loads(paths[-1].read_text())["repeats"] == 4
