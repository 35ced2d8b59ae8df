"""What a signature is of: files themselves, under their name, all of them and no more."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.signature import (
    check_signature,
    read_signature,
    sign,
    signature_path,
    trusted_files,
)
from edgeseg.modelfile.signing_keys import make_keys
from tests.support.commands import fail, succeed


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return make_keys(tmp_path / "keys" / "owner.key")


@pytest.fixture
def bottle(tmp_path: Path) -> Path:
    folder = tmp_path / "line" / "bottle"
    (folder / "golden" / "good").mkdir(parents=True)
    (folder / "recipe.toml").write_text("number = 1\n")
    (folder / "golden" / "good" / "1.png").write_bytes(b"a picture")
    return folder


def refused(path: Path, public: Path, match: str) -> None:
    with pytest.raises(RuntimeFailure, match=match):
        check_signature(path, [public])


@pytest.mark.parametrize("name", ["golden", "golden/good", "golden/good/1.png", "recipe.toml"])
def test_a_link_in_a_signed_folder_is_refused(
    bottle: Path, keys: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    """Also one that leads to the very files that were signed: it may lead elsewhere tomorrow."""
    sign(bottle, keys[0], chain={})
    elsewhere = tmp_path / "elsewhere"
    (bottle / name).rename(elsewhere)
    (bottle / name).symlink_to(elsewhere)
    refused(bottle, keys[1], f"{name} is a link, and a signature is of files")
    with pytest.raises(RuntimeFailure, match="is a link"):
        sign(bottle, keys[0], chain={})


@pytest.mark.parametrize("name", ["checks", "versions", "pictures", "edgeseg.sig", "more.toml"])
def test_a_link_that_is_added_is_refused(
    bottle: Path, keys: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    sign(bottle, keys[0], chain={})
    target = bottle / name
    if target.exists():
        target.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").mkdir()
    target.symlink_to(tmp_path / "elsewhere")
    refused(bottle, keys[1], f"{name} is a link")


def test_a_folder_or_a_file_that_is_itself_a_link_is_refused(
    bottle: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    sign(bottle, keys[0], chain={})
    (tmp_path / "bottle").symlink_to(bottle)
    refused(tmp_path / "bottle", keys[1], "bottle is a link")
    model = tmp_path / "part.edgeseg"
    model.write_bytes(b"a model")
    sign(model, keys[0], chain={})
    model.rename(tmp_path / "real")
    model.symlink_to(tmp_path / "real")
    refused(model, keys[1], r"part\.edgeseg is a link")


def test_a_sidecar_that_is_a_link_is_refused(keys: tuple[Path, Path], tmp_path: Path) -> None:
    model, sidecar = tmp_path / "part.onnx", tmp_path / "part.json"
    model.write_bytes(b"a model")
    sidecar.write_text("{}")
    sign(model, keys[0], chain={})
    sidecar.rename(tmp_path / "real")
    sidecar.symlink_to(tmp_path / "real")
    refused(model, keys[1], r"part\.json is a link")


def test_what_is_no_file_is_refused_and_not_waited_for(
    bottle: Path, keys: tuple[Path, Path]
) -> None:
    sign(bottle, keys[0], chain={})
    os.mkfifo(bottle / "pipe")
    refused(bottle, keys[1], "pipe is a pipe or a device")
    (bottle / "pipe").unlink()
    (bottle / "recipe.toml").unlink()
    os.mkfifo(bottle / "recipe.toml")
    refused(bottle, keys[1], "is a pipe or a device")


def test_unknown_files_are_refused_unread(bottle: Path, keys: tuple[Path, Path]) -> None:
    sign(bottle, keys[0], chain={})
    (bottle / "golden" / ".hidden").write_text("")
    refused(bottle, keys[1], r"golden/\.hidden was added since it was signed")


def test_a_file_without_an_end_is_not_read(bottle: Path, keys: tuple[Path, Path]) -> None:
    """A terabyte of zeros in place of a picture: its size says enough."""
    sign(bottle, keys[0], chain={})
    with (bottle / "golden" / "good" / "1.png").open("wb") as file:
        file.truncate(2**40)
    refused(bottle, keys[1], r"golden/good/1\.png was changed since it was signed")


def test_the_name_is_signed(bottle: Path, keys: tuple[Path, Path]) -> None:
    sign(bottle, keys[0], chain={})
    other = bottle.with_name("cap")
    bottle.rename(other)
    refused(other, keys[1], "signed as bottle, and here it is called cap; give it its name back")
    other.rename(bottle)
    assert check_signature(bottle, [keys[1]]).name == "bottle"


def test_a_folder_is_called_alike_from_inside(
    bottle: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(bottle, keys[0], chain={})
    monkeypatch.chdir(bottle)
    assert check_signature(Path(), [keys[1]]).name == "bottle"


def test_the_version_grows_unless_it_is_given(bottle: Path, keys: tuple[Path, Path]) -> None:
    versions = []
    for given in (None, None, 41, None, 7):
        sign(bottle, keys[0], chain={}, version=given)
        versions.append(check_signature(bottle, [keys[1]]).version)
    assert versions == [1, 2, 41, 42, 7]
    said = succeed("sign", bottle, "--key", keys[0], "--version", 50).stderr
    assert f"wrote {bottle / 'edgeseg.sig'}, version 50; a device with --trust owner.pub" in said
    shown = succeed("verify-signature", bottle, "--trust", keys[1]).stdout
    assert ", version 50 (" in shown
    assert "--version" in fail("sign", bottle, "--key", keys[0], "--version", 0, code=2)


def test_name_and_version_cannot_be_changed_afterwards(
    bottle: Path, keys: tuple[Path, Path]
) -> None:
    sign(bottle, keys[0], chain={})
    path = signature_path(bottle)
    signed = json.loads(path.read_text())
    for change in ({"version": 9}, {"name": "cap"}, {"sizes": {"recipe.toml": 1}}):
        path.write_text(json.dumps(signed | {"statement": signed["statement"] | change}))
        with pytest.raises(RuntimeFailure, match=r"forged or damaged|not a signature"):
            check_signature(bottle, [keys[1]])


def test_a_signature_without_name_and_version_asks_for_a_new_one(
    bottle: Path, keys: tuple[Path, Path]
) -> None:
    sign(bottle, keys[0], chain={})
    path = signature_path(bottle)
    signed = json.loads(path.read_text())
    statement = signed["statement"] | {"schema": 1}
    for key in ("name", "version", "sizes"):
        del statement[key]
    path.write_text(json.dumps(signed | {"statement": statement}))
    refused(bottle, keys[1], "not a signature .schema 1, expected 2.; sign it again")
    sign(bottle, keys[0], chain={})
    assert read_signature(bottle).statement.version == 1


def test_every_reading_is_held_against_the_signature(bottle: Path, keys: tuple[Path, Path]) -> None:
    sign(bottle, keys[0], chain={})
    files = trusted_files(bottle, [keys[1]])
    settings, picture = bottle / "recipe.toml", bottle / "golden" / "good" / "1.png"
    assert files.read(settings) == b"number = 1\n"
    assert files.files_in(picture.parent) == [picture]
    settings.write_text("number = 2\n")
    (picture.parent / "2.png").write_bytes(b"")
    for read in (files.read, files.sha256, files.open):
        with pytest.raises(RuntimeFailure, match=r"recipe\.toml was changed"):
            read(settings)
    assert files.files_in(picture.parent) == [picture], "only what was signed"
    with pytest.raises(RuntimeFailure, match=r"2\.png was added since"):
        files.read(picture.parent / "2.png")
    picture.unlink()
    with pytest.raises(RuntimeFailure, match=r"1\.png was removed since"):
        files.read(picture)
