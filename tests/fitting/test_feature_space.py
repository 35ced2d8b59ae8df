"""Settings with the backbone and W that they mean."""

from dataclasses import replace

import pytest

from edgeseg.base.progress import ignore
from edgeseg.config import AUTO
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.model.backbones import BACKBONES
from tests.support.small_models import SMALL


def test_the_context_is_what_the_backbone_is_best_with(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = BACKBONES[SMALL.backbone]
    monkeypatch.setitem(BACKBONES, spec.name, replace(spec, context=3))
    spaces = {
        asked: FeatureSpace.load(replace(SMALL, context=asked), weights="random", note=ignore)
        for asked in (AUTO, 1)
    }
    assert {asked: space.config.context for asked, space in spaces.items()} == {AUTO: 3, 1: 1}
    assert spaces[AUTO].embedding.shape[0] == 2 * spaces[1].embedding.shape[0]
