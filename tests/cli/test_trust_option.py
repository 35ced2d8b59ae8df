"""--trust, the same of every command that reads a model: what nobody has signed is refused.

A command that is new has to be named here: among those that take --trust, or those without a model.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.options import Shared
from edgeseg.base.typed_options import options_of
from edgeseg.cli.group import cli
from edgeseg.modelfile.signature import sign
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.recipes.install import install_model
from edgeseg.runtime.recipes.versions import keep_version
from edgeseg.vision.images import write_image
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, run, succeed
from tests.support.recipe_folders import CPU, OPENING, install, new_recipe, part

# Of the commands that take --trust: how it is called, and what is refused.
CALLS: dict[str, tuple[tuple[str, ...], str]] = {
    "update": (("part.edgeseg", "good"), "part.edgeseg"),
    "merge": (("part.edgeseg", "other.edgeseg", "--out", "both.edgeseg"), "part.edgeseg"),
    "eval": (("part.edgeseg", "good"), "part.edgeseg"),
    "predict": (("part.onnx", "good"), "part.onnx"),
    "threshold": (("part.onnx",), "part.onnx"),
    "calibrate": (("part.onnx", "good", "--backend", "cpu"), "part.onnx"),
    "ignore": (("part.onnx", "--region", "1,1,8,8", "--camera", "64x96"), "part.onnx"),
    "info": (("part.edgeseg",), "part.edgeseg"),
    "export": (("part.edgeseg",), "part.edgeseg"),
    "stream": (("--model", "part.onnx", "--source", "good", "--backend", "cpu"), "part.onnx"),
    "check": (("line/bottle", *map(str, OPENING)), "line/bottle"),
    "recipe new": (("line/new", "--model", "part.onnx"), "part.onnx"),
    "recipe show": (("line/bottle",), "line/bottle"),
    "recipe add-golden": (
        ("line/bottle", "good", "--good", *map(str, OPENING)),
        "line/bottle",
    ),
    "recipe add-master": (
        ("line/bottle", "--source", "good", *map(str, OPENING)),
        "line/bottle",
    ),
    "recipe approve": (("line/bottle", *map(str, OPENING)), "line/bottle"),
    "recipe install": (("line/bottle", "part.onnx", *map(str, OPENING)), "line/bottle"),
    "recipe rollback": (("line/bottle",), "line/bottle/versions/0001"),
    "learn": (("project",), "project/recipes/project"),
    "bench latency": (("part.onnx", "--out", "out"), "part.onnx"),
    "verify-signature": (("part.onnx",), "part.onnx"),
}
# Elsewhere: `recipe list` below, and `teach` with a project in tests/teach/test_trust.py.
OTHERWISE = {"recipe list", "teach"}
# These make models, sign them, or read none.
WITHOUT = {
    *("fit", "moments", "synthesize", "export-backbone", "keygen", "sign", "cameras"),
    *("verify-log", "tune", "demo", "doctor", "completion"),
    *("bench small", "bench report", "bench compare", "bench paper", "bench peers"),
    "bench fit-cost",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with all that the calls name, and keys."""

    folder: Path
    key: Path
    public: Path

    def call(self, name: str, *more: object) -> tuple[object, ...]:
        """A command as it is typed in the folder."""
        return (*name.split(), *CALLS[name][0], *more)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the calls name."""
    folder = tmp_path_factory.mktemp("made")
    write_brightness_model(folder / "part.onnx")
    for name in ("part.edgeseg", "other.edgeseg"):
        (folder / name).write_bytes(b"not read before it is known who signed it")
    write_image(folder / "good" / "1.png", part(150))
    bottle = new_recipe(folder / "line" / "bottle")
    keep_version(bottle)
    install(bottle, 190.0, folder)
    keep_version(bottle)
    project = folder / "project"
    shutil.copytree(bottle.folder, project / "recipes" / "project")
    (project / "project.toml").write_text('source = "good"\n')
    make_keys(folder / "owner.key")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder = tmp_path / "place"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return Place(folder=folder, key=folder / "owner.key", public=folder / "owner.pub")


def commands(group: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All of them, those of groups by both names."""
    context = click.Context(group)
    for each in group.list_commands(context) if isinstance(group, click.Group) else ():
        command = group.get_command(context, each)
        assert command is not None
        whole = f"{name} {each}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, whole)
        else:
            yield whole, command


