"""Shapes stay on the picture that they were drawn on, whatever becomes of the pictures."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.teach import engine
from edgeseg.teach.fit_job import fit
from edgeseg.teach.project import Project, RegionSettings
from edgeseg.teach.reference import reference, store_region, view
from edgeseg.teach.service import TeachService
from edgeseg.vision.images import write_image
from tests.support.messages import refuses
from tests.support.teach_engine import CHILD, LISTENER, part, write_project

FOLLOWED = {"roi": [4, 2, 40, 28], "ignore": [], "locate": "blob"}


@pytest.fixture
def service(tmp_path: Path):
    made = TeachService(write_project(tmp_path / "line3", good=6), child=CHILD)
    yield made
    made.close()


def taken(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    """What a fit would name places on."""
    asked = []

    def fit_model(*_, reference, **__):
        asked.append(reference)
        raise UsageError("asked")

    monkeypatch.setattr(engine, "fit_model", fit_model)
    with pytest.raises(UsageError, match="asked"):
        fit(project, project.folder / "x", LISTENER)
    return asked[0]


def test_it_stays_when_it_is_removed_and_when_others_come_before_it(service, monkeypatch) -> None:
    project = service.project
    service.set_region(FOLLOWED)
    assert taken(project, monkeypatch) == project.pictures("good") / "g00.png"
    service.remove("g00.png")
    write_image(project.pictures("good") / "a.png", part(100))  # before all others
    assert taken(project, monkeypatch) == project.pictures("removed") / "g00.png"
    shown = {"name": "g00.png", "size": [48, 32], "kind": "removed"}
    assert service.view()["reference"] == shown
    service.set_region({**FOLLOWED, "roi": [5, 2, 40, 28]})  # which was drawn there
    assert service.view()["reference"] == shown
    service.undo()
    assert taken(project, monkeypatch) == project.pictures("good") / "g00.png"


def test_another_is_chosen_with_the_way_parts_are_found(service) -> None:
    service.set_region(FOLLOWED)
    service.remove("g00.png")
    service.set_region({**FOLLOWED, "locate": "none"})
    assert service.project.settings().region.drawn_on == ""
    service.set_region(FOLLOWED)
    assert service.project.settings().region.drawn_on == "g01.png"
    service.set_region({**FOLLOWED, "drawn_on": "g00.png"})  # as an undone step has it
    assert service.project.settings().region.drawn_on == "g00.png"
    service.set_region({**FOLLOWED, "drawn_on": "z.png"})  # which is not there
    assert service.project.settings().region.drawn_on == "g00.png"
    with pytest.raises(UsageError, match="no name of a picture"):
        service.set_region({**FOLLOWED, "drawn_on": "../secret.png"})


def test_one_that_is_gone_is_missed(service) -> None:
    service.set_region(FOLLOWED)
    (service.project.pictures("good") / "g00.png").unlink()
    with refuses(UsageError, "fit_no_reference", name="g00.png"):
        reference(service.project)
    assert view(service.project)["reference"]["name"] == "g01.png"
    service.set_region(FOLLOWED)
    assert reference(service.project).name == "g01.png"


def test_a_project_that_was_edited_gets_it_with_its_next_fit(service) -> None:
    project = service.project
    region = RegionSettings(locate="anchor:1,2,30,20")
    project.store(replace(project.settings(), region=region))
    assert reference(project) is None  # the first one
    store_region(project, project.settings().region)
    assert project.settings().region == replace(region, drawn_on="g00.png")
    with refuses(UsageError, "picture_name"):
        replace(region, drawn_on="../secret.png")
    (project.pictures("good") / "g00.png").rename(project.pictures("good") / "0 0.png")
    store_region(project, project.settings().region)
    assert project.settings().region.drawn_on == ""  # a name that no address can have
