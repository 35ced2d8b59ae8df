"""`edgeseg fit --locate` says what the same fit from Python says, and learns once."""

from dataclasses import replace
from pathlib import Path

import pytest

import edgeseg
from edgeseg.fitting import spaces
from tests.support.commands import FIT, fail, succeed
from tests.support.moving_parts import ANCHOR, folder_of, scattered
from tests.support.small_models import RANDOM, SMALL


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("parts"), scattered(8, turn=9.0))


def sentences(folder: Path, locate: str) -> list[str]:
    """What the locator says to a program."""
    said: list[str] = []
    options = replace(RANDOM, note=said.append, planted=0)
    edgeseg.fit(folder, preset=SMALL, locate=locate, options=options)
    return [line for line in said if "found" in line or "locate" in line or "lie on" in line]


@pytest.mark.parametrize("locate", ["blob", ANCHOR])
def test_the_command_says_what_the_locator_has_learned(parts, tmp_path, monkeypatch, locate):
    expected = sentences(parts, locate)
    assert any("moved on purpose are found again" in line for line in expected)
    learn = spaces.learn_locator
    calls: list[str] = []
    monkeypatch.setattr(
        spaces,
        "learn_locator",
        lambda geometry, *a, **k: calls.append(geometry.locate) or learn(geometry, *a, **k),
    )
    result = succeed(
        "fit", parts, *FIT, "--locate", locate, "--planted", "0", "--out", tmp_path / "p.edgeseg"
    )
    lines = result.stderr.splitlines()
    assert [line for line in lines if line in expected] == expected
    assert calls == [locate]


def test_the_command_warns_of_a_mark_that_moves_by_itself(parts, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeseg.fitting.locator.learn_locator.scatter_located", lambda *_: 1.7)
    result = succeed(
        "fit", parts, *FIT, "--locate", ANCHOR, "--planted", "0", "--out", tmp_path / "p.edgeseg"
    )
    assert "choose another mark, or leave locate out" in result.stderr


def test_pictures_that_are_too_large_are_not_decoded_to_find_parts(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "learn_locator", lambda *_, **__: pytest.fail("looked for parts"))
    out = tmp_path / "p.edgeseg"
    said = fail("fit", parts, *FIT, "--locate", "blob", "--max-pixels", 100, "--out", out, code=1)
    assert "000.png: 120x160 pixels by its header, more than" in said
