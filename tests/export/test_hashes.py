"""An exported file is what was written, or it is refused before any library parses it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.export import graph
from edgeseg.export.graph import initializers, set_metadata
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support import KEPT
from tests.support.export_models import SHORT, artefact, remember_traces, traced


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)


def export(out: Path) -> None:
    export_onnx(artefact(SHORT), out, options=ExportOptions(verify=False))


@pytest.mark.parametrize("alone", [True, False])
def test_every_flipped_bit_of_a_graph_is_refused(tmp_path: Path, alone: bool) -> None:
    out = tmp_path / "short.onnx"
    export(out)
    if alone:
        out.with_suffix(".json").unlink()
    whole, random = bytearray(out.read_bytes()), np.random.default_rng(0)
    for tensor in initializers(traced(SHORT)).values():
        if len(tensor.raw_data) < 64:
            continue
        first = bytes(whole).find(tensor.raw_data)
        assert first >= 0, tensor.name
        for bit in random.integers(0, 8 * len(tensor.raw_data), 10):
            at, mask = first + int(bit) // 8, 1 << int(bit) % 8
            whole[at] ^= mask
            out.write_bytes(whole)
            with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged"):
                file_metadata(out)
            whole[at] ^= mask


def test_weights_beside_a_graph_are_under_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "short.onnx"
    monkeypatch.setattr(graph, "LARGEST_FILE", 100_000)
    export(out)
    data_file = out.with_name("short.onnx.data")
    whole = bytearray(data_file.read_bytes())
    whole[len(whole) // 2] ^= 1
    data_file.write_bytes(whole)
    with pytest.raises(RuntimeFailure, match=r"short\.onnx\.data: SHA-256 .* as in short\.onnx;"):
        file_metadata(out)
    data_file.unlink()
    with pytest.raises(RuntimeFailure, match=r"short\.onnx\.data is not beside it; copy both"):
        file_metadata(out)


def test_a_graph_without_any_hash_is_refused(tmp_path: Path) -> None:
    out, proto = tmp_path / "short.onnx", traced(SHORT)
    export(out)
    set_metadata(proto, replace(file_metadata(out), graph_sha256=None))
    onnx.save(proto, out)
    out.with_suffix(".json").unlink()
    with pytest.raises(RuntimeFailure, match="neither its metadata nor a sidecar has its hash"):
        file_metadata(out)


@pytest.mark.parametrize("schema", [1, 2])
def test_metadata_without_a_hash_of_themselves_are_refused(tmp_path: Path, schema: int) -> None:
    out, proto = tmp_path / "short.onnx", traced(SHORT)
    export(out)
    values = json.loads(file_metadata(out).to_json()) | {"schema": schema}
    del values["seal"]
    set_metadata(proto, file_metadata(out))
    proto.metadata_props[0].value = json.dumps(values)
    onnx.save(proto, out)
    out.with_suffix(".json").unlink()
    expected = r"schema 1, expected 2|the hash of itself is missing"
    with pytest.raises(RuntimeFailure, match=expected):
        file_metadata(out)


@pytest.mark.parametrize("name", ["part-fp32", "part-fp16", "part-int8", "part-int8-trt"])
def test_graphs_are_refused_without_their_sidecar(name: str, tmp_path: Path) -> None:
    out = tmp_path / "part.onnx"
    out.write_bytes((KEPT / f"{name}.onnx").read_bytes())
    with pytest.raises(RuntimeFailure, match=r"part\.json, its sidecar, is not beside it"):
        open_session(out, SessionOptions(backend="cpu", allow_random_weights=True))
