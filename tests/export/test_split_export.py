"""`edgeseg export --split`: what is written, what is refused, and that the two belong together."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import edgeseg
from edgeseg.base.errors import RuntimeFailure, UsageError, VerificationError
from edgeseg.export import split_export as api
from edgeseg.export.exported import Exported, SplitExport
from edgeseg.export.halves import GraphHalves, halve_graph
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.split_export import export_halves
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.inspect_file import describe
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.split_facts import read_split
from tests.support.commands import fail, succeed
from tests.support.export_models import (
    SHORT,
    artefact,
    frames,
    names,
    reference,
    remember_traces,
    saved,
)

WRITTEN = ["part.backbone.onnx", "part.head.json", "part.head.onnx", "part.json", "part.onnx"]


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)


def whole(folder: Path) -> Exported:
    options = ExportOptions(split=True, verify=False)
    return export_onnx(artefact(SHORT), folder / "part.onnx", options=options)


def split(folder: Path) -> SplitExport:
    return export_halves(whole(folder), artefact(SHORT))


def test_the_halves_judge_as_the_fitted_model_does(tmp_path: Path) -> None:
    done = split(tmp_path)
    assert names(tmp_path) == WRITTEN
    assert done.agreement.passed
    assert (done.agreement.images, done.agreement.source) == (8, "synthetic images")
    images = frames(6)
    wanted = reference(SHORT, images)
    with open_session(done.head) as session:
        found = session.infer(images)
    scores = [prediction.score for prediction in found]
    np.testing.assert_allclose(scores, wanted["score"], rtol=1e-4)
    for number, prediction in enumerate(found):
        np.testing.assert_allclose(prediction.map_hw, wanted["map"][number], rtol=1e-3, atol=1e-3)
        assert prediction.grid_hw is not None


def test_the_head_is_a_model_file_like_any_other(tmp_path: Path) -> None:
    done, made = split(tmp_path), file_metadata(tmp_path / "part.onnx")
    head = file_metadata(done.head)
    hashes = {"graph_sha256": None, "onnx_sha256": None}
    assert replace(head, **hashes) == replace(made, **hashes)  # type: ignore[arg-type]
    assert head.graph_sha256 not in (None, made.graph_sha256)
    facts = read_split(done.head)
    assert facts is not None
    assert facts.half == "head"
    assert read_split(done.backbone) == replace(facts, half="backbone")
    assert read_split(tmp_path / "part.onnx") is None


def test_a_threshold_that_was_chosen_for_the_head_stays(tmp_path: Path) -> None:
    done = split(tmp_path)
    before = file_metadata(done.head).threshold.score
    succeed("threshold", done.head, "--value", before * 1.5)
    assert file_metadata(done.head).threshold.score == pytest.approx(before * 1.5)
    assert file_metadata(tmp_path / "part.onnx").threshold.score == before
    split(tmp_path)
    assert file_metadata(done.head).threshold.score == pytest.approx(before * 1.5)


def test_halves_that_disagree_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(proto: onnx.ModelProto) -> GraphHalves:
        halves = halve_graph(proto)
        (factor,) = (each for each in halves.head.graph.initializer if each.name == "factor")
        values = numpy_helper.to_array(factor) * np.float32(1.1)
        factor.CopyFrom(numpy_helper.from_array(values, "factor"))
        return halves

    done = split(tmp_path)
    kept = done.head.read_bytes()
    monkeypatch.setattr(api, "halve_graph", wrong)
    with pytest.raises(VerificationError, match=r"the halves together disagree .* neither was"):
        export_halves(whole(tmp_path), artefact(SHORT))
    assert names(tmp_path) == WRITTEN, "nothing is left behind"
    assert done.head.read_bytes() == kept


def test_a_backbone_with_other_weights_is_refused(tmp_path: Path) -> None:
    done = split(tmp_path)
    other = onnx.load(done.backbone)
    weight = next(each for each in other.graph.initializer if "conv1.weight" in each.name)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 2, weight.name))
    onnx.save(other, done.backbone)  # a whole file, with the facts in it
    with pytest.raises(RuntimeFailure, match=r"part.backbone.onnx: SHA-256 .*copy both of one"):
        open_session(done.head)


@pytest.mark.parametrize("half", ["backbone", "head"])
def test_one_changed_bit_is_found(tmp_path: Path, half: str) -> None:
    done = split(tmp_path)
    path = getattr(done, half)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1  # among the weights
    path.write_bytes(data)
    with pytest.raises(RuntimeFailure, match=rf"part.{half}.onnx: SHA-256"):
        open_session(done.head)


def test_a_head_alone_says_what_is_missing(tmp_path: Path) -> None:
    done = split(tmp_path)
    done.backbone.unlink()
    with pytest.raises(RuntimeFailure, match=r"part.backbone.onnx, its other half, is not beside"):
        open_session(done.head)


def test_info_says_which_half_it_is(tmp_path: Path) -> None:
    done = split(tmp_path)
    backbone, head = describe(done.backbone), describe(done.head)
    assert backbone["metadata"] == "in the other half, .head.onnx"
    assert backbone["split"]["half"] == "backbone"
    assert head["split"]["half"] == "head"
    assert head["split"]["taps"] == backbone["split"]["taps"]
    assert head["metadata"]["threshold"]["score"] == artefact(SHORT).calibration.score_threshold
    text = succeed("info", done.backbone, "--operators").stdout
    assert "Hailo: all" in text, "the half is all that the accelerator gets"


def test_the_command_writes_and_reports_them(tmp_path: Path) -> None:
    out = tmp_path / "out" / "part.onnx"
    done = succeed("export", saved(tmp_path), "--out", out, "--split", "--json")
    assert names(out.parent) == WRITTEN
    facts = json.loads(done.stdout)
    assert facts["halves"]["head"] == str(out.with_name("part.head.onnx"))
    assert facts["halves"]["agreement"]["passed"] is True
    assert "the halves, one after the other:" in done.stderr
    assert "to tap_1 [1, 64, 16, 16], tap_2 [1, 128, 8, 8])" in done.stderr


def test_python_writes_them_too(tmp_path: Path) -> None:
    model = edgeseg.load(saved(tmp_path))
    model.export(tmp_path / "out" / "part.onnx", split=True)
    assert names(tmp_path / "out") == WRITTEN


def test_what_cannot_be_split_is_refused_at_the_beginning(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(UsageError, match="tools round by themselves, from"):
        ExportOptions(split=True, precision="int8")
    with pytest.raises(UsageError, match="one size of a batch, and this is any from 1 to 8"):
        ExportOptions(split=True, batch=(1, 4, 8))
    line = fail("export", path, "--split", "--precision", "int8", "--calibrate", tmp_path, code=2)
    assert line.startswith("--split: an accelerator's tools round by themselves")
    line = fail("export", path, "--split", "--triton", tmp_path / "t", code=2)
    assert line.startswith("--split: for accelerators that take a part of the graph")
    assert names(tmp_path) == ["bottle.edgeseg"]
