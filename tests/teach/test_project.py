"""The project folder: settings that people may edit, and paths that stay inside."""

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.teach.project import Project, ProjectSettings, RegionSettings
from tests.support.messages import refuses


def test_a_project_begins_in_an_empty_folder_and_is_found_again(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    assert project.settings() == ProjectSettings()
    assert sorted(path.name for path in project.folder.iterdir()) == [
        "bad", "good", "project.toml", "removed",
    ]  # fmt: skip
    assert Project.open(tmp_path / "line3").settings() == ProjectSettings()
    assert Project.open_or_create(tmp_path / "line3").history() == []


def test_settings_come_back_as_they_were_stored(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    settings = ProjectSettings(
        source="rtsp://cam/1",
        backbone="efficientnet_lite1",
        rate=0.005,
        severity={"scratch": "minor", "Riß am Rand": "major"},
        region=RegionSettings(
            roi="10,20,300,200",
            ignore=(((0.0, 0.0), (5.5, 0.0), (5.0, 5.0)),),
            locate="anchor:1,2,30,40",
        ),
    )
    project.store(settings)
    assert project.settings() == settings
    geometry = project.settings().config().geometry
    assert str(geometry.roi) == "10,20,300,200"
    assert geometry.ignore == settings.region.ignore


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rate = 2.0\n", "rate=2.0"),
        ("speed = 3\n", "speed"),
        ("severity = {scratch = 'small'}\n", "severity.scratch: 'small', expected one of"),
        ("[region]\nroi = 'left'\n", "roi='left'"),
        ("[region]\nlocate = 'luck'\n", "luck"),
        ("rate = \n", "not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_said_with_its_name(tmp_path, text, says):
    project = Project.open_or_create(tmp_path / "line3")
    (project.folder / "project.toml").write_text(text)
    with pytest.raises(UsageError, match=r"project\.toml") as error:
        Project.open(project.folder)
    assert says in str(error.value)


def test_a_folder_of_something_else_is_not_taken(tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="no project"):
        Project.open_or_create(tmp_path / "papers")
    with pytest.raises(UsageError, match="edgeseg teach"):
        Project.open(tmp_path / "papers")
    with pytest.raises(UsageError, match="letters"):
        Project.open_or_create(tmp_path / "a b")


@pytest.mark.parametrize(
    "name",
    ["../project.toml", "/etc/passwd", "..", ".hidden", "a/b.png", "a\\b.png", "", "a\0.png", 7],
)
def test_names_of_pictures_lead_nowhere_else(tmp_path, name):
    project = Project.open_or_create(tmp_path / "line3")
    with refuses(UsageError, "picture_name"):
        project.picture("good", name)


def test_a_link_out_of_the_project_is_no_picture(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (project.pictures("good") / "a.png").symlink_to(tmp_path / "secret.png")
    with refuses(UsageError, "picture_missing"):
        project.picture("good", "a.png")
    with pytest.raises(UsageError, match="expected one of good, bad, removed"):
        project.picture("../..", "a.png")


def test_history_keeps_its_lines_and_passes_over_half_of_one(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    project.log("fit", images=60)
    with (project.folder / "history.jsonl").open("a") as file:
        file.write('{"event": "lea')
    assert [line["event"] for line in project.history()] == ["fit"]
    project.log("threshold", per_thousand=5)
    assert [line["event"] for line in project.history()] == ["fit", "threshold"]
