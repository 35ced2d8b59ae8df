"""Installed sizes, against files and requirements counted by hand."""

from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.errors import EdgesegError
from edgeseg.bench.compare.install_size import distribution_sizes, main


def write_package(site: Path, name: str, *, size: int, requires: tuple[str, ...] = ()) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_bytes(b"#" * size)
    lines = [f"Requires-Dist: {text}" for text in requires]
    (info / "METADATA").write_text("\n".join([f"Name: {name}", "Version: 1.0", *lines, ""]))
    (info / "RECORD").write_text(f"{name}.py,,\ngone.py,,\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    small = 'small; python_version > "3"'
    loop = 'whole[heavy]; extra == "all"'
    needs = (small, 'never; sys_platform == "none"', 'large; extra == "heavy"', loop)
    write_package(tmp_path, "whole", size=100, requires=needs)
    write_package(tmp_path, "small", size=10, requires=("whole",))  # a circle ends
    write_package(tmp_path, "large", size=1000)
    return tmp_path


def test_everything_needed_is_counted_once(site: Path) -> None:
    assert distribution_sizes("whole") == {"whole": 100, "small": 10}
    assert distribution_sizes("whole[heavy]") == {"whole": 100, "small": 10, "large": 1000}
    assert distribution_sizes("whole[all]") == distribution_sizes("whole[heavy]")


def test_a_real_package_is_as_large_as_its_files() -> None:
    files = metadata.files("click") or []
    paths = {Path(str(file.locate())).resolve() for file in files}
    total = sum(path.stat().st_size for path in paths if path.is_file())
    assert distribution_sizes("click")["click"] == total > 100_000


def test_what_is_not_installed_is_named(site: Path) -> None:
    write_package(site, "broken", size=1, requires=("absent-package",))
    with pytest.raises(EdgesegError, match="broken: absent-package is not installed here"):
        distribution_sizes("broken")


def test_the_command_prints_a_table(site: Path) -> None:
    result = CliRunner().invoke(main, ["whole[heavy]", "--top", "1"])
    assert result.exit_code == 0
    assert "| whole[heavy] | 3 | 0.0 | large 0 |" in result.output
