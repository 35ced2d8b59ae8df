"""What was approved: golden pictures, and the verdict and score that each had."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from edgeseg.contract.images import images_in
from edgeseg.contract.plain import Malformed, parse_json, record
from edgeseg.errors import UsageError
from edgeseg.files import write_text
from edgeseg.runtime.recipes.recipe import Recipe

Label = Literal["good", "bad"]
LABELS: tuple[Label, ...] = ("good", "bad")
MASTER = "master"
FILE = "expected.json"


@dataclass(frozen=True, kw_only=True)
class GoldenPicture:
    """One picture as it was approved."""

    file: str  # in golden/: good/001.png
    sha256: str
    verdict: str
    score: float

    @property
    def label(self) -> Label:
        """By its folder."""
        return "good" if self.file.startswith("good/") else "bad"


@dataclass(frozen=True, kw_only=True)
class MasterScore:
    """What the master part got when its frames were taken."""

    verdict: str
    score: float  # mean over its frames


@dataclass(frozen=True, kw_only=True)
class Expected:
    """An approval: these pictures, by this model, at this threshold."""

    approved: str  # UTC
    model_sha256: str | None
    precision: str
    arithmetic: str
    backend: str
    threshold: float
    pictures: tuple[GoldenPicture, ...]
    master: MasterScore | None = None
    schema: int = 1


def expected_path(recipe: Recipe) -> Path:
    """Where the approval lies."""
    return recipe.golden / FILE


def read_expected(recipe: Recipe) -> Expected:
    """The approval of a recipe."""
    path = expected_path(recipe)
    try:
        return record(Expected, parse_json(path.read_bytes()))
    except FileNotFoundError:
        raise UsageError(
            f"{recipe.folder}: nothing is approved yet; put pictures into its golden set with "
            "`edgeseg recipe add-golden`"
        ) from None
    except (OSError, Malformed) as error:
        raise UsageError(
            f"{path}: cannot be used ({error}); approve again with `edgeseg recipe approve`"
        ) from None


def write_expected(recipe: Recipe, expected: Expected) -> Path:
    """Store an approval in one step."""
    path = expected_path(recipe)
    write_text(path, json.dumps(asdict(expected), indent=2, allow_nan=False) + "\n")
    return path


def golden_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Names and paths of the golden pictures, good ones first."""
    for label in LABELS:
        for path in images_in(recipe.golden / label):
            yield f"{label}/{path.name}", path


def master_files(recipe: Recipe) -> Sequence[Path]:
    """The frames of the master part."""
    return images_in(recipe.golden / MASTER)
