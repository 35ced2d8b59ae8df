"""The model that a device writes against the one that `edgeseg export` writes of the same fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeseg.runtime
from edgeseg.base.errors import ExportError, UsageError, VerificationError
from edgeseg.base.files import file_sha256
from edgeseg.config import FitConfig
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.graph import model_writing
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.model_writing import write_model
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.vision.geometry import Geometry
from tests.support.backbone_graphs import OPTIONS, good, graph, taught
from tests.support.export_models import SHORT, SHOWN, frames, weights

IGNORING = replace(
    SHORT,
    geometry=Geometry(camera_hw=(64, 64), ignore=(((4.0, 4.0), (30.0, 4.0), (30.0, 20.0)),)),
)


def ignoring() -> Artefact:
    return fit_in(graph().space(IGNORING), good(), OPTIONS)


def shown() -> Artefact:
    """With a map of its own, and with ignored cells in it."""
    config = replace(IGNORING, map_layers=(1,))
    return fit_in(graph(SHOWN).space(config), good(), OPTIONS)


def of_model(model: Artefact) -> BackboneGraph:
    return graph(SHOWN if model.factors.shown else SHORT)


def both(model: Artefact, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The device's file, and the workstation's of the same artefact."""
    (folder / "resnet18.pth").write_bytes(weights(SHORT.backbone).read_bytes())
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(folder))
    path = folder / "part.edgeseg"
    save_artefact(model, path)
    write_model(model, of_model(model), folder / "device.onnx", artefact_sha256=file_sha256(path))
    export_onnx(model, folder / "station.onnx", options=ExportOptions(), artefact_path=path)
    return folder / "device.onnx", folder / "station.onnx"


@pytest.mark.parametrize("make", [taught, ignoring, shown])
def test_it_is_what_an_export_makes(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    device, station = both(model, tmp_path, monkeypatch)
    onnx.checker.check_model(device, full_check=True)
    for backend in ("cpu", "openvino"):
        with (
            edgeseg.runtime.open(device, backend=backend) as ours,
            edgeseg.runtime.open(station, backend=backend) as theirs,
        ):
            for frame in frames(8):
                found, wanted = ours.predict(frame), theirs.predict(frame)
                assert found.score == pytest.approx(wanted.score, rel=1e-6)
                np.testing.assert_allclose(found.map_hw, wanted.map_hw, rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(found.shown_hw, wanted.shown_hw, rtol=1e-5, atol=1e-5)
    ours_said, theirs_said = file_metadata(device), file_metadata(station)
    same = {"graph_sha256": None, "onnx_sha256": None, "versions": {}}
    # The graph of a backbone does not give what kinds and layers are told by.
    assert theirs_said.outputs == (*ours_said.outputs, "apart")
    same["outputs"] = ours_said.outputs
    assert replace(ours_said, **same) == replace(theirs_said, **same)
    outputs = [output.name for output in onnx.load(device).graph.output]
    assert tuple(outputs) == model.head().outputs == ours_said.outputs


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(taught(), graph(), tmp_path / f"{name}.onnx", artefact_sha256="")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.json", "a.onnx", "b.json", "b.onnx")
    ]


@pytest.mark.parametrize(
    ("config", "name"),
    [(SHORT, "factor"), (SHOWN, "factor"), (SHOWN, "map_factor"), (SHOWN, "map_weight")],
)
def test_a_file_that_disagrees_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: FitConfig, name: str
) -> None:
    original = model_writing.with_constants

    def wrong(data: bytes, constants: dict, **more: str) -> bytes:
        spoilt = constants[name].copy()
        spoilt[::2] *= 1.1  # a map of its own divides out what all of its factors share
        return original(data, constants | {name: spoilt}, **more)

    monkeypatch.setattr(model_writing, "with_constants", wrong)
    with pytest.raises(VerificationError, match=r"away from the model's, expected up to 0\.001"):
        write_model(taught(config), graph(config), tmp_path / "m.onnx", artefact_sha256="")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_score_behind_a_right_map_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map's own weights take back what was done to the factors."""
    original = model_writing.with_constants

    def wrong(data: bytes, constants: dict, **more: str) -> bytes:
        louder = {"factor": 1.1 * constants["factor"], "map_weight": constants["map_weight"] / 1.21}
        return original(data, constants | louder, **more)

    monkeypatch.setattr(model_writing, "with_constants", wrong)
    with pytest.raises(VerificationError, match=r"away from the model's, expected up to 0\.001"):
        write_model(taught(SHOWN), graph(SHOWN), tmp_path / "m.onnx", artefact_sha256="")


def test_a_model_of_another_graph_is_refused(tmp_path: Path) -> None:
    model, out = taught(), tmp_path / "m.onnx"
    with pytest.raises(UsageError, match="its W is another one"):
        write_model(replace(model, embedding=model.embedding + 1), graph(), out, artefact_sha256="")
    other = replace(model.origin, sha256="0" * 64)
    with pytest.raises(UsageError, match="the weights of its backbone are others"):
        write_model(replace(model, origin=other), graph(), out, artefact_sha256="")
    random = replace(model.origin, random=True)
    with pytest.raises(ExportError, match="random weights"):
        write_model(replace(model, origin=random), graph(), out, artefact_sha256="")


def test_more_is_ignored_than_the_graph_allows(tmp_path: Path) -> None:
    rows = ((0.0, 0.0), (64.0, 0.0), (64.0, 54.0), (0.0, 54.0))
    columns = tuple((y, x) for x, y in rows)  # together all but four cells
    geometry = Geometry(camera_hw=(64, 64), ignore=(rows, columns))
    model = replace(taught(), config=replace(taught().config, geometry=geometry))
    with pytest.raises(UsageError, match="cells are left, and the graph takes the mean of the 10"):
        write_model(model, graph(), tmp_path / "m.onnx", artefact_sha256="")
