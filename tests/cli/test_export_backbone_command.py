"""`edgeseg export-backbone`: settings that fit each other, and one sentence where they do not."""

import json
from pathlib import Path

import pytest

from edgeseg.fitting.graph.backbone_graph import read_facts
from edgeseg.model.artefact import load_artefact
from tests.support.commands import fail, succeed
from tests.support.export_models import SHORT, data, weights


def test_a_graph_with_settings_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "g.onnx"
    words = ("--backbone", "resnet18", "--weights", weights("resnet18"), "--layers", "1")
    more = ("--size", "64", "-k", "8", "--stride", "4", "--rank", "4")
    said = succeed("export-backbone", out, *words, *more)
    facts = read_facts(out)
    assert (facts.settings.layers, facts.settings.k) == ((1,), 8)
    assert said.stderr.splitlines()[-1].startswith(f"wrote {out} (")
    assert f"edgeseg fit GOOD --graph {out}" in said.stderr


def test_the_maps_layers_belong_to_the_graph(tmp_path: Path) -> None:
    out, good = tmp_path / "g.onnx", data() / "train" / "good"
    words = ("--backbone", "resnet18", "--weights", weights("resnet18"), "--layers", "1,2")
    more = ("--size", "64", "-k", "16", "--map-layers", "1", "--stride", "4")
    succeed("export-backbone", out, *words, *more)
    assert read_facts(out).settings.map_layers == (1,)
    model = tmp_path / "m.edgeseg"
    succeed("fit", good, "--graph", out, "--map-ridge", "0.2", "--out", model)
    fitted = load_artefact(model)
    assert (fitted.config.map_layers, fitted.config.map_ridge) == ((1,), 0.2)
    assert fitted.factors.shown is not None
    refused = ("fit", good, "--graph", out, "--map-layers", "none", "--out", tmp_path / "n")
    assert "--map-layers none, and the graph has (1,)" in fail(*refused, code=2)


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
