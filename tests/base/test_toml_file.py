"""TOML files, and those that are none."""

from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.toml_file import read_toml


def test_values(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('name = "täglich"\n[golden]\nrepeats = 3\n')
    assert read_toml(path) == {"name": "täglich", "golden": {"repeats": 3}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, ": no such file"),
        (b"name = \n", ": not TOML (Invalid value (at line 1, column 8))"),
        (b"# " + 1_000_000 * b"x", ": more than 1000000 bytes, expected a file of settings"),
        (b"name = " + 5000 * b"[" + 5000 * b"]", ": not TOML ("),
        (b"\xff\xfe", ": cannot be read ('utf-8' codec can't decode byte 0xff"),
    ],
)
def test_mistakes(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "a.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError) as refused:
        read_toml(path)
    assert str(refused.value).startswith(f"{path}{message}")
