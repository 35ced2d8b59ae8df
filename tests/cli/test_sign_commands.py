"""The chain that signatures show: artefact, graph, plan and recipe, each made from another."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.files import file_sha256
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.recipes.recipe import Settings
from edgeseg.runtime.recipes.store import make_recipe
from tests.support.brightness_model import PLAN, brightness_metadata, write_brightness_model
from tests.support.commands import fail, succeed

NAMES = ("part.edgeseg", "part.onnx", "part.plan", "line/bottle")


def build(folder: Path, *, artefact: bytes = b"an artefact") -> None:
    """An artefact, the graph that names it, the plan of that graph, and a recipe of the plan."""
    fitted, graph, plan = (folder / name for name in NAMES[:3])
    fitted.write_bytes(artefact)
    told = replace(brightness_metadata(), artefact_sha256=file_sha256(fitted))
    told = write_brightness_model(graph, metadata=told)
    plan.write_bytes(b"a plan of " + file_sha256(graph).encode())
    # The sidecar beside both is the plan's.
    facts = replace(PLAN, plan_sha256=file_sha256(plan))
    plan.with_suffix(".json").write_text(replace(told, plan=facts).to_json())


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A folder with all of it, signed by one key."""
    build(tmp_path)
    make_recipe(
        tmp_path / "line" / "bottle",
        tmp_path / "part.plan",
        Settings(number=1, model="model.plan"),
    )
    make_keys(tmp_path / "owner.key")
    sign(tmp_path)
    return tmp_path


def sign(folder: Path, *names: str) -> None:
    succeed("sign", *(folder / name for name in names or NAMES), "--key", folder / "owner.key")


def test_every_link_from_artefact_to_recipe_is_shown(signed: Path) -> None:
    paths = [signed / name for name in NAMES]
    artefact, graph, plan, recipe = paths
    verify = ("verify-signature", *paths, "--trust", signed / "owner.pub")
    told = json.loads(succeed(*verify, "--json").stdout)
    made_from = {path: told[str(path)]["made_from"] for path in paths}
    assert made_from[artefact] == []
    assert made_from[graph] == [str(artefact)]
    assert made_from[plan] == [str(artefact), str(graph)]
    assert made_from[recipe] == [str(artefact), str(graph), str(plan)]
    said = succeed(*verify).stdout.splitlines()
    assert said[3].endswith(f"made from {artefact}, made from {graph}, made from {plan}")


@pytest.mark.parametrize("end", ["part.onnx", "part.plan", "line/bottle"])
def test_a_recipe_is_linked_to_its_own_model_alone(signed: Path, end: str) -> None:
    verify = ("verify-signature", signed / end, signed / "line/bottle")
    told = json.loads(succeed(*verify, "--trust", signed / "owner.pub", "--json").stdout)
    expected = [] if end == "line/bottle" else [str(signed / end)]
    assert told[str(signed / "line/bottle")]["made_from"] == expected


@pytest.mark.parametrize(
    ("swapped", "first"),
    [("part.edgeseg", "part.onnx"), ("part.onnx", "part.plan"), ("part.plan", "line/bottle")],
)
def test_a_swapped_link_is_an_error_though_it_is_signed(
    signed: Path, swapped: str, first: str
) -> None:
    (signed / "other").mkdir()
    build(signed / "other", artefact=b"another artefact")
    other = signed / "other" / swapped
    sign(signed, f"other/{swapped}")
    said = fail("verify-signature", other, signed / first, "--trust", signed / "owner.pub", code=1)
    assert said.startswith(f"{signed / first}: made from another file than {other}; its signature")


def test_files_of_the_same_name_in_other_folders_are_no_links(signed: Path) -> None:
    (signed / "old").mkdir()
    build(signed / "old", artefact=b"of last year")
    sign(signed, "old/part.onnx")
    verify = ("verify-signature", signed / "part.onnx", signed / "old/part.onnx")
    told = json.loads(succeed(*verify, "--trust", signed / "owner.pub", "--json").stdout)
    assert [facts["made_from"] for facts in told.values()] == [[], []]
