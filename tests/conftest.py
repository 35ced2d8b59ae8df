"""Shared fixtures: where the real data is, and small things that many tests use."""

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real weights and images; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("EDGESEG_SHARED", REPO.parent / "shared"))
    if not (folder / "weights").is_dir():
        pytest.skip(f"needs real weights and images: {folder} is absent (set EDGESEG_SHARED)")
    return folder
