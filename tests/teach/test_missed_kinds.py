"""Regions that are like what was missed and learned are named after it, without torch."""

from dataclasses import replace
from pathlib import Path

from edgeseg.decision.prediction import Region
from edgeseg.runtime import open as open_model
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.fit_job import fit
from edgeseg.teach.project import Project
from tests.support import KEPT
from tests.support.backbone_graphs import graph_path
from tests.support.commands import succeed
from tests.support.missed_project import SIZE_HW, fitted_project
from tests.support.striped_parts import defective, write_defects
from tests.support.teach_engine import LISTENER

KINDS = ("blot", "grey")


def learn_missed(project: Project, missed: Path) -> dict[str, list[Region]]:
    """By the command; return the strongest region of each new part that is found, by its kind."""
    for kind in KINDS:
        write_defects(missed, kind, range(6), size_hw=SIZE_HW)
    succeed("learn", project.folder, "--missed", missed)
    found = {}
    with open_model(project.recipe / "model.onnx") as detector:
        for kind in KINDS:
            parts = [defective(kind, 50 + n, size_hw=SIZE_HW)[0] for n in range(12)]
            results = [detector.predict(part) for part in parts]
            found[kind] = [result.regions[0] for result in results if result.regions]
    return found


def test_new_parts_are_of_the_kinds_that_were_learned(tmp_path: Path) -> None:
    project = fitted_project(tmp_path / "line3", graph=graph_path())
    assert "apart" in file_metadata(project.recipe / "model.onnx").outputs
    for kind, regions in learn_missed(project, tmp_path / "missed").items():
        names = [region.kind.name for region in regions]
        assert names.count(kind) > len(names) / 2 > 2, kind


def test_numbers_stay_when_a_kind_is_added_and_a_severity_counts(tmp_path: Path) -> None:
    project = fitted_project(tmp_path / "line3", graph=graph_path())
    severity = {"grey": "minor", "not seen yet": "major"}
    project.change(lambda settings: replace(settings, severity=severity))
    write_defects(tmp_path / "missed", "grey", range(6), size_hw=SIZE_HW)
    succeed("learn", project.folder, "--missed", tmp_path / "missed")
    kinds = file_metadata(project.recipe / "model.onnx").kinds
    assert (kinds.names, kinds.severity) == (("grey",), ("minor",))
    write_defects(project.folder / "missed", "blot", range(6), size_hw=SIZE_HW)
    (tmp_path / "fit").mkdir()
    fit(project, tmp_path / "fit", LISTENER)
    kinds = file_metadata(tmp_path / "fit/model.onnx").kinds
    assert (kinds.names, kinds.severity) == (("grey", "blot"), ("minor", None))


def test_a_graph_of_0_2_0_learns_and_names_no_kind(tmp_path: Path) -> None:
    project = fitted_project(tmp_path / "line3", graph=KEPT / "backbone.onnx")
    found = learn_missed(project, tmp_path / "missed")
    model = project.recipe / "model.onnx"
    assert "apart" not in file_metadata(model).outputs
    assert [each.kind for each in file_metadata(model).known] == list(KINDS)
    for regions in found.values():
        assert regions
        assert all(region.kind is None and region.why.layer is None for region in regions)
