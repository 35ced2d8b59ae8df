"""Helpers of the tests, imported in one way: `from tests.support.NAME import ...`."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
