"""A run with peers, played by a stub: what they answer, how they fail, and what the rows say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from edgeseg.bench.compare.candidates import CompareOptions, PeerOptions
from edgeseg.bench.compare.compare import run_compare
from edgeseg.bench.compare.record import UNTRAINED
from edgeseg.bench.latency.turns import Schedule
from edgeseg.data.datasets import open_dataset, read_sample
from tests.support.bench_tables import by_column

# Stands in for an interpreter with anomalib: reads the request and answers as the worker would.
STUB = '''
import json, sys
from pathlib import Path
import numpy as np
import onnx
from onnx import TensorProto, helper

request = json.loads(Path(sys.argv[2]).read_text())
out, peer = Path(request["out"]), request["peer"]
height, width = request["size_hw"]


def write_graph():
    """The map is the mean of the channels, the score its maximum."""
    def tensor(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["anomaly_map"], axes=[1], keepdims=1),
        helper.make_node("ReduceMax", ["anomaly_map"], ["pred_score"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "stub", [tensor("input", [1, 3, height, width])],
        [tensor("anomaly_map", [1, 1, height, width]), tensor("pred_score", [])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), out / "model.onnx")
    return "model.onnx"


result = {"version": "2.7.0"}
if peer == "padim":
    rng = np.random.default_rng(0)
    count = len(request["test_images"])
    assert all(Path(name).is_file() for name in request["test_images"])
    np.save(out / "maps.npy", rng.random((count, height, width), np.float32))
    np.save(out / "scores.npy", rng.random(count))
    result |= {"fit_s": 2.0, "base_mb": 100.0, "peak_mb": 300.0, "predicted": True}
    result |= {"onnx": write_graph(), "step": "export to OpenVINO", "error": "OpError: no such op"}
elif peer == "patchcore":
    result |= {"step": "fit", "error": "MemoryError: 40 GB"}
else:
    result |= {"onnx": write_graph(), "step": "done"}
Path(request["result"]).write_text(json.dumps(result))
'''


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "resnet18.pth").touch()  # the stub does not read it
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(weights))
    (tmp_path / "stub.py").write_text(STUB)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "stub.py"}" "$@"\n')
    python.chmod(0o755)
    return python


def test_rows_say_what_was_measured_and_what_failed(
    plate: Path, stub: Path, tmp_path: Path
) -> None:
    options = CompareOptions(
        data=plate,
        models=(),
        peers=PeerOptions(python=stub),
        backends=("cpu", "openvino"),
        size_hw=(64, 64),
        threads=1,
        schedule=Schedule(rounds=2, turn=2, warmup=1),
    )
    lines: list[str] = []
    report = run_compare(options, tmp_path / "out", fresh=False, note=lines.append)
    padim, patchcore, efficientad = by_column(report.tables[0])  # none runs in OpenVINO
    assert (padim["model"], padim["backend"]) == ("anomalib PaDiM", "cpu")
    assert padim["PRO"] == pytest.approx(0.15, abs=0.08)  # PRO of noise: half of the limit
    assert isinstance(padim["exported PRO"], float)  # PRO of what its graph answers
    assert (padim["fit s"], padim["peak MB"]) == (2.0, 300.0)
    assert isinstance(padim["p50 ms"], float)
    assert padim["state"] == "failed on 1 of 1 at export to OpenVINO: OpError: no such op"
    figures = {name: cell for name, cell in patchcore.items() if name not in ("model", "state")}
    assert "PRO 0.05" in figures
    assert all(cell is None for cell in figures.values())
    assert patchcore["state"] == "failed on 1 of 1 at fit: MemoryError: 40 GB"
    assert efficientad["PRO"] is None
    assert isinstance(efficientad["p50 ms"], float)
    assert efficientad["state"] == UNTRAINED
    assert "anomalib 2.7.0" in report.markdown()
    assert str(tmp_path) not in json.dumps(report.raw)  # results may be moved, and published
    given = open_dataset(tmp_path / "out" / "staged" / plate.name)
    frame, _ = read_sample(given.test[0], (64, 64))
    own, _ = read_sample(open_dataset(plate).test[0], (64, 64))
    assert np.array_equal(frame, own)
    assert report.raw["accuracy"]["peer plate padim"]["accuracy"]["images"] == len(given.test)
    lines.clear()
    (tmp_path / "out").rename(tmp_path / "moved")
    run_compare(options, tmp_path / "moved", fresh=False, note=lines.append)
    assert "2 of 3 results are there already" in lines  # a failed peer is tried again
    tried = next(line for line in lines if line.startswith("["))
    assert tried.startswith("[1 of 1] peer plate patchcore: failed: fit: MemoryError")