def test_every_command_takes_the_one_option_or_reads_no_model() -> None:
    shared = next(each for each in options_of(Shared) if each.name == "trust").to_info_dict()
    found = {}
    for name, command in commands():
        params = command.get_params(click.Context(command))
        found[name] = [each.to_info_dict() for each in params if each.name == "trust"]
    assert {name for name, options in found.items() if options == [shared]} == {
        *CALLS,
        *OTHERWISE,
    }
    assert {name for name, options in found.items() if not options} == WITHOUT


@pytest.mark.parametrize("name", CALLS)
def test_what_nobody_signed_is_refused_and_nothing_is_written(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(place.folder)
    refused = CALLS[name][1]
    for way in ("option", "environment"):
        if way == "environment":
            monkeypatch.setenv("EDGESEG_TRUST", str(place.public))
        more = ("--trust", place.public) if way == "option" else ()
        said = fail(*place.call(name, *more), code=1)
        assert said.startswith((f"{refused}: not signed", f"{place.folder / refused}: not signed"))
        assert everything(place.folder) == before


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "recipe rollback"])
def test_what_is_signed_gets_past_the_keys(place: Place, name: str) -> None:
    for path in ("part.edgeseg", "other.edgeseg", "part.onnx", "line/bottle"):
        sign(Path(path), place.key, chain={})
    sign(Path("project/recipes/project"), place.key, chain={})
    done = run(*place.call(name, "--trust", place.public))
    assert "not signed" not in done.stderr
    assert "since it was signed" not in done.stderr


@pytest.mark.parametrize("suffix", [".onnx", ".edgeseg"])
def test_predict_and_threshold_take_either_kind(place: Place, suffix: str) -> None:
    model = f"part{suffix}"
    for call in (("predict", model, "good"), ("threshold", model), ("info", model)):
        said = fail(*call, "--trust", place.public, code=1)
        assert said.startswith(f"{model}: not signed")
    gone = fail("threshold", "gone.onnx", "--trust", place.public, code=2)
    assert gone.startswith("gone.onnx: no such file or folder")


def test_a_list_names_what_nobody_signed(place: Place) -> None:
    sign(Path("line/bottle"), place.key, chain={})
    new_recipe(place.folder / "line" / "cap", number=2, approved=False)
    _, bottle, cap = succeed("recipe", "list", "line", "--trust", place.public).stdout.splitlines()
    assert "brightness fp32" in bottle
    assert "unusable: line/cap: not signed" in cap


def test_golden_pictures_are_added_to_a_signed_recipe(place: Place) -> None:
    sign(Path("line/bottle"), place.key, chain={})
    said = succeed(*place.call("recipe add-golden", "--trust", place.public)).stderr
    assert "the signature of line/bottle no longer fits; sign it again" in said
    said = fail(*place.call("recipe add-golden", "--trust", place.public), code=1)
    assert "was added since it was signed" in said or "was changed since it was signed" in said


def test_only_a_signed_version_comes_back(place: Place) -> None:
    bottle = new_recipe(place.folder / "line" / "cap", number=2)
    sign(bottle.folder, place.key, chain={})
    keep_version(bottle)
    write_brightness_model(place.folder / "b.onnx", metadata=brightness_metadata(threshold=190.0))
    install_model(bottle, place.folder / "b.onnx", CPU, note=lambda text: None)
    back = ("recipe", "rollback", bottle.folder, "--trust", place.public)
    kept = bottle.folder / "versions" / "0001" / "model.json"
    whole = kept.read_bytes()
    kept.write_bytes(whole + b" ")
    assert "its model.json is not what was signed then" in fail(*back, code=1)
    kept.write_bytes(whole)
    succeed(*back)
    succeed("check", bottle.folder, *OPENING, "--trust", place.public)
