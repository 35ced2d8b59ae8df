"""The variant of a part, from the session to every output."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.decision.judgement import judge
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.base import Outputs
from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.recipes.approval import read_approval, write_approval
from edgeseg.runtime.recipes.golden_check import RecipeJudge, approve, check_golden, prove
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig
from edgeseg.runtime.sinks.event_log import frame_event
from edgeseg.runtime.station.records import Job, StationResult, TriggerEvent
from edgeseg.runtime.triggers.station_sink import inspection_of
from edgeseg.runtime.web.rejects import part_facts
from tests.doubles.fakes import BrightnessSession, grey
from tests.support.brightness_model import brightness_metadata
from tests.support.recipe_folders import new_recipe
from tests.support.scored_frames import make_result

DARK_OR_LIGHT = replace(
    brightness_metadata(),
    outputs=("map", "score", "grid", "variant"),
    variants=("dark", "light"),
)


class TwoVariants(BrightnessSession):
    """The brightness model; a frame that is light on average shows the second variant."""

    turned = False

    def __init__(self, metadata: ModelMetadata = DARK_OR_LIGHT) -> None:
        super().__init__(metadata)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        light = frames_nhwc.mean(axis=(1, 2, 3)) > 100
        return {**super()._run(frames_nhwc), "variant": (light != self.turned).astype(np.int64)}


def named(variant: str) -> FrameResult:
    result = make_result()
    return replace(result, prediction=replace(result.prediction, variant=variant))


def test_predictions_name_the_variant() -> None:
    with Detector(TwoVariants()) as detector:
        assert detector.predict(grey(50)).variant == "dark"
        assert detector.score(grey(150)).variant == "light"
    with Detector(BrightnessSession()) as plain:
        assert plain.predict(grey(50)).variant is None


def test_a_judged_prediction_keeps_its_variant() -> None:
    result = named("dark").prediction
    view = Detector(TwoVariants())._inputs.view((32, 48))
    judged = judge(
        replace(result, map_hw=np.zeros((32, 48), np.float32)),
        thresholds=brightness_metadata().threshold,
        view=view,
    )
    assert judged.variant == "dark"


def test_every_output_says_it_and_those_of_one_product_do_not() -> None:
    trigger = TriggerEvent(trigger_id=1, origin="x", monotonic_ns=0, wall_s=0.0, job=Job())

    def told(result: FrameResult) -> list[dict[str, object]]:
        station = StationResult(
            trigger=trigger, inspection=inspection_of(result), wall_s=0.0, latency_ms=1.0
        )
        return [frame_event(result), station.facts(), part_facts(result)]

    assert [facts["variant"] for facts in told(named("dark"))] == ["dark"] * 3
    assert all("variant" not in facts for facts in told(make_result()))


def test_tiles_of_a_stream_have_no_variant_of_their_own() -> None:
    with pytest.raises(UsageError, match="several variants"):
        Scorer(
            TwoVariants(), ["cam"], config=ScorerConfig(tile_overlap=0.25), meters=StreamMeters(1)
        )


def test_metadata_name_as_many_variants_as_the_graph_tells() -> None:
    with pytest.raises(ValueError, match="variants"):
        replace(DARK_OR_LIGHT, variants=())
    with pytest.raises(ValueError, match="variants"):
        replace(DARK_OR_LIGHT, outputs=("map", "score"))
    assert '"variants"' not in brightness_metadata().to_json()
    again = ModelMetadata.from_json(DARK_OR_LIGHT.to_json(), source="test")
    assert again.variants == ("dark", "light")


def test_a_golden_picture_has_to_show_the_variant_that_was_approved(tmp_path) -> None:
    recipe = new_recipe(tmp_path / "bottle", approved=False)
    session = TwoVariants()
    write_approval(recipe, approve(RecipeJudge(recipe, session)))
    approved = read_approval(recipe)
    assert {picture.variant for picture in approved.pictures} <= {"dark", "light"}
    assert not [
        text for text in check_golden(RecipeJudge(recipe, session)).problems if "named" in text
    ]
    session.turned = True
    for record in (check_golden(RecipeJudge(recipe, session)), prove(RecipeJudge(recipe, session))):
        found = [text for text in record.problems if "named" in text]
        assert len(found) == len(approved.pictures)
    assert not prove(RecipeJudge(recipe, BrightnessSession())).problems
