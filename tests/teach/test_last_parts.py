"""The parts that passed: the newest are kept, bounded, and what is shown stands still."""

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.progress import ignore
from edgeseg.teach import last_parts
from edgeseg.teach.last_parts import LastParts
from edgeseg.vision.images import decode_image
from tests.doubles.fakes import wait
from tests.support.messages import refuses
from tests.support.missed_project import passed, striped


@pytest.fixture
def parts():
    kept = LastParts(note=ignore)
    yield kept
    kept.close()


def bring(parts: LastParts, *numbers: int) -> None:
    """Let parts pass, each as soon as the one before is kept."""
    for number in numbers:
        parts.offer(passed(number))
        newest = passed(number).key
        wait(lambda newest=newest: newest in kept(parts), f"part {newest} in {kept(parts)}")


def kept(parts: LastParts) -> list[str]:
    return [part.id for part in list(parts._kept)]


def test_the_whole_picture_of_the_camera_is_kept_without_loss(parts):
    bring(parts, 3)
    (part,) = parts.look()
    assert np.array_equal(decode_image(part.png, name="part"), striped(3))
    assert (part.part, part.verdict, part.width, part.height) == ("SN 3", "good", 64, 64)


def test_what_is_shown_stands_still_until_somebody_looks_again(parts):
    bring(parts, 1, 2)
    shown = [passed(2).key, passed(1).key]
    assert [part.id for part in parts.look()] == shown
    bring(parts, 3)
    assert [part.id for part in parts.shown_parts()] == shown
    assert [part.id for part in parts.look()] == [passed(3).key, *shown]


def test_a_part_that_was_stopped_is_no_part_that_passed(parts):
    parts.offer(passed(1, score=99.0))
    parts.offer(passed(2, score=float("nan")))
    bring(parts, 3)
    assert kept(parts) == [passed(3).key]


def test_so_many_are_kept_and_what_is_shown_is_found_longer(parts, monkeypatch):
    bring(parts, 1)
    monkeypatch.setattr(last_parts, "MOST_BYTES", 2 * len(parts.look()[0].png) + 1000)
    bring(parts, 2, 3, 4, 5)
    assert 1 < len(kept(parts)) < 5
    assert kept(parts)[-1] == passed(5).key
    assert parts.find(passed(1).key).part == "SN 1"  # somebody looks at it
    parts.look()
    with refuses(UsageError, "part_gone", name=passed(1).key):
        parts.find(passed(1).key)
