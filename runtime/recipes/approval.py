"""What was approved: golden pictures, and the verdict and score that each had."""

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from edgeseg.contract.images import is_image_file
from edgeseg.contract.plain import Malformed, parse_json, record
from edgeseg.contract.signed_files import OF_FOLDER
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.files import file_sha256, locked, write_text
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.recipes.versions import model_files

Label = Literal["good", "bad"]
LABELS: tuple[Label, ...] = ("good", "bad")
MASTER = "master"
FILE = "expected.json"
_NEXT = ".golden-next"


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
    if not recipe.files.signed:  # what is signed was settled before it was looked at
        with suppress(OSError):  # a disk that cannot be written: then what is there is judged
            settle_golden(recipe)
    path = expected_path(recipe)
    try:
        if not recipe.files.is_file(path):
            raise FileNotFoundError
        return _expected(recipe.files.read(path))
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


@contextmanager
def announced_golden(recipe: Recipe) -> Iterator[Recipe]:
    """Where the approval of a new model is laid ready, before the model takes its place.

    The rename of the model decides: killed before it, the old approval stands; killed after it, the
    announced one is of the model, and takes its place at the end or when the next run reads it.
    Golden pictures may be announced too, if all of them are to be others, and a signature.
    """
    draft = _draft(recipe)
    shutil.rmtree(draft.folder, ignore_errors=True)
    try:
        yield draft
    except BaseException:
        if not _is_announced(recipe):
            shutil.rmtree(draft.folder, ignore_errors=True)
        raise
    _take(recipe)


def settle_golden(recipe: Recipe) -> None:
    """Do what a killed install would have done next, if its model is in place."""
    draft = _draft(recipe)
    if _is_announced(recipe):
        _take(recipe)
    elif draft.folder.is_dir():
        for folder in (draft.golden, draft.folder):  # the inner one may be gone already
            with suppress(OSError):  # not empty: of one that has not decided yet
                folder.rmdir()


def _draft(recipe: Recipe) -> Recipe:
    return replace(recipe, folder=recipe.folder / _NEXT)


def _is_announced(recipe: Recipe) -> bool:
    """Whether an approval lies ready that is of the model in place, at its threshold."""
    path = expected_path(_draft(recipe))
    if not path.is_file():
        return False
    with suppress(OSError, Malformed, EdgesegError):  # what cannot be read decides nothing
        expected = _expected(path.read_bytes())
        if expected.model_sha256 in [file_sha256(path) for path in model_files(recipe.model)]:
            chosen = recipe.settings.operating_point.threshold
            threshold = file_metadata(recipe.model).thresholds(chosen).score
            return math.isclose(threshold, expected.threshold, rel_tol=1e-6)
    return False


def _take(recipe: Recipe) -> None:
    """The approval last: as long as it lies there, this can go on where it was killed."""
    draft = _draft(recipe)
    with locked(recipe.folder):
        if not expected_path(draft).is_file():
            return  # another process was faster
        for label in LABELS:
            if (draft.golden / label).is_dir():
                shutil.rmtree(recipe.golden / label, ignore_errors=True)
                (draft.golden / label).rename(recipe.golden / label)
        signature = draft.folder / OF_FOLDER
        if signature.is_file():
            signature.replace(recipe.folder / OF_FOLDER)
        expected_path(draft).replace(expected_path(recipe))
        shutil.rmtree(draft.folder, ignore_errors=True)


def _expected(text: bytes) -> Expected:
    return record(Expected, parse_json(text))


def golden_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Names and paths of the golden pictures, good ones first."""
    for label in LABELS:
        for path in _images_in(recipe, label):
            yield f"{label}/{path.name}", path


def master_files(recipe: Recipe) -> Sequence[Path]:
    """The frames of the master part."""
    return _images_in(recipe, MASTER)


def _images_in(recipe: Recipe, folder: str) -> list[Path]:
    return [path for path in recipe.files.files_in(recipe.golden / folder) if is_image_file(path)]
