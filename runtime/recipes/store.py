"""Find the recipes of a station in a folder of folders, by name or by number."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_text
from edgeseg.base.messages import Setting
from edgeseg.modelfile.file_reading import DISK, Files, OneReading
from edgeseg.modelfile.metadata import PLAN_SUFFIXES, ModelMetadata
from edgeseg.modelfile.versions import new_folder
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.runtime.recipes.recipe import (
    FILE,
    Recipe,
    Settings,
    check_name,
    read_recipe,
    settings_text,
)
from edgeseg.runtime.recipes.versions import check_movable
from edgeseg.runtime.station.records import job_key


@dataclass(frozen=True, kw_only=True)
class RecipeStore:
    """All recipes of a folder, read again at each call, so that people may edit them."""

    folder: Path

    def recipes(self) -> list[Recipe]:
        """List recipes in the order of their numbers; a mistake in one is raised."""
        if not self.folder.is_dir():
            raise UsageError(
                Setting("recipes", self.folder),
                ": no such folder; expected one with a recipe in each folder",
            )
        found = [read_recipe(file.parent) for file in sorted(self.folder.glob(f"*/{FILE}"))]
        numbers = Counter(recipe.settings.number for recipe in found)
        for recipe in found:
            if numbers[recipe.settings.number] > 1:
                raise UsageError(
                    f"{recipe.folder / FILE}: number={recipe.settings.number} is another recipe's "
                    "too; expected one for each"
                )
        return sorted(found, key=lambda recipe: recipe.settings.number)

    def find(self, key: int | str) -> Recipe | None:
        """Find a recipe by number or name; digits are a number, since no name has only digits."""
        wanted = job_key(key.strip()) if isinstance(key, str) else key
        for recipe in self.recipes():
            if wanted == (recipe.settings.number if isinstance(wanted, int) else recipe.name):
                return recipe
        return None

    def free_number(self) -> int:
        """Return the smallest number that no recipe has."""
        taken = (
            {recipe.settings.number for recipe in self.recipes()} if self.folder.is_dir() else ()
        )
        return next(number for number in range(1, 2**16) if number not in taken)


def make_recipe(folder: Path, model: Path, settings: Settings, *, files: Files = DISK) -> Recipe:
    """Make a recipe's folder with a copy of a model, whole or not at all."""
    check_name(folder.name)
    if folder.exists():
        raise UsageError(f"{folder}: is there already; choose another name")
    check_movable(model)
    files = OneReading(files)
    metadata = file_metadata(model, files=files)
    metadata.thresholds(settings.operating_point.threshold)  # one that this model can have
    with new_folder(folder) as new:
        target = new / settings.model
        target.write_bytes(files.read(model))
        if model.suffix in PLAN_SUFFIXES:
            target.with_suffix(".json").write_bytes(files.read(model.with_suffix(".json")))
            _copy_graph(model, target, metadata)
        else:
            write_sidecar(target, metadata)
        for name in ("good", "bad", "master"):
            (new / "golden" / name).mkdir(parents=True)
        write_text(new / FILE, settings_text(settings))
    return read_recipe(folder)


def _copy_graph(plan: Path, target: Path, metadata: ModelMetadata) -> None:
    """Copy the graph of a plan, if it is beside the plan and is the one that it names."""
    graph = plan.with_suffix(".onnx")
    data = graph.read_bytes() if graph.is_file() else b""
    if hashlib.sha256(data).hexdigest() == metadata.onnx_sha256:
        target.with_suffix(".onnx").write_bytes(data)
