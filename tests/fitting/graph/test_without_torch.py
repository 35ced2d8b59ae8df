"""The whole way of a device, where torch, torchvision and onnx cannot be imported."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgeseg.model.artefact import load_artefact
from edgeseg.modelfile.header import read_header
from tests.support import HANGS_S
from tests.support.backbone_graphs import graph_path
from tests.support.export_models import data

BLOCKED = ("torch", "torchvision", "onnx", "onnxscript", "matplotlib", "scipy")
DRIVER = f"""
import json, sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
from edgeseg.cli.group import cli
for words in json.loads(sys.argv[1]):
    if code := cli.main(words, standalone_mode=False):
        sys.exit(code)
"""


def run(*commands: list[object]) -> subprocess.CompletedProcess[str]:
    words = json.dumps([[str(word) for word in command] for command in commands])
    return subprocess.run(
        [sys.executable, "-c", DRIVER, words], capture_output=True, text=True, timeout=HANGS_S
    )


def test_from_pictures_to_verdicts(tmp_path: Path) -> None:
    good, new, graph = data() / "train/good", data() / "test/good", graph_path()
    part, model, both = (tmp_path / name for name in ("part.edgeseg", "part.onnx", "two.edgeseg"))
    events = tmp_path / "events.jsonl"
    done = run(
        ["fit", good, "--graph", graph, "--out", part, "--planted", 4, "--folds", 4],
    )
    assert done.returncode == 0, done.stderr
    assert read_header(part)["config"]["folds"] == 4
    part.with_name("copy.edgeseg").write_bytes(part.read_bytes())
    done = run(
        ["merge", part, part.with_name("copy.edgeseg"), "--out", both],
        ["update", part, new, "--graph", graph],
        ["update", part, "--forget", new, "--graph", graph],
        ["ignore", part, "--region", "0,0,8,8"],
        ["export", part, "--graph", graph, "--out", model],
        ["predict", model, good, "--out", tmp_path / "seen"],
        ["stream", "--model", model, "--source", good, "--backend", "cpu", "--events", events],
    )
    assert done.returncode == 0, done.stderr
    assert load_artefact(both).moments.images == 16
    changed = load_artefact(part)
    actions = [line["action"] for line in changed.history]
    assert actions == ["fit", "update", "forget", "ignore"]
    assert changed.moments.images == 8
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    verdicts = [line["verdict"] for line in lines if "verdict" in line]
    assert len(verdicts) == 8
    assert verdicts.count("good") >= 6


def test_a_region_is_like_a_known_defect(tmp_path: Path) -> None:
    part, model, table = (tmp_path / name for name in ("part.edgeseg", "part.onnx", "out.csv"))
    defects, graph = data() / "test", graph_path()
    fit = ["fit", data() / "train/good", "--known", defects, "--graph", graph, "--out", part]
    done = run(
        [*fit, "--planted", 4, "--folds", 4],
        ["export", part, "--graph", graph, "--out", model],
        ["predict", model, defects, "--csv", table],
    )
    assert done.returncode == 0, done.stderr
    found = [row for row in csv.DictReader(table.open()) if row["regions"] != "0"]
    assert found
    kinds = {folder.name for folder in defects.iterdir()}
    assert any(row["kind"].split(" ")[0] in kinds for row in found), found


def test_without_a_graph_one_sentence_says_where_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = run(["fit", data() / "train/good", "--out", tmp_path / "part.edgeseg"])
    assert done.returncode == 1
    assert "or, without torch: pip install edgeseg-efficientnet-lite1" in done.stderr
    assert "Traceback" not in done.stderr
