"""The study of changeovers: a short run, and what it would not let pass."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.line import changeover as study
from edgeseg.bench.studies.line import made_models
from edgeseg.fitting.options import FitOptions
from edgeseg.progress import Note, ignore
from tests.support import REPO


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    models = [word for path in study.MODELS for word in ("--model", str(REPO / path))]
    done = CliRunner().invoke(
        study.main, [*models, "--changes", "3", "--out", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return out


def test_every_trigger_is_answered_by_its_own_recipe(written: Path) -> None:
    facts = json.loads((written / "changeover.json").read_text())
    warm, cold = (study.Phase(**phase) for phase in facts["phases"])
    assert warm.held
    assert cold.held
    assert (warm.changes, warm.warm) == (3, 3)
    assert (cold.changes, cold.warm) == (3, 0)
    assert warm.triggers == warm.results == sum(warm.outcomes.values())
    assert warm.inspected >= 3
    assert set(warm.outcomes) | set(cold.outcomes) <= {"inspected", "job_loading", "missed"}
    for bad in ({"results": 1}, {"wrong_recipe": 1}, {"out_of_order": 1}):
        assert not replace(warm, **bad).held


def test_the_page_is_made_of_the_figures(written: Path) -> None:
    facts = json.loads((written / "changeover.json").read_text())
    text = (written / "changeover.md").read_text()
    assert text == study.report_text(facts)
    assert f"| warm, 3 changes | {facts['phases'][0]['ms_p50']:.1f} |" in text


def test_models_are_made_of_different_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit and its export take half a minute: here only what is asked of them."""
    asked: list[tuple[str, str | None, bytes]] = []

    class Fitted:
        def export(self, path: Path, *, allow_random_weights: bool, note: Note) -> Path:
            assert allow_random_weights
            return path

    def fit(good: Path, *, backbone: str, options: FitOptions) -> Fitted:
        pictures = sorted(good.iterdir())
        assert len(pictures) == made_models.IMAGES
        asked.append((backbone, options.weights, pictures[0].read_bytes()))
        return Fitted()

    monkeypatch.setattr("edgeseg.fit", fit)
    made = made_models.make_models(
        tmp_path, ("resnet18", "mobilenet_v3_small"), random_weights=True, note=ignore
    )
    assert [path.name for path in made] == ["1-resnet18.onnx", "2-mobilenet_v3_small.onnx"]
    assert [entry[:2] for entry in asked] == [
        ("resnet18", "random"),
        ("mobilenet_v3_small", "random"),
    ]
    assert asked[0][2] != asked[1][2]
