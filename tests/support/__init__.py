"""Helpers of the tests, imported in one way: `from tests.support.NAME import ...`."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

# After so long a wait has hung. It is no measure: a busy computer may take many times as long as a
# quiet one, and no test may fail for that.
HANGS_S = 600.0
