"""Why a command has failed, for the process that started it."""

from pathlib import Path

import pytest

from edgeseg.base.failure import FAILURE_FILE, read_failure, write_failure
from tests.support.commands import fail


def test_a_command_tells_who_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "failure.json"
    monkeypatch.setenv(FAILURE_FILE, str(path))
    printed = fail("export-backbone", tmp_path / "lite0.txt", code=2)
    assert printed == read_failure(path)
    assert "expected a name ending in .onnx" in printed


def test_nobody_asked_or_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FAILURE_FILE, raising=False)
    write_failure("lost")
    path = tmp_path / "failure.json"
    assert read_failure(path) is None
    for text in ("{", "[]", "{}"):
        path.write_text(text)
        assert read_failure(path) is None
