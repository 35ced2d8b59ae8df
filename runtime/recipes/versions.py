"""Keep earlier models beside the recipe, a few of them, whole or not at all.

versions/0001/model.onnx, model.json, expected.json, version.json
"""

import hashlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.files import copy_file, file_sha256, write_json
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.base.utc import utc_time
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.metadata import PLAN_SUFFIXES, ModelMetadata
from edgeseg.modelfile.signed_files import OF_FOLDER
from edgeseg.modelfile.versions import (
    Change,
    keep_newest,
    kept_versions,
    new_folder,
    next_number,
    replacing,
    settle,
)
from edgeseg.runtime.backends.model_file import file_metadata, sidecar_text, stage_sidecar
from edgeseg.runtime.recipes.recipe import APPROVAL, Recipe

_KEPT = 5
_FILE = "version.json"
# What goes with a model: what was approved of it, and who signed the folder.
ALONG = (APPROVAL, OF_FOLDER)


@dataclass(frozen=True, kw_only=True)
class Version:
    """One model that ran."""

    when: str  # UTC
    model: str  # its file's name
    model_sha256: str
    decided_sha256: str  # of all that is known of it: threshold, calibration

    def same_as(self, other: "Version") -> bool:
        """Whether both are the same model with the same decisions."""
        return (self.model_sha256, self.decided_sha256) == (
            other.model_sha256,
            other.decided_sha256,
        )


def model_files(model: Path) -> list[Path]:
    """List a model, its sidecar, and a plan's graph."""
    names = [model, model.with_suffix(".json")]
    if model.suffix in PLAN_SUFFIXES:
        names.append(model.with_suffix(".onnx"))
    return [path for path in names if path.is_file()]


def check_movable(model: Path) -> None:
    """Refuse a graph that names a second file, which it would not find under another name."""
    weights = model.with_name(f"{model.name}.data")
    if weights.is_file():
        raise UsageError(
            f"{model}: keeps its weights in {weights.name}; a recipe takes graphs of one file"
        )


def version_of(recipe: Recipe) -> Version:
    """Describe the model in the folder now; a damaged file is raised."""
    metadata = file_metadata(recipe.model, files=recipe.files).to_json()
    return Version(
        when=utc_time(),
        model=recipe.model.name,
        model_sha256=recipe.files.sha256(recipe.model),
        decided_sha256=hashlib.sha256(metadata.encode()).hexdigest(),
    )


def versions_of(recipe: Recipe) -> list[tuple[Path, Version]]:
    """List the kept versions, the oldest first; other folders are ignored."""
    found = []
    for path in kept_versions(recipe.folder / "versions"):
        try:
            found.append((path, record(Version, parse_json((path / _FILE).read_bytes()))))
        except (OSError, Malformed):
            continue
    return found


def keep_version(recipe: Recipe) -> Path:
    """Copy the present model, unless a copy exists; the oldest copies are deleted."""
    now, kept = version_of(recipe), versions_of(recipe)
    for path, version in kept:
        if version.same_as(now):
            _copy_along(recipe, path)
            return path
    target = next_number(recipe.folder / "versions")
    with new_folder(target) as new:
        for path in model_files(recipe.model):
            (new / path.name).write_bytes(recipe.files.read(path))
        sidecar = new / recipe.model.with_suffix(".json").name
        sidecar.write_text(sidecar_text(_sidecar_of(recipe.model, recipe.files)), encoding="utf-8")
        write_json(new / _FILE, asdict(now))
        _copy_along(recipe, new)
        if file_sha256(new / recipe.model.name) != now.model_sha256:
            raise RuntimeFailure(f"{recipe.model}: changed while it was copied; try again")
    keep_newest(kept_versions(target.parent), _KEPT)
    return target


def _sidecar_of(model: Path, files: Files = DISK) -> ModelMetadata:
    metadata = file_metadata(model, files=files)
    if model.suffix in PLAN_SUFFIXES:
        return metadata
    return replace(metadata, onnx_sha256=files.sha256(model))


def version_before(recipe: Recipe) -> tuple[Path, Version]:
    """Return the version before the present one; the newest if the present was never kept."""
    settle(recipe.folder)
    kept, at = versions_of(recipe), None
    with suppress(EdgesegError):  # a damaged model is no version
        now = version_of(recipe)
        at = next((i for i, (_, version) in enumerate(kept) if version.same_as(now)), None)
    at = len(kept) if at is None else at
    if at == 0:
        raise UsageError(
            f"{recipe.folder}: no version before this one; {len(kept)} are kept, and a model is "
            "kept when a stream loads it or `edgeseg recipe install` replaces it"
        )
    return kept[at - 1]


def stage_model(change: Change, recipe: Recipe, model: Path) -> None:
    """Add a copy of a model and its sidecar to a change."""
    if (model.suffix in PLAN_SUFFIXES) != (recipe.model.suffix in PLAN_SUFFIXES):
        raise UsageError(
            f"{model}: expected a {recipe.model.suffix} file, as recipe.toml says model="
            f"{recipe.model.name}"
        )
    check_movable(model)
    change.copy(recipe.model.name, model)
    stage_sidecar(change, recipe.model.name, _sidecar_of(model))
    graph = model.with_suffix(".onnx")
    if model.suffix in PLAN_SUFFIXES and graph.is_file():
        change.copy(recipe.model.with_suffix(".onnx").name, graph)


def put_model(recipe: Recipe, model: Path) -> None:
    """Replace the recipe's model and sidecar by a copy of another, in one step."""
    with replacing(recipe.folder) as change:
        stage_model(change, recipe, model)


def _copy_along(recipe: Recipe, folder: Path) -> None:
    for name in ALONG:
        source = recipe.folder / name
        if source.is_file():
            copy_file(source, folder / source.name)
