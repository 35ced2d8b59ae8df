"""Shared fixtures: where the real data is, and small things that many tests use."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support import REPO

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact
    from tests.doubles.chromium import Browser

# The same examples in every run, and no limit of time: a busy computer fails no test.
hypothesis.settings.register_profile("edgeseg", deadline=None, derandomize=True)
hypothesis.settings.load_profile("edgeseg")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real weights and images; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("EDGESEG_SHARED", REPO.parent / "shared"))
    if not (folder / "weights").is_dir():
        pytest.skip(f"needs real weights and images: {folder} is absent (set EDGESEG_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep torch to one thread: several test processes that each take all cores crawl."""
    if "torch" in sys.modules:  # tests of the runtime never import it
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a station remembers of the versions that ran is each test's own."""
    monkeypatch.setenv("EDGESEG_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(autouse=True)
def full_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs beside a station give way, on a busy computer until a test has hung: not here."""
    monkeypatch.setenv("EDGESEG_NICENESS", "0")


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """One for all pages."""
    from tests.doubles.chromium import open_browser

    with open_browser() as started:
        yield started


@pytest.fixture
def browser(chromium: "Browser") -> "Iterator[Browser]":
    """Every test has a profile of its own: a port that is used again brings nothing along."""
    with chromium.own_profile():
        yield chromium


@pytest.fixture(scope="session")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic dataset in MVTec layout, 96x96."""
    from tests.support.small_models import write_plate

    return write_plate(tmp_path_factory.mktemp("data") / "plate")


@pytest.fixture(scope="session")
def small_artefact(plate: Path) -> "Artefact":
    """A model fitted on `plate` with random weights; frozen, so tests may share it."""
    from tests.support.small_models import fit_small

    return fit_small(plate)


@pytest.fixture(scope="session")
def shown_artefact(plate: Path) -> "Artefact":
    """The same with a map of its own."""
    from tests.support.small_models import SHOWN, fit_small

    return fit_small(plate, config=SHOWN)


@pytest.fixture(scope="session")
def small_artefact_path(
    small_artefact: "Artefact", tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same model as a file, to be read only."""
    from edgeseg.model.artefact import save_artefact

    path = tmp_path_factory.mktemp("models") / "plate.edgeseg"
    save_artefact(small_artefact, path)
    return path


@pytest.fixture
def artefact_copy(small_artefact_path: Path, tmp_path: Path) -> Path:
    """A copy of the same file that a test may change."""
    return Path(shutil.copy(small_artefact_path, tmp_path / "part.edgeseg"))
