"""Pictures of a project: sent, flagged, taken out, put back, and never outside of it."""

import struct

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.pictures import Limits, Pictures, StaysOutError
from edgeseg.teach.project import Project
from edgeseg.vision.images import encode_jpeg, encode_png, read_image
from edgeseg.vision.picture_size import MAX_PIXELS, PNG
from tests.support.messages import refuses
from tests.support.picture_bytes import png_chunk
from tests.support.small_models import frames


@pytest.fixture
def project(tmp_path):
    return Project.open_or_create(tmp_path / "line3")


def noise(seed: int, *, low: int = 60, high: int = 200) -> np.ndarray:
    """Smooth enough to look like something, and unlike any other."""
    coarse = np.random.default_rng(seed).integers(low, high, (6, 8, 3), np.uint8)
    return cv2.resize(coarse, (64, 48), interpolation=cv2.INTER_CUBIC)


def test_what_is_sent_is_kept_without_loss_and_understood_by_a_fit(project):
    pictures = Pictures(project)
    image = noise(1)
    assert pictures.take("IMG 20 (1).PNG", encode_png(image), kind="good") == "IMG-20-1.png"
    assert np.array_equal(read_image(project.pictures("good") / "IMG-20-1.png"), image)
    # Sent twice it is there once; another picture of that name gets its own.
    assert pictures.take("IMG 20 (1).PNG", encode_png(image), kind="good") == "IMG-20-1.png"
    other = pictures.take("IMG 20 (1).jpg", encode_jpeg(noise(2), quality=90), kind="good")
    assert other == "IMG-20-1-2.png"
    again = pictures.take("IMG 20 (1).jpg", encode_jpeg(noise(2), quality=90), kind="good")
    assert again == other
    assert pictures.count("good") == 2


@pytest.mark.parametrize("name", ["../a.png", "a/../b.png", "\\\\host\\a.png", ".a.png", "", "a\0"])
def test_a_name_that_is_a_path_is_refused(project, name):
    with refuses(UsageError, "picture_path"):
        Pictures(project).take(name, encode_png(noise(1)), kind="good")
    assert not (project.folder.parent / "a.png").exists()


def test_a_bomb_is_refused_by_its_header_before_it_is_decoded(project, monkeypatch):
    def decoded(*args):
        raise AssertionError("it was decoded")

    monkeypatch.setattr(cv2, "imdecode", decoded)
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    bomb = PNG + png_chunk(b"IHDR", header) + png_chunk(b"IEND", b"")
    with pytest.raises(DatasetError, match="30000x30000 pixels by its header"):
        Pictures(project).take("bomb.png", bomb, kind="good")


def test_no_more_pixels_than_a_fit_reads_again():
    assert Limits(pixels=MAX_PIXELS).pixels == MAX_PIXELS
    with pytest.raises(UsageError, match="max_pixels=100000001: expected from 1 to 100000000"):
        Limits(pixels=MAX_PIXELS + 1)


def test_limits_of_bytes_pixels_and_number(project):
    pictures = Pictures(project, limits=Limits(pictures=2, bytes=100_000, pixels=48 * 64))
    with refuses(UsageError, "picture_large", n_most=100_000):
        pictures.take("a.png", b"x" * 100_001, kind="good")
    with refuses(DatasetError, "picture_foreign"):
        pictures.take("a.png", b"GIF89a", kind="good")
    with pytest.raises(DatasetError, match="max_pixels"):
        pictures.take("a.png", encode_png(np.zeros((49, 64, 3), np.uint8)), kind="good")
    for index in range(2):
        pictures.take(f"{index}.png", encode_png(noise(index)), kind="good")
    with refuses(UsageError, "pictures_full", n=2):
        pictures.take("3.png", encode_png(noise(3)), kind="good")
    pictures.take("3.png", encode_png(noise(3)), kind="bad")


