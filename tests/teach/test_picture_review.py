"""Pictures that somebody has to look at, and what is kept of the answer."""

import os

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.decision.deciding_images import LEAST
from edgeseg.teach.picture_list import PictureList
from edgeseg.teach.picture_review import PictureReview
from edgeseg.teach.project import Project
from edgeseg.teach.report import FitReport, GoodScore, store_report
from edgeseg.vision.images import write_image
from tests.support.messages import refuses
from tests.support.teach_engine import part

THRESHOLD = 12.0


@pytest.fixture
def project(tmp_path):
    """Forty good parts, of which two are not, by their scores."""
    made = Project.open_or_create(tmp_path / "line3")
    scores = {f"g{at:02d}.png": 3.0 + 0.05 * at for at in range(38)} | {"x.png": 12.0, "y.png": 9.0}
    for name in scores:
        write_image(made.pictures("good") / name, part(100))
    made.fit.mkdir()
    good = tuple(
        GoodScore(name=name, score=score, peak=score, foreign=score > 5)
        for name, score in scores.items()
    )
    store_report(made.fit, FitReport(when="", images=40, good=good, promise="tail"))
    return made


@pytest.fixture
def review(project):
    return PictureReview(project, PictureList(project))


def judged(project) -> dict:
    """As judge_facts has it."""
    names = ["x.png", "y.png", "g37.png", "g36.png"]
    worst = [{"name": name, "asks": name in ("x.png", "y.png")} for name in names]
    return {"worst": worst, "bad": [{"name": "b.png"}], "images": 40}


def test_nothing_waits_before_a_fit(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    assert PictureReview(project, PictureList(project)).waiting(None) == 0


def test_each_waits_until_it_is_kept_or_removed(project, review):
    assert review.waiting(THRESHOLD) == LEAST == 3  # both, and the next one
    review.keep("y.png", who="supervisor")
    assert review.waiting(THRESHOLD) == 2
    told = review.apply(judged(project))
    assert [(item["name"], item["kept"]) for item in told["worst"][:2]] == [
        ("x.png", False),
        ("y.png", True),
    ]
    assert (told["asks"], told["waiting"], told["gone"]) == (["x.png", "y.png"], 1, 0)
    (project.pictures("good") / "x.png").rename(project.pictures("removed") / "x.png")
    assert review.waiting(THRESHOLD) == 1
    told = review.apply(judged(project))
    assert [item["name"] for item in told["worst"]] == ["y.png", "g37.png", "g36.png"]
    assert (told["asks"], told["waiting"], told["gone"], told["new"]) == (["y.png"], 0, 1, 0)
    assert told["bad"] == []  # it was removed too
    line = project.history()[-1]
    assert (line["event"], line["picture"], line["who"]) == ("keep", "y.png", "supervisor")


def test_what_was_kept_is_known_to_the_next_service(project, review):
    review.keep("x.png", who="supervisor")
    again = PictureReview(project, PictureList(project))
    assert again.waiting(THRESHOLD) == 2


def test_another_picture_of_that_name_was_not_looked_at(project, review):
    review.keep("x.png", who="supervisor")
    assert review.waiting(THRESHOLD) == 2
    path = project.pictures("good") / "x.png"
    write_image(path, part(200))
    later_s = path.stat().st_mtime + 3600
    os.utime(path, (later_s, later_s))
    assert PictureReview(project, PictureList(project)).waiting(THRESHOLD) == 3


def test_another_rate_asks_for_what_sets_its_threshold(review):
    assert review.waiting(4.8) == 4  # g36 and g37 too


def test_only_a_good_picture_is_kept(review):
    with refuses(UsageError, "picture_missing"):
        review.keep("nothing.png", who="supervisor")


def test_pictures_that_came_since_are_counted(project, review):
    write_image(project.pictures("good") / "z.png", part(100))
    told = review.apply(judged(project))
    assert (told["gone"], told["new"]) == (0, 1)
