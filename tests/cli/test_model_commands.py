"""`edgeseg predict` and `edgeseg info`: scores, pictures, errors."""

import json
from pathlib import Path

from edgeseg.artefact.artefact import load_artefact
from tests.support.commands import fail, succeed


def test_predict(plate, artefact_copy, tmp_path):
    images = [plate / "test/good/000.png", plate / "test/good/001.png"]
    result = succeed("predict", artefact_copy, *images, "--out", tmp_path / "out")
    threshold = load_artefact(artefact_copy).calibration.score_threshold
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    for path, line in zip(images, lines, strict=True):
        assert line.startswith((f"{path}: good, ", f"{path}: anomalous, "))
        assert line.endswith(f" (threshold {threshold:.3f})")
        assert (tmp_path / "out" / path.name).is_file()
    assert result.stderr.startswith(f"wrote 2 pictures to {tmp_path / 'out'} in ")


def test_predict_json(plate, artefact_copy, tmp_path):
    """Two images of one name: two rows and two pictures."""
    images = sorted((plate / "test").glob("*/000.png"))[:2]
    result = succeed("predict", artefact_copy, *images, "--out", tmp_path / "out", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["image"] for row in rows] == [str(path) for path in images]
    assert len({row["picture"] for row in rows}) == 2
    for row in rows:
        assert row["anomalous"] == (row["score"] > row["threshold"])
        assert all(len(region["box_xywh"]) == 4 for region in row["regions"])
        assert Path(row["picture"]).is_file()
    assert result.stderr == ""


def test_predict_a_picture_that_is_not_there(artefact_copy, tmp_path):
    sentence = fail(
        "predict", artefact_copy, tmp_path / "none.png", "--out", tmp_path / "out", code=1
    )
    assert sentence.startswith(f"{tmp_path / 'none.png'}: ")
    assert "Missing argument" in fail("predict", artefact_copy, "--out", tmp_path / "out", code=2)


def test_info(artefact_copy):
    lines = succeed("info", artefact_copy).stdout.splitlines()
    assert lines[0] == f"{artefact_copy} ({artefact_copy.stat().st_size / 1e6:.1f} MB)"
    assert any(line.split() == ["backbone", "mobilenet_v3_small"] for line in lines)
    threshold = str(load_artefact(artefact_copy).calibration.score_threshold)
    assert any(line.split() == ["score_threshold", threshold] for line in lines)


def test_info_json(artefact_copy, small_artefact):
    facts = json.loads(succeed("info", artefact_copy, "--json").stdout)
    size = facts.pop("size_bytes")
    assert size == artefact_copy.stat().st_size
    assert facts == json.loads(json.dumps(small_artefact.header()))


def test_info_of_nothing(tmp_path):
    assert fail("info", tmp_path / "m.edgeseg", code=1).startswith(
        f"{tmp_path / 'm.edgeseg'}: no such file"
    )


def test_info_knows_engines_like_plans(tmp_path):
    for name in ("part.plan", "part.engine"):
        (tmp_path / name).write_bytes(b"opaque")
        assert fail("info", tmp_path / name, code=1).startswith(
            f"{tmp_path / name}: its sidecar part.json is missing"
        )