def test_removed_pictures_come_back_where_they_were(project):
    pictures = Pictures(project)
    good = pictures.add(noise(1), kind="good", stem="a")
    bad = pictures.add(noise(2), kind="bad", stem="a")
    assert (good, bad) == ("a.png", "a-2.png")  # one name each, so that they can come back
    assert pictures.remove(good) == "good"
    assert pictures.remove(bad) == "bad"
    assert [pictures.count(kind) for kind in ("good", "bad", "removed")] == [0, 0, 2]
    assert Pictures(project).restore(bad) == "bad"  # another process knows it too
    with refuses(UsageError, "picture_missing", folder="good/ or bad/"):
        pictures.remove(good)
    with refuses(UsageError, "picture_name"):
        pictures.remove("../project.toml")


def test_what_was_removed_is_known_by_its_pixels(project):
    pictures = Pictures(project)
    jpeg = encode_jpeg(noise(1), quality=90)
    pictures.remove(pictures.take("a.jpg", jpeg, kind="good"))
    with refuses(StaysOutError, "picture_removed", twin="a.png"):
        Pictures(project).take("other.jpg", jpeg, kind="good", again=False)
    assert pictures.count("good") == 0
    pictures.take("b.png", encode_png(noise(2)), kind="good", again=False)
    pictures.take("c.jpg", jpeg, kind="bad", again=False)  # nobody took it out of these
    assert pictures.take("a.jpg", jpeg, kind="good") == "a-2.png"  # somebody insists
    assert pictures.take("a.jpg", jpeg, kind="good", again=False) == "a-2.png"  # it is there


def test_undo_takes_back_one_step_after_the_other(project):
    pictures = Pictures(project)
    name = pictures.add(noise(1), kind="good", stem="a")
    pictures.remove(name)
    pictures.restore(name)
    assert pictures.undo() == "a.png is in removed/ again"
    assert pictures.undo() == "a.png is in good/ again"
    with refuses(UsageError, "undo_nothing"):
        pictures.undo()


def flags(pictures: Pictures) -> dict[str, list[Message]]:
    return {item["name"]: item["flags"] for item in pictures.list.every("good")}


def test_duplicates_odd_and_blurred_ones_are_flagged(project):
    pictures = Pictures(project)
    parts = frames(10)
    for index, part in enumerate(parts):
        pictures.add(part, kind="good", stem=f"part{index}")
    assert not any(flags(pictures).values())
    again = pictures.add(parts[3], kind="good", stem="x-again")
    blurred = pictures.add(cv2.GaussianBlur(parts[4], (0, 0), 3), kind="good", stem="x-blurred")
    dark = pictures.add(parts[5] // 3, kind="good", stem="x-dark")
    other = pictures.add(cv2.resize(noise(7), (96, 96)), kind="good", stem="x-other")
    said = flags(pictures)
    assert said[again] == [Message("flag_duplicate", name="part3.png")]
    assert Message("flag_blurred") in said[blurred]
    assert Message("flag_darker") in said[dark]
    assert Message("flag_unlike") in said[other]
    assert not any(said[f"part{index}.png"] for index in range(10))
    assert pictures.list.item("good", other)["flags"] == said[other]


def test_few_pictures_cannot_say_what_is_usual(project):
    pictures = Pictures(project)
    for index in range(3):
        pictures.add(noise(index), kind="good", stem=f"{index}")
    assert not any(flags(pictures).values())
    assert flags(Pictures(project)) == flags(pictures)


def test_jpegs_for_people(project):
    pictures = Pictures(project)
    name = pictures.add(noise(1), kind="good", stem="a")
    small = cv2.imdecode(np.frombuffer(pictures.jpeg("good", name, width=16), np.uint8), 1)
    assert small.shape[:2] == (12, 16)
    whole = cv2.imdecode(np.frombuffer(pictures.jpeg("good", name, width=0), np.uint8), 1)
    assert whole.shape[:2] == (48, 64)
    with pytest.raises(UsageError, match="width=-1"):
        pictures.jpeg("good", name, width=-1)
