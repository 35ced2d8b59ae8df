"""Helpers of the tests, imported in one way: `from tests.support.NAME import ...`."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
KEPT = REPO / "tests" / "kept" / "0.2.0"  # files that every later version must read

# After so long a wait has hung. It is no measure: a busy computer may take many times as long as a
# quiet one, and no test may fail for that.
HANGS_S = 600.0
