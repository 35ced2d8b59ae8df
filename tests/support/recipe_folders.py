"""Recipes of the brightness model with golden pictures whose scores are known."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.files import file_sha256
from edgeseg.base.progress import ignore
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.approval import write_approval
from edgeseg.runtime.recipes.golden_check import approve
from edgeseg.runtime.recipes.open_judge import open_judge
from edgeseg.runtime.recipes.recipe import Recipe, Settings, read_recipe
from edgeseg.runtime.recipes.store import make_recipe
from edgeseg.runtime.recipes.versions import put_model
from edgeseg.vision.images import write_image
from tests.support.brightness_model import brightness_metadata, write_brightness_model

CPU = SessionOptions(backend="cpu", threads=1)
OPENING = ("--backend", "cpu", "--threads", 1)
SIZE_HW = (64, 96)


def part(spot: int, *, base: int = 90) -> NDArray[np.uint8]:
    """A textured part with a square of a given brightness: its score."""
    y, x = np.mgrid[: SIZE_HW[0], : SIZE_HW[1]]
    grain = np.random.default_rng(0).uniform(-9, 9, SIZE_HW)
    texture = 12 * np.sin(x / 4.7) * np.cos(y / 5.3) + 0.3 * x + grain
    picture = np.clip(base + texture, 0, 255).astype(np.uint8)
    picture[24:40, 40:64] = spot
    return np.repeat(picture[:, :, None], 3, axis=2)


def new_recipe(
    folder: Path,
    *,
    number: int = 1,
    threshold: float = 200.0,
    good: tuple[int, ...] = (150, 160, 170),
    bad: tuple[int, ...] = (220, 240),
    at_start: bool = False,
    approved: bool = True,
) -> Recipe:
    """A recipe whose model says defect above a brightness, with approved pictures."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    model = folder.parent / f".{folder.name}.onnx"
    metadata = replace(brightness_metadata(threshold=threshold), name=folder.name)
    write_brightness_model(model, metadata=metadata)
    made = make_recipe(folder, model, Settings(number=number))
    model.unlink()
    model.with_suffix(".json").unlink()
    for label, spots in (("good", good), ("bad", bad)):
        for spot in spots:
            write_image(made.golden / label / f"{spot}.png", part(spot))
    if at_start:
        edit(made, "at_start = false", "at_start = true")
    if approved:
        approve_now(made)
    return read_recipe(folder)


def approve_now(recipe: Recipe) -> None:
    """Today's scores are right."""
    with open_judge(recipe, CPU, note=ignore) as judge:
        write_approval(recipe, approve(judge))


def edit(recipe: Recipe, old: str, new: str) -> Recipe:
    """Change a line of recipe.toml."""
    path = recipe.folder / "recipe.toml"
    text = path.read_text()
    whole = rf"(?<!\w){re.escape(old)}"  # at_start is not master_at_start
    assert re.search(whole, text), old
    path.write_text(re.sub(whole, lambda _: new, text))
    return read_recipe(recipe.folder)


def install(recipe: Recipe, threshold: float, folder: Path) -> str:
    """Another model in the recipe's place; its hash."""
    path = folder / f"new-{threshold}.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=threshold))
    put_model(recipe, path)
    return file_sha256(recipe.model)
