"""`edgeseg export-backbone`: settings that fit each other, and one sentence where they do not."""

import json
from pathlib import Path

import pytest

from edgeseg.fitting.graph.backbone_graph import read_facts
from tests.support.commands import fail, succeed
from tests.support.export_models import SHORT, weights


def test_a_graph_with_settings_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "g.onnx"
    words = ("--backbone", "resnet18", "--weights", weights("resnet18"), "--layers", "1")
    more = ("--size", "64", "-k", "8", "--stride", "4", "--rank", "4")
    said = succeed("export-backbone", out, *words, *more)
    facts = read_facts(out)
    assert (facts.settings.layers, facts.settings.k) == ((1,), 8)
    assert said.stderr.splitlines()[-1].startswith(f"wrote {out} (")
    assert f"edgeseg fit GOOD --graph {out}" in said.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("g.txt",), "expected a name ending in .onnx"),
        (("g.onnx", "--settings", "none.json"), "expected the JSON of settings"),
        (("g.onnx", "--size", "33"), "size 33x33: both sides must be multiples"),
    ],
)
def test_what_cannot_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in fail("export-backbone", *words, code=2)
    assert list(tmp_path.iterdir()) == []


def test_all_settings_as_json(tmp_path: Path) -> None:
    broken = tmp_path / "s.json"
    broken.write_text(json.dumps(SHORT.to_dict() | {"k": 0}))
    assert "--k 0: expected" in fail(
        "export-backbone", tmp_path / "g.onnx", "--settings", broken, code=2
    )
