"""`edgeseg info`: what a file says of itself."""

import json

from edgeseg.model.artefact import load_artefact
from tests.support import KEPT
from tests.support.commands import fail, succeed


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
    assert facts.pop("hash") == "every number is as it was written"
    assert facts.pop("signature") == {"signed": "no"}
    assert facts["calibration"].pop("method") == small_artefact.calibration.method
    header = json.loads(json.dumps(small_artefact.header()))
    header["reasons"] = {name: header["reasons"][name] for name in ("layers", "usual")}
    assert facts == header


def test_info_says_how_a_threshold_came_about():
    artefact, graph = (
        json.loads(succeed("info", KEPT / name, "--json").stdout)
        for name in ("part.edgeseg", "part-fp32.onnx")
    )
    words = "cross-conformal, 2 folds, 4 good images"
    assert artefact["calibration"]["method"] == words
    assert graph["metadata"]["threshold"]["method"] == words
    assert artefact["hash"] == graph["hash"] == "every number is as it was written"


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
