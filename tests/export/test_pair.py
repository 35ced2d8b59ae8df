"""A graph and its sidecar are replaced as one."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.export.onnx_export import save_described
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from tests.support.brightness_model import brightness_graph, brightness_metadata


def write(path: Path, *, threshold: float) -> None:
    metadata = replace(brightness_metadata(threshold=threshold), onnx_sha256=None)
    save_described(brightness_graph(metadata), path, metadata)


def threshold(path: Path) -> float:
    return file_metadata(path).threshold.score


def decide(path: Path, value: float) -> None:
    told = file_metadata(path)
    write_sidecar(path, replace(told, threshold=replace(told.threshold, score=value)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("renames", "expected"), [(0, 55.0), (1, 90.0), (2, 90.0), (3, 90.0)])
def test_a_stop_before_any_rename_leaves_a_pair_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int, expected: float
) -> None:
    path = tmp_path / "part.onnx"
    write(path, threshold=50.0)
    decide(path, 55.0)  # since then, in the sidecar alone
    real, done = Path.replace, []

    def stops(self: Path, target: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target.name)
        return real(self, target)

    with monkeypatch.context() as stopping:
        stopping.setattr(Path, "replace", stops)
        if renames < 3:
            with pytest.raises(KeyboardInterrupt):
                write(path, threshold=90.0)
        else:
            write(path, threshold=90.0)
            assert done == ["change.json", "part.json", "part.onnx"]
    assert threshold(path) == expected
    decide(path, 91.0)
    assert threshold(path) == 91.0
    assert names(tmp_path) == ["part.json", "part.onnx"]
    write(path, threshold=92.0)
    assert threshold(path) == 92.0


def test_a_swapped_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    write(path, threshold=50.0)
    graph = onnx.load(path)
    graph.doc_string = "another"
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged"):
        file_metadata(path)


def test_a_link_stays_one_and_its_sidecar_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "part.onnx"
    link.symlink_to(tmp_path / "disk/model.onnx")
    write(link, threshold=50.0)
    decide(link, 51.0)
    assert link.is_symlink()
    assert threshold(link) == 51.0
    assert names(tmp_path / "disk") == ["model.json", "model.onnx"]
