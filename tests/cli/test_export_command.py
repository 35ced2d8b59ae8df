"""`edgeseg export` as people type it."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeseg.base.files import file_sha256
from edgeseg.export import candidates as api
from edgeseg.export import onnx_export
from edgeseg.modelfile.metadata import KEY, NUMERICS, ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from tests.support.commands import run, succeed
from tests.support.export_models import (
    COARSE,
    IMPOSSIBLE,
    SHORT,
    artefact,
    data,
    good_frames,
    names,
    reference,
    remember_traces,
    saved,
)

RTX = ("--trt", "--builder", "rtx")


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)
    monkeypatch.setitem(api.TOLERANCES, "int8", COARSE)  # twelve layers that no one trained


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    return saved(tmp_path)


def sidecar(path: Path) -> ModelMetadata:
    text = path.with_suffix(".json").read_text(encoding="utf-8")
    return ModelMetadata.from_json(text, source=str(path))


def test_fp32_verified_is_the_default(fitted: Path) -> None:
    out = fitted.with_name("other.onnx")
    result = succeed("export", fitted, "--out", out)
    assert result.stdout == "", "data alone goes there, and none was asked for"
    lines = result.stderr.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["backend", "ONNX Runtime", "OpenVINO"]
    assert lines[1].endswith("agrees")
    assert "precision: all fp32" in lines
    assert lines[-1].startswith(f"wrote {out} (")
    assert lines[-1].endswith(f"next: edgeseg stream --model {out} --source 0")
    assert names(fitted.parent) == ["bottle.edgeseg", "other.json", "other.onnx"]
    metadata = sidecar(out)
    assert metadata.onnx_sha256 == file_sha256(out)
    assert metadata.artefact_sha256 == file_sha256(fitted)
    image = good_frames(1)
    with open_session(out) as session:
        (prediction,) = session.infer(image)
    np.testing.assert_allclose(
        prediction.map_hw, reference(SHORT, image)["map"][0], rtol=1e-3, atol=1e-4
    )


def test_int8_on_the_good_images_of_a_data_set(fitted: Path) -> None:
    out = fitted.with_name("b8.onnx")
    images = ("--calibrate", data() / "train" / "good")
    result = succeed("export", fitted, "--out", out, "--precision", "int8", *images)
    assert "precision: backbone int8, factors int8" in result.stderr
    assert (sidecar(out).precision, sidecar(out).target) == ("int8", "cpu")
    assert "MatMulInteger" in {node.op_type for node in onnx.load(out).graph.node}
    assert out.stat().st_size < 0.4 * 4 * sum(
        p.numel() for p in artefact(SHORT).backbone.parameters()
    )
    for_trt = succeed("export", fitted, "-o", out, "--precision", "int8", "--for", "trt", *images)
    assert "precision: backbone int8, factors fp16" in for_trt.stderr
    assert sidecar(out).target == "trt"


def test_plans_without_a_gpu(fitted: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")
    result = succeed(
        "export", fitted, *RTX, "--target", "sm86,sm89", "--precision", "fp16", "--json"
    )
    folder = fitted.parent
    assert names(folder) == ["bottle.edgeseg", "bottle.json", "bottle.onnx", "bottle.plan"]
    facts = json.loads(result.stdout)
    assert facts["plan"] == str(folder / "bottle.plan")
    assert facts["plan_bytes"] == (folder / "bottle.plan").stat().st_size
    assert facts["build"]["targets"] == ["sm86", "sm89"]
    assert facts["agreement"][0]["backend"] == "ONNX Runtime, as written"
    metadata = sidecar(folder / "bottle.plan")
    assert json.loads(json.dumps(asdict(metadata.plan_facts))) == facts["build"]
    assert (metadata.precision, metadata.target) == ("fp16", "trt")
    assert metadata.onnx_sha256 == file_sha256(folder / "bottle.onnx")
    text = succeed("info", folder / "bottle.plan").stdout
    assert "['sm86', 'sm89']" in text
    assert result.stderr.splitlines()[-1].startswith(f"wrote {folder / 'bottle.plan'} (")


def test_what_was_made_as_json(fitted: Path) -> None:
    result = succeed("export", fitted, "--json", "--quiet")
    assert result.stderr == ""
    facts = json.loads(result.stdout)
    out = fitted.with_suffix(".onnx")
    assert facts["onnx"] == str(out)
    assert facts["onnx_bytes"] == out.stat().st_size
    assert facts["report"] == {"precision": "all fp32"}
    assert [row["passed"] for row in facts["agreement"]] == [True, True]
    assert facts["agreement"][0]["max_error"] <= 1e-3
    assert set(facts) == {"onnx", "onnx_bytes", "report", "agreement"}


def test_a_repository_for_triton(fitted: Path) -> None:
    repository = fitted.parent / "models"
    result = succeed(
        "export", fitted, "--out", fitted.with_name("b_32.onnx"), "--triton", repository
    )
    assert names(repository) == ["b_32"], "named like the file, which the user chose"
    assert names(repository / "b_32") == ["1", "config.pbtxt"]
    assert names(repository / "b_32" / "1") == ["model.json", "model.onnx"]
    assert 'platform: "onnxruntime_onnx"' in (repository / "b_32" / "config.pbtxt").read_text()
    assert f"wrote {repository / 'b_32'}" in result.stderr


def test_triton_gets_the_graph_where_it_cannot_load_the_plan(fitted: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")
    repository = fitted.parent / "models"
    succeed("export", fitted, *RTX, "--no-verify", "--triton", repository)
    assert names(repository / "bottle" / "1") == ["model.json", "model.onnx"]
    assert sidecar(fitted.with_suffix(".plan")).plan is not None


def test_accuracy_before_and_after(fitted: Path) -> None:
    result = succeed("export", fitted, "--data", data(), "--json", "--no-verify")
    facts, out = json.loads(result.stdout), fitted.with_suffix(".onnx")
    assert facts["report"]["pro_before"] == pytest.approx(facts["report"]["pro_after"], abs=1e-3)
    (row,) = sidecar(out).accuracy
    assert row["dataset"] == data().name
    assert row["pro"] == facts["report"]["pro_after"]
    assert (row["images"], row["anomalies"]) == (3 + 4, 4)
    assert sidecar(out).onnx_sha256 == file_sha256(out)
    (entry,) = onnx.load(out).metadata_props
    assert entry.key == KEY
    assert json.loads(entry.value)["accuracy"] == [row]
    lines = [re.split(" {2,}", line) for line in result.stderr.splitlines()]
    assert [f"accuracy on {data().name}", "fp32, as fitted", "fp32, ONNX Runtime"] in lines
    assert ["PRO", f"{row['pro']:.4f}", f"{row['pro']:.4f}"] in lines
    assert names(fitted.parent) == ["bottle.edgeseg", "bottle.json", "bottle.onnx"]


def test_a_file_that_says_its_accuracy_is_written_once(
    fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until all figures are known an earlier export stays as it is."""
    out, seen = fitted.with_suffix(".onnx"), []
    measure = onnx_export.measure_accuracy
    monkeypatch.setattr(
        onnx_export,
        "measure_accuracy",
        lambda *words, **named: seen.append(out.exists()) or measure(*words, **named),
    )
    written = []
    stage = onnx_export.stage_sidecar
    monkeypatch.setattr(
        onnx_export,
        "stage_sidecar",
        lambda change, name, told: written.append(name) or stage(change, name, told),
    )
    succeed("export", fitted, "--data", data(), "--no-verify")
    assert (seen, written) == ([False], [out.name])


