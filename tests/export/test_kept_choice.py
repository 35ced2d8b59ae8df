"""What was chosen of a graph: never lost without a word, and kept where it still holds."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import edgeseg
from edgeseg.base.errors import RuntimeFailure
from edgeseg.cli.group import cli
from edgeseg.decision.prediction import Prediction
from edgeseg.export.onnx_export import save_described
from edgeseg.modelfile.metadata import ModelMetadata, ScoreRule
from edgeseg.runtime.backends.model_file import file_metadata
from tests.support.brightness_model import brightness_graph, brightness_metadata

REGION = ["--region", "0,0,8,8"]


def metadata(*, threshold: float = 200.0, seed: int = 0) -> ModelMetadata:
    """Of an export, with the scores of its good images."""
    scores = tuple(sorted(np.random.default_rng(seed).uniform(90, 150, 100).tolist()))
    plain = brightness_metadata(threshold=threshold)
    good = replace(plain.good_scores, min=scores[0], max=scores[-1], scores=scores, peaks=scores)
    return replace(
        plain,
        good_scores=good,
        camera_hw=(32, 48),
        rule=ScoreRule(top=3, sigma=0.0),
        needs_sidecar=True,
    )


def export(path: Path, told: ModelMetadata | None = None) -> list[str]:
    """Export it; what was said."""
    notes: list[str] = []
    told = told or metadata()
    save_described(brightness_graph(told), path, told, note=notes.append)
    return notes


def run(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def stated(path: Path) -> ModelMetadata:
    return file_metadata(path)


def judged(path: Path) -> Prediction:
    with edgeseg.runtime.open(path) as detector:
        return detector.predict(np.full((32, 48, 3), 120, np.uint8))


def test_a_graph_without_its_sidecar_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    export(path)
    run("threshold", path, "--rate", 0.05)
    run("ignore", path, *REGION)
    path.with_suffix(".json").unlink()
    for use in (
        lambda: edgeseg.runtime.open(path),
        lambda: file_metadata(path),
    ):
        with pytest.raises(RuntimeFailure) as failure:
            use()
        assert str(failure.value) == (
            f"{path}: part.json, its sidecar, is not beside it, and holds the threshold, the "
            "unsure band and the ignored regions that were chosen since the export; copy both "
            "files, or export the model again"
        )
    for words in (["info"], ["threshold"], ["ignore", *REGION], ["predict"]):
        command = [words[0], str(path), *words[1:]]
        command += [str(path)] if words == ["predict"] else []
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 1, done.output
        assert "part.json, its sidecar, is not beside it" in done.output


def test_nor_with_the_sidecar_of_another_graph(tmp_path: Path) -> None:
    path, other = tmp_path / "part.onnx", tmp_path / "other.onnx"
    export(path)
    export(other, metadata(seed=1))
    other.with_suffix(".json").replace(path.with_suffix(".json"))
    with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged, copy both"):
        edgeseg.runtime.open(path)


def test_a_graph_of_before_runs_alone_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    export(path, replace(metadata(), needs_sidecar=False))
    path.with_suffix(".json").unlink()
    notes: list[str] = []
    with edgeseg.runtime.open(path, note=notes.append) as detector:
        assert detector.threshold == 200.0
    assert "part.json is not beside part.onnx: it runs as exported" in notes


def test_the_same_export_again_keeps_what_was_chosen(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    assert export(path) == []
    run("threshold", path, "--rate", 0.05, "--unsure-rate", 0.2)
    run("ignore", path, *REGION)
    chosen, score = stated(path), judged(path).score
    (said,) = export(path)
    assert re.fullmatch(
        rf"what was chosen of part.onnx stays: threshold {chosen.threshold.score:.4f} \(ignore, "
        r"[0-9TZ:-]+\); an export under another name starts anew",
        said,
    )
    assert stated(path) == chosen
    assert judged(path).score == score
    (again,) = export(path, replace(metadata(), versions={"edgeseg": "9"}))
    assert again == said, "and ever again"


@pytest.mark.parametrize(
    ("choice", "command"),
    [
        (["threshold", "--rate", 0.05], "edgeseg threshold {} --rate 0.05"),
        (["threshold", "--value", 140], "edgeseg threshold {} --value 140"),
        (
            ["threshold", "--rate", 0.05, "--unsure-rate", 0.2],
            "edgeseg threshold {} --rate 0.05 --unsure-rate 0.2",
        ),
    ],
)
def test_another_model_replaces_it_and_says_how_to_choose_it_again(
    tmp_path: Path, choice: list[object], command: str
) -> None:
    path = tmp_path / "part.onnx"
    export(path)
    run(choice[0], path, *choice[1:])
    old = stated(path).threshold.score
    (said,) = export(path, metadata(threshold=190.0, seed=1))
    assert said.startswith(f"part.onnx is another model now: its threshold {old:.4f} (threshold, ")
    assert said.endswith(
        f"is replaced by 190.0000 of this export; to choose as before: `{command.format(path)}`"
    )
    assert stated(path).threshold.score == 190.0
    assert stated(path).history == ()
    assert export(path, metadata(threshold=190.0, seed=1)) == []


def test_another_precision_is_another_model(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    export(path)
    run("threshold", path, "--rate", 0.05)
    (said,) = export(path, replace(metadata(), precision="fp16"))
    assert said.startswith("part.onnx is another model now")
    assert stated(path).threshold.score == 200.0


def test_regions_of_the_model_before_are_kept_for_the_command(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    export(path)
    run("ignore", path, *REGION)
    before = stated(path).ignored_here
    (said,) = export(path, metadata(seed=1))
    file = tmp_path / "part.ignored.json"
    assert said.endswith(f"to choose as before: `edgeseg ignore {path} --mask {file}`")
    assert stated(path).ignored_here == ()
    assert json.loads(file.read_text())["polygons"] == [[list(c) for c in p] for p in before]
    run("ignore", path, "--mask", file)
    assert stated(path).ignored_here == before


def test_a_damaged_file_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    export(path)
    run("threshold", path, "--rate", 0.05)
    path.write_bytes(path.read_bytes()[:-9])
    (said,) = export(path)
    assert said.startswith("what was chosen of the earlier part.onnx is not kept: ")
    assert stated(path).threshold.score == 200.0
