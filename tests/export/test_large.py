"""Graphs over 2 GB keep their weights beside them; these are small, and so is the limit."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeseg.base.errors import ExportError, VerificationError
from edgeseg.data.datasets import open_dataset
from edgeseg.export import candidates as api
from edgeseg.export import graph
from edgeseg.export.exported import Exported
from edgeseg.export.graph import GraphOptions, clean, initializers, is_large, save_graph
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.modelfile.versions import settle
from edgeseg.runtime.backends.choose import open_session
from tests.support.export_models import (
    IMPOSSIBLE,
    SHORT,
    artefact,
    data,
    frames,
    good_frames,
    names,
    reference,
    remember_traces,
    run,
    traced,
)

IMAGES = good_frames(2)
LIMIT = 100_000


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Traced before: in memory a graph is checked only below the limit.
    for options in (GraphOptions(), GraphOptions(fold_scale=False)):
        traced(SHORT, options)
    remember_traces(monkeypatch, SHORT)
    monkeypatch.setattr(graph, "LARGEST_FILE", LIMIT)


def export(out: Path, *, precision: str = "fp32") -> Exported:
    options = ExportOptions(precision=precision)
    return export_onnx(artefact(SHORT), out, options=options, good=open_dataset(data()))


def test_two_files_hold_the_graph(tmp_path: Path) -> None:
    proto, path = traced(SHORT), tmp_path / "new" / "short.onnx"
    untouched = proto.SerializeToString(deterministic=True)
    save_graph(proto, path)
    assert names(path.parent) == ["short.onnx", "short.onnx.data"]
    assert path.stat().st_size < LIMIT < path.with_name("short.onnx.data").stat().st_size
    assert proto.SerializeToString(deterministic=True) == untouched, "the caller's graph"
    one = frames(1)
    np.testing.assert_array_equal(run(path, one)["map"], run(proto, one)["map"])
    loaded = onnx.load(path)
    for tensor in loaded.graph.initializer:
        tensor.ClearField("data_location")
    assert loaded.SerializeToString(deterministic=True) == untouched


def test_the_same_bytes_again(tmp_path: Path) -> None:
    digests = []
    for _ in range(2):
        save_graph(traced(SHORT), tmp_path / "short.onnx")
        files = sorted(tmp_path.iterdir())
        digests.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
    assert digests[0] == digests[1]
    assert len(digests[0]) == 2


@pytest.mark.parametrize("step", [2, 3])  # the first writes the list of names
def test_an_interruption_never_leaves_a_graph_with_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    path = tmp_path / "short.onnx"
    save_graph(traced(SHORT), path)
    other = traced(SHORT)
    factor = initializers(other)["factor"]
    factor.raw_data = bytes(len(factor.raw_data))
    renames = []
    rename = Path.replace

    def stops(self: Path, target: Path) -> Path:
        renames.append(target)
        if len(renames) == step:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        save_graph(other, path)
    assert len(renames) == step
    monkeypatch.undo()
    settle(tmp_path)
    assert names(tmp_path) == ["short.onnx", "short.onnx.data"]
    onnx.load(path)
    data = path.with_name("short.onnx.data")
    assert bytes(len(factor.raw_data)) in data.read_bytes(), "the weights of the new one"


def test_a_smaller_graph_takes_the_weights_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "short.onnx"
    save_graph(traced(SHORT), path)
    monkeypatch.setattr(graph, "LARGEST_FILE", 1 << 30)
    save_graph(traced(SHORT), path)
    assert names(tmp_path) == ["short.onnx"]
    run(path, frames(1))


def test_it_is_checked_in_the_file(tmp_path: Path) -> None:
    proto = traced(SHORT)
    proto.graph.node[3].op_type = "Nonsense"
    proto = clean(proto)  # cannot look: the message would be too large
    with pytest.raises(ExportError, match=r"the graph is not valid ONNX: .*Nonsense"):
        save_graph(proto, tmp_path / "short.onnx")
    assert names(tmp_path) == []


def test_a_graph_is_large_by_its_constants_alone() -> None:
    assert is_large(traced(SHORT))
    assert not is_large(helper.make_model(helper.make_graph([], "empty", [], [])))


def test_fp32_is_verified_and_runs(tmp_path: Path) -> None:
    exported = export(tmp_path / "short.onnx")
    assert names(tmp_path) == ["short.json", "short.onnx", "short.onnx.data"]
    assert [row.backend for row in exported.agreements] == ["ONNX Runtime", "OpenVINO"]
    assert all(row.passed for row in exported.agreements)
    with open_session(tmp_path / "short.onnx") as session:
        (found,) = session.infer(IMAGES[:1])
    wanted = reference(SHORT, IMAGES[:1])["map"][0]
    np.testing.assert_allclose(found.map_hw, wanted, rtol=1e-3, atol=1e-4)


def test_weights_are_set_aside_with_a_graph_that_disagrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(api.TOLERANCES, "fp32", IMPOSSIBLE)
    with pytest.raises(VerificationError):
        export(tmp_path / "short.onnx")
    assert names(tmp_path) == ["short.onnx.failed", "short.onnx.failed.data"]
    onnx.checker.check_model(tmp_path / "short.onnx.failed")


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_lower_precisions_are_refused(tmp_path: Path, precision: str) -> None:
    with pytest.raises(ExportError) as caught:
        export(tmp_path / "short.onnx", precision=precision)
    assert str(caught.value) == (
        f"the fp32 graph holds over 2 GB, too much to be made {precision}; fit with a larger "
        "share or a smaller size, k or rank, or export with precision=fp32"
    )
    assert names(tmp_path) == []
