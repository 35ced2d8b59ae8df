"""Frames that are not this part: clips taken apart, lenses, tables, and the command."""

import json

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.decide.foreign import (
    LENSES,
    Row,
    Shown,
    clip_frames,
    empty_and_occupied,
    main,
    tables,
)
from edgeseg.errors import UsageError
from tests.support.small_models import write_plate


def write_clip(path, *, frames: int = 96, occupied: int = 24):
    """A grey scene, into which something bright comes for some frames."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 25, (64, 64))
    for number in range(frames):
        frame = np.full((64, 64, 3), 90, np.uint8)
        frame[:, :8] = 30
        if number >= frames - occupied:
            frame[20:44, 20:44] = 250
        writer.write(frame)
    writer.release()
    return path


@pytest.mark.parametrize("lens", LENSES)
def test_lenses_keep_size_and_type(lens):
    frame = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    before = frame.copy()
    out = LENSES[lens](frame)
    assert (out.shape, out.dtype) == (frame.shape, np.uint8)
    assert not np.array_equal(out, frame)
    np.testing.assert_array_equal(frame, before)


def test_a_clip_is_taken_apart(tmp_path):
    frames = clip_frames(write_clip(tmp_path / "clip.mp4"), (32, 32))
    empty, occupied = empty_and_occupied(frames)
    assert {frame.shape for frame in frames} == {(32, 32, 3)}
    assert max(int(frame[16, 16, 0]) for frame in empty) < 120
    assert min(int(frame[16, 16, 0]) for frame in occupied) > 200


def test_what_is_no_video(tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="0 frames can be read, expected a whole video"):
        clip_frames(tmp_path / "clip.mp4", (32, 32))


def shown(kind: str, frames: str, **verdicts: int) -> Shown:
    return Shown(
        model="m",
        frames=frames,
        kind=kind,
        verdicts=verdicts,
        by_map=verdicts,
        lowest=0.5,
        highest=2.0,
    )


def test_rows_are_shares_of_all_frames():
    row = Row.of("x", [shown("lens", "black", invalid=3, good=1), shown("lens", "grey", defect=4)])
    assert (row.frames, row.invalid, row.defect, row.good) == (8, 3 / 8, 4 / 8, 1 / 8)
    lenses = [shown("lens", lens, invalid=2) for lens in LENSES]
    found = {table.title: table for table in tables([shown("own good", "test", good=5), *lenses])}
    assert list(found) == ["Verdicts", "Covered lenses", "Model of m"]
    assert found["Verdicts"].rows[0][:5] == ("good test images, and empty frames", 5, 0, 0, 1)


def test_the_command(tmp_path):
    for name in ("one", "two"):
        write_plate(tmp_path / "data" / name, size_hw=(256, 256), seed=len(name), train=6)
    (tmp_path / "video").mkdir()
    write_clip(tmp_path / "video" / "clip.mp4")
    arguments = [tmp_path / "data", "--video", tmp_path / "video", "--limit", 3]
    arguments += ["--backbone", "mobilenet_v3_small", "--weights", "random"]
    arguments += ["--out", tmp_path / "out"]
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert set(report["raw"]) == {"category one", "category two", "clip clip"}
    rows = {row[0]: row[1:] for row in report["tables"][0]["rows"]}
    assert rows["good images of other categories"][0] == 6  # three of each
    assert rows["real defects"][3] + rows["real defects"][1] + rows["real defects"][2] == 1
