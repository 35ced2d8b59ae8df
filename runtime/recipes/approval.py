"""Store what was approved: golden pictures, and the verdict and score of each."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_text
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.modelfile.versions import Change
from edgeseg.runtime.recipes.recipe import APPROVAL, Recipe
from edgeseg.vision.images import is_image_file

Label = Literal["good", "bad"]
LABELS: tuple[Label, ...] = ("good", "bad")
MASTER = "master"
SCHEMA = 1  # of an approval


@dataclass(frozen=True, kw_only=True)
class GoldenPicture:
    """One golden picture as it was approved."""

    file: str  # in golden/: good/001.png
    sha256: str
    verdict: str
    score: float
    variant: str | None = None  # of the product; None: the model has one product

    @property
    def label(self) -> Label:
        """The right verdict, by its folder."""
        return "good" if self.file.startswith("good/") else "bad"


@dataclass(frozen=True, kw_only=True)
class MasterScore:
    """Verdict and score of the master part when its frames were taken."""

    verdict: str
    score: float  # mean over its frames


@dataclass(frozen=True, kw_only=True)
class Approval:
    """An approval of these pictures, judged by this model at this threshold."""

    approved: str  # UTC
    model_sha256: str | None
    precision: str
    arithmetic: str
    backend: str
    threshold: float
    pictures: tuple[GoldenPicture, ...]
    master: MasterScore | None = None
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema: {self.schema}, expected {SCHEMA}")


def approval_path(recipe: Recipe) -> Path:
    """Return the path of the approval."""
    return recipe.folder / APPROVAL


def read_approval(recipe: Recipe) -> Approval:
    """Read the approval of a recipe."""
    path = approval_path(recipe)
    try:
        if not recipe.files.is_file(path):
            raise FileNotFoundError
        return record(Approval, parse_json(recipe.files.read(path)))
    except FileNotFoundError:
        raise UsageError(
            f"{recipe.folder}: nothing is approved yet; put pictures into its golden set with "
            "`edgeseg recipe add-golden`"
        ) from None
    except (OSError, Malformed) as error:
        raise UsageError(
            f"{path}: cannot be used ({error}); approve again with `edgeseg recipe approve`"
        ) from None


def write_approval(recipe: Recipe, approval: Approval) -> Path:
    """Write an approval in one step."""
    path = approval_path(recipe)
    write_text(path, _text(approval))
    return path


def stage_approval(change: Change, approval: Approval) -> None:
    """Add an approval to a change, so that it is replaced together with its model."""
    change.path(APPROVAL).write_text(_text(approval), encoding="utf-8")


def _text(approval: Approval) -> str:
    values = asdict(approval)
    for picture in values["pictures"]:
        if picture["variant"] is None:
            del picture["variant"]
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


def golden_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Yield names and paths of the golden pictures, good ones first."""
    for label in LABELS:
        for path in _images_in(recipe, label):
            yield f"{label}/{path.name}", path


def master_files(recipe: Recipe) -> Sequence[Path]:
    """List the frames of the master part."""
    return _images_in(recipe, MASTER)


def _images_in(recipe: Recipe, folder: str) -> list[Path]:
    return [path for path in recipe.files.files_in(recipe.golden / folder) if is_image_file(path)]
