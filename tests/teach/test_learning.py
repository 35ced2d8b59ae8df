"""The next version of a model: the same marks give the same one."""

import os

from edgeseg.teach import engine
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import Feedback, new_mark
from edgeseg.teach.fit_job import fit
from edgeseg.teach.learning import next_version
from edgeseg.teach.versions import Versions
from edgeseg.vision.images import images_in, write_image
from tests.support import teach_engine
from tests.support.teach_engine import LISTENER, part, write_project

LONG_AGO_S = 1_000_000_000


def test_a_picture_is_learned_with_the_time_of_its_file(tmp_path, monkeypatch):
    """A model's history has the time of its newest picture, and not of the learning."""
    seen = []

    def update_model(*args, more, **named):
        seen.extend(path.stat().st_mtime for path in images_in(more))
        return teach_engine.update_model(*args, more=more, **named)

    monkeypatch.setattr(engine, "fit_model", teach_engine.fit_model)
    monkeypatch.setattr(engine, "update_model", update_model)
    monkeypatch.setattr(engine, "write_graph", teach_engine.write_graph)
    project = write_project(tmp_path / "line3")
    project.fit.mkdir()
    fit(project, project.fit, LISTENER)
    Versions(project).install()
    picture, marks = project.alarms / "0000000000150-000000.png", Feedback(project.feedback)
    write_image(picture, part(150, seed=150))
    alarm = Alarm(
        id=picture.stem, when="", score=150.0, p_value=None, verdict="defect", threshold=138.0,
        box=None, width=48, height=32,
    )  # fmt: skip
    marks.mark(alarm, picture, new_mark("good", who="supervisor", name="Ada"))
    os.utime(marks.picture(alarm.id), (LONG_AGO_S, LONG_AGO_S))
    (tmp_path / "next").mkdir()
    assert next_version(project, tmp_path / "next", LISTENER) == {"learned": 1, "ignored": 0}
    assert seen == [LONG_AGO_S]
