"""Pictures of one part are shown as such and count once, as a fit counts them."""

import math

import numpy as np
import pytest

from edgeseg.base.messages import Message
from edgeseg.fitting.image_pass import _Looks
from edgeseg.teach.part_count import PartCopy, PartCount, count_parts
from edgeseg.teach.picture_list import PictureList
from edgeseg.teach.project import Project, RegionSettings
from edgeseg.teach.service import TeachService
from edgeseg.vision.images import write_image
from edgeseg.vision.part_groups import GreyCopies

PARTS, TIMES = 6, 3


def picture(number: int, time: int = 0) -> np.ndarray:
    """A part with a pattern of its own, a little brighter each time."""
    rng = np.random.default_rng(number)
    coarse = rng.integers(40, 180, (12, 16, 3)).astype(np.uint8)
    return np.clip(np.kron(coarse, np.ones((8, 8, 1))) + 2 * time, 0, 255).astype(np.uint8)


def pictures() -> dict[str, np.ndarray]:
    return {
        f"p{number}_{time}.png": picture(number, time)
        for number in range(PARTS)
        for time in range(TIMES)
    }


def test_near_copies_are_one_part():
    counted = count_parts({name: PartCopy.of(each) for name, each in pictures().items()})
    assert counted.count == PARTS
    assert counted.twin("p4_2.png") == "p4_0.png"
    assert counted.twin("p4_0.png") is None


def test_it_counts_what_a_fit_counts():
    every = list(pictures().values())
    looks = _Looks(grey_copies=GreyCopies(), needed=set(range(len(every))))
    list(looks.note_all([(list(range(len(every))), every)]))
    of_fit = looks.grey_copies.groups(range(len(every)))
    counted = count_parts({str(at): PartCopy.of(each) for at, each in enumerate(every)})
    assert counted.count == len(set(of_fit.values())) == PARTS


@pytest.mark.parametrize("some", [0, 1])
def test_few_pictures_are_as_many_parts(some):
    assert count_parts({f"{at}": PartCopy.of(picture(at)) for at in range(some)}).count == some


def test_a_count_is_made_once_for_the_same_pictures():
    count, copies = PartCount(), {"a": PartCopy.of(picture(0)), "b": PartCopy.of(picture(0))}
    assert count.get("one", copies) is None
    count.settle()
    assert count.get("one", copies).count == 1
    assert count.version == 1
    count._next_s = 0.0
    assert count.get("two", {"a": copies["a"]}) is None, "that of another list is none of this"
    count.settle()
    assert (count.version, count.last.twin("b")) == (2, None)


@pytest.fixture
def project(tmp_path):
    made = Project.open_or_create(tmp_path / "line3")
    for name, image in pictures().items():
        write_image(made.pictures("good") / name, image)
    return made


def test_a_list_shows_which_pictures_count_once(project):
    listed = PictureList(project)
    assert listed.parts() is None
    listed.settle()
    assert listed.parts().count == PARTS
    flags = {item["name"]: item["flags"] for item in listed.page("good")["items"]}
    assert flags["p1_2.png"] == [Message("flag_duplicate", name="p1_0.png")]
    assert flags["p1_0.png"] == []
    assert {item["name"]: item["flags"] for item in listed.every("good")} == flags


def test_a_number_of_other_pictures_is_never_said_of_these(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    listed = PictureList(project)
    listed.settle()
    assert listed.parts().count == 0
    for name, image in pictures().items():  # as somebody copies a folder in
        write_image(project.pictures("good") / name, image)
    listed._parts._next_s = 0.0
    assert listed.parts() is None, "they are not looked at"
    listed._looks.settle()
    assert listed.parts() is None, "they are not counted"
    listed._parts.settle()
    assert listed.parts().count == PARTS
    (project.pictures("good") / "p1_0.png").unlink()
    listed._parts._next_s = math.inf  # the next count has to wait
    assert listed.parts() is None
    flags = {item["name"]: item["flags"] for item in listed.page("good")["items"]}
    assert not any("p1_0.png" in str(said) for every in flags.values() for said in every)
    assert str(flags["p0_2.png"][0]).startswith("the part of p0_"), flags["p0_2.png"]


def test_a_picture_that_cannot_be_read_is_not_called_a_copy(tmp_path):
    service = TeachService(Project.open_or_create(tmp_path / "line3"))
    for number in range(3):
        write_image(service.project.pictures("good") / f"p{number}.png", picture(number))
    (service.project.pictures("good") / "q.png").write_bytes(b"no picture")
    service.state()
    service._pictures.list.settle()
    facts = service.state()
    service.close()
    assert (facts["good"], facts["parts"]["pictures"], facts["parts"]["different"]) == (4, 3, 3)


def test_parts_are_told_apart_where_the_next_fit_looks(project):
    """The pattern of every part in one corner, and the same part beside it."""
    for number, path in enumerate(sorted(project.pictures("good").iterdir())):
        image = picture(99)
        image[:48, :64] = picture(number)[:48, :64]
        write_image(path, image)
    listed = PictureList(project)
    listed.parts()
    listed.settle()
    assert listed.parts().count == PARTS * TIMES
    region = RegionSettings(roi="64,48,64,48")
    project.change(lambda settings: type(settings)(**{**vars(settings), "region": region}))
    listed._parts._next_s = 0.0
    listed.parts()
    listed.settle()
    assert listed.parts().count == 1
