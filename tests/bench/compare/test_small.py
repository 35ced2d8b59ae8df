"""`make bench`, as it is typed, with an `edgeseg` that makes it small."""

import subprocess
import sys
from pathlib import Path

from edgeseg.bench.harness.report import read_report
from tests.support import HANGS_S, REPO
from tests.support.bench_tables import by_column

# As small as the commands allow; the rest is what the Makefile says.
EDGESEG = f"""#!/bin/sh
echo "$@" > asked
exec "{sys.executable}" -m edgeseg "$@" --size 64 --train 4 --rounds 2 --threads 1 \\
    --preset edge --precision fp32
"""


def test_make_bench(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    for name in ("pyproject.toml", "release/dev.lock"):
        (tmp_path / name).touch()
    script = tmp_path / "venv" / "bin" / "edgeseg"
    script.parent.mkdir(parents=True)
    script.write_text(EDGESEG)
    script.chmod(0o755)
    (tmp_path / "venv" / ".installed").touch()  # after these: nothing to install
    words = ["make", "-f", str(REPO / "Makefile"), "bench", "VENV=venv"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == "bench small --out bench-out\n"
    report = read_report(tmp_path / "bench-out")
    (row,) = by_column(report.tables[0])
    names = [row[name] for name in ("model", "precision", "backend")]
    assert names == ["efficientnet_lite1 edge", "fp32", "cpu"]
    assert isinstance(row["PRO"], float)
    assert (tmp_path / "bench-out" / "report.html").is_file()
    assert "### Summary" in done.stdout
