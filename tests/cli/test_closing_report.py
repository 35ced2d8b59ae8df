"""The end of a fit: what usually is found is said where the settings are those it is known of."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgeseg.cli.closing_report import closing_lines
from edgeseg.config import FitConfig
from edgeseg.decision.usual_recall import usual_recall
from edgeseg.model.map_layers import with_backbone_choices

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact

DEFAULT = FitConfig(seed=3)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (DEFAULT, True),
        (with_backbone_choices(DEFAULT), True),
        (replace(DEFAULT, backbone="resnet18"), False),
        (replace(DEFAULT, map_layers=()), False),
        (replace(DEFAULT, promise="conformal"), False),
        (replace(DEFAULT, false_alarm_rate=0.05), False),
        (FitConfig.preset("paper"), False),
    ],
)
def test_usual_recall_is_told_of_the_settings_it_was_measured_with(
    small_artefact: "Artefact", config: FitConfig, told: bool
) -> None:
    usual = usual_recall(small_artefact.calibration.good.parts)
    assert usual is not None
    lines = list(closing_lines(replace(small_artefact, config=config)))
    assert (usual.sentence in lines) == told
    assert not any("kinds of parts" in line for line in lines if line != usual.sentence)
