"""The model that a device writes against the one that `edgeseg export` writes of the same fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import edgeseg.runtime
from edgeseg.base.errors import ExportError, UsageError, VerificationError
from edgeseg.base.files import file_sha256
from edgeseg.config import FitConfig
from edgeseg.data.known_defects import read_known_defects
from edgeseg.decision.prediction import Prediction
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.fitting.fitting import fit_in
from edgeseg.fitting.graph import model_writing
from edgeseg.fitting.graph.backbone_graph import BackboneGraph
from edgeseg.fitting.graph.model_writing import write_model
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.vision.geometry import Geometry
from tests.support import KEPT
from tests.support.backbone_graphs import OPTIONS, earlier_graph, good, graph, taught
from tests.support.export_models import SHORT, SHOWN, data, frames, weights

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
        options = SessionOptions(backend=backend)
        with open_session(device, options) as ours, open_session(station, options) as theirs:
            pairs = zip(ours.infer(frames(8)), theirs.infer(frames(8)), strict=True)
            for apart, wanted_apart in ((one.apart_pk, other.apart_pk) for one, other in pairs):
                near = 1e-5 * np.abs(wanted_apart).max()
                np.testing.assert_allclose(apart, wanted_apart, rtol=0, atol=near)
    ours_said, theirs_said = file_metadata(device), file_metadata(station)
    same = {"graph_sha256": None, "onnx_sha256": None, "versions": {}}
    assert replace(ours_said, **same) == replace(theirs_said, **same)
    outputs = [output.name for output in onnx.load(device).graph.output]
    assert tuple(outputs) == model.outputs == ours_said.outputs
    assert "apart" in outputs


@pytest.fixture(scope="module")
def knowing() -> Artefact:
    """A model of known defects, in folders by kind, to which more than no texture is odd."""
    known = read_known_defects(data() / "test")
    model = fit_in(graph().space(SHORT), good(), replace(OPTIONS, known=known))
    # Of layers that no one trained none stands out by itself.
    return replace(model, reasons=replace(model.reasons, usual=(0.0, 1.0)))


def test_kind_and_layer_are_those_of_an_export(
    knowing: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, station = both(knowing, tmp_path, monkeypatch)
    layers, kinds = set(), set()
    with edgeseg.runtime.open(device) as ours, edgeseg.runtime.open(station) as theirs:
        for picture in sorted((data() / "test").glob("*/*.png")):
            found, wanted = ours.predict(picture), theirs.predict(picture)
            for region, other in zip(found.regions, wanted.regions, strict=True):
                assert region.kind.facts() == other.kind.facts()
                assert (region.why.layer, region.why.change) == (other.why.layer, other.why.change)
                assert region.why.share == pytest.approx(other.why.share, rel=1e-4)
                kinds.add(region.kind.name)
                layers.add(region.why.layer)
    assert kinds & set(knowing.kinds.names)
    assert "texture" in layers


def test_a_graph_without_apart_writes_what_it_wrote_before(
    knowing: Artefact, tmp_path: Path
) -> None:
    older = earlier_graph(graph(), tmp_path / "older.onnx")
    for name, through in (("old", older), ("new", graph())):
        write_model(knowing, through, tmp_path / f"{name}.onnx", artefact_sha256="")
    old, new = (edgeseg.runtime.open(tmp_path / f"{name}.onnx") for name in ("old", "new"))
    assert new.metadata.outputs == (*old.metadata.outputs, "apart")
    with old, new:
        for picture in sorted((data() / "test").glob("*/*.png")):
            found, wanted = old.predict(picture), new.predict(picture)
            assert found.score == wanted.score
            assert np.array_equal(found.map_hw, wanted.map_hw)
            for region, other in zip(found.regions, wanted.regions, strict=True):
                assert region.kind is None
                assert region.why == replace(other.why, layer=None, share=None)


def test_a_model_that_says_nothing_of_regions_needs_no_apart(tmp_path: Path) -> None:
    """As of a file of 0.2.0."""
    silent = replace(taught(), reasons=None)
    made = write_model(silent, graph(), tmp_path / "m.onnx", artefact_sha256="")
    outputs = [output.name for output in onnx.load(tmp_path / "m.onnx").graph.output]
    assert tuple(outputs) == made.outputs == silent.head().outputs


def test_a_graph_of_0_2_0_still_becomes_a_model(tmp_path: Path) -> None:
    kept = BackboneGraph(KEPT / "backbone.onnx")
    model = fit_in(kept.space(kept.config), good(), OPTIONS)
    made = write_model(model, kept, tmp_path / "m.onnx", artefact_sha256="")
    assert made.outputs == model.head().outputs
    with edgeseg.runtime.open(tmp_path / "m.onnx") as detector:
        assert detector.predict(frames(1)[0]).score > 0


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


def test_wrong_cells_behind_a_right_score_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds and layers would be told by them."""
    right = Session.infer

    def wrong(session: Session, frames_nhwc: NDArray[np.uint8]) -> list[Prediction]:
        return [replace(one, apart_pk=one.apart_pk + 1) for one in right(session, frames_nhwc)]

    monkeypatch.setattr(Session, "infer", wrong)
    with pytest.raises(VerificationError, match=r"away from the model's, expected up to 0\.001"):
        write_model(taught(), graph(), tmp_path / "m.onnx", artefact_sha256="")
    assert list(tmp_path.iterdir()) == []


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