def test_accuracy_of_each_precision_is_marked(fitted: Path) -> None:
    out, folder = fitted.with_name("b8.onnx"), ("--calibrate", data(), "--data", data())
    result = succeed("export", fitted, "-o", out, "--precision", "int8", "--no-verify", *folder)
    assert [row[NUMERICS] for row in sidecar(out).accuracy] == ["fp32", "int8"]
    assert {row["dataset"] for row in sidecar(out).accuracy} == {data().name}
    assert "int8, ONNX Runtime" in result.stderr
    assert "{" not in result.stderr, "sentences and tables, no dictionaries"


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "DATA"),
        ("--precision", "int8", "--calibrate", "DATA", "--batch", "2"),
        ("--precision", "fp16", "--no-grid"),
        ("--builder", "rtx", "--trt", "--target", "sm86"),
        ("--refused",),
    ],
)
def test_sentences_and_tables_no_values_of_python(
    fitted: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--trt" in words:
        pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: edgeseg[trt-rtx]")
    if words == ("--refused",):
        monkeypatch.setitem(api.TOLERANCES, "fp32", IMPOSSIBLE)
        words = ()
    typed = [data() if word == "DATA" else word for word in words]
    result = run("export", fitted, *typed)
    assert result.stderr.strip(), "a report"
    assert not re.search(r"[{}\[\]]|\(\w+=|\bNone\b|\bTrue\b|\bFalse\b", result.output)


def test_accuracy_of_a_fixed_batch(fitted: Path) -> None:
    succeed("export", fitted, "--data", data(), "--batch", "4", "--no-verify")
    (row,) = sidecar(fitted.with_suffix(".onnx")).accuracy
    assert row["images"] == 7, "one at a time, in batches that are filled up to four"


def test_batches(fitted: Path) -> None:
    out = fitted.with_suffix(".onnx")
    succeed("export", fitted, "--batch", "4")
    assert sidecar(out).input.batch == (4, 4, 4)
    succeed("export", fitted, "--dynamic-batch", "2,3,4", "--no-grid")
    assert sidecar(out).input.batch == (2, 3, 4)
    assert sidecar(out).outputs == ("map", "score")


def test_a_graph_that_disagrees(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(api.TOLERANCES, "fp32", IMPOSSIBLE)
    result = run("export", fitted)
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].split()[:3] == ["backend", "max", "error"]
    assert "expected <= 0; mean error" in lines[1]
    assert lines[-1].startswith(
        f"Error: {fitted.with_suffix('.onnx')}: disagrees with the reference"
    )
    assert names(fitted.parent) == ["bottle.edgeseg", "bottle.onnx.failed"]
    succeed("export", fitted, "--no-verify")
    assert "bottle.json" in names(fitted.parent)


def test_quiet_is_quiet(fitted: Path) -> None:
    result = succeed("export", fitted, "--quiet", "--no-verify")
    assert result.output == ""


def test_another_process_writes_the_same_bytes_without_tensorrt(fitted: Path) -> None:
    """In a process of its own: nothing is remembered, and all that is imported can be seen."""
    succeed("export", fitted, "--no-verify", "--quiet")
    out = fitted.with_suffix(".onnx")
    before = out.read_bytes()
    out.unlink()
    code = (
        "import sys; from edgeseg.cli.group import cli;"
        "cli(['export', sys.argv[1], '--no-verify', '-q'], standalone_mode=False);"
        "print(sorted({'tensorrt', 'tensorrt_rtx', 'openvino'} & set(sys.modules)))"
    )
    command_line = [sys.executable, "-c", code, str(fitted)]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[]"
    assert out.read_bytes() == before
    assert names(fitted.parent) == ["bottle.edgeseg", "bottle.json", "bottle.onnx"]
