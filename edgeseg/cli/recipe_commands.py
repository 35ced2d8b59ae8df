"""`edgeseg recipe`: make, list and show recipes, approve golden pictures, go back a version."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.files import copy_file
from edgeseg.base.messages import Setting
from edgeseg.base.options import (
    FILE,
    FOLDER,
    PATH,
    json_option,
    listeners,
    note,
    quiet_option,
    trust_option,
)
from edgeseg.base.progress import Note
from edgeseg.base.tables import align_columns
from edgeseg.base.typed_options import NearestGroup
from edgeseg.modelfile.file_reading import DISK
from edgeseg.modelfile.metadata import PLAN_SUFFIXES
from edgeseg.modelfile.signature import files_of_model, note_stale
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.capture.image_files import image_paths
from edgeseg.runtime.recipes.approval import (
    LABELS,
    MASTER,
    Label,
    golden_files,
    read_approval,
    write_approval,
)
from edgeseg.runtime.recipes.check_record import last_check
from edgeseg.runtime.recipes.golden_check import RecipeJudge
from edgeseg.runtime.recipes.golden_check import approve as approve_golden
from edgeseg.runtime.recipes.install import install_model, roll_back
from edgeseg.runtime.recipes.master_frames import grab_frames
from edgeseg.runtime.recipes.open_judge import open_judge
from edgeseg.runtime.recipes.recipe import (
    DecisionSettings,
    Recipe,
    RecipeRegion,
    Settings,
    read_recipe,
)
from edgeseg.runtime.recipes.store import RecipeStore, make_recipe
from edgeseg.runtime.settings.opening_options import opening_options
from edgeseg.vision.images import write_image


@click.group(cls=NearestGroup)
def recipe() -> None:
    """Keep a folder for each product: model, region, operating point, golden pictures.

    \b
    edgeseg recipe new recipes/bottle --model bottle.onnx
    edgeseg recipe add-golden recipes/bottle approved/good --good
    edgeseg recipe list recipes
    """


@recipe.command()
@click.argument("folder", type=PATH)
@click.option("--model", type=FILE, required=True, help="A .onnx or .plan file, which is copied.")
@click.option("--number", type=int, help="By which a PLC loads it; default: the next free one.")
@click.option("--roi", metavar="X,Y,W,H", help="Look only at this part of the frame.")
@click.option("--threshold", type=float, help="Instead of the model's own.")
@trust_option
def new(
    folder: Path,
    model: Path,
    number: int | None,
    roi: str | None,
    threshold: float | None,
    trust: tuple[Path, ...],
) -> None:
    """Make the recipe FOLDER with a copy of a model.

    \b
    edgeseg recipe new recipes/bottle --model bottle.onnx
    """
    files = files_of_model(model, trust)
    store = RecipeStore(folder=folder.parent)
    taken = None if number is None or not store.folder.is_dir() else store.find(number)
    if taken is not None:
        raise UsageError(
            Setting("number", number), f": is the number of {taken.name}; choose another one"
        )
    chosen = store.free_number() if number is None else number
    settings = Settings(
        number=chosen,
        model="model.plan" if model.suffix in PLAN_SUFFIXES else "model.onnx",
        region=RecipeRegion(roi=roi),
        operating_point=DecisionSettings(threshold=threshold),
    )
    made = make_recipe(folder, model, settings, files=files)
    note(
        f"wrote {made.folder}, number {chosen}; approve pictures with: "
        f"edgeseg recipe add-golden {made.folder} PICTURES --good"
    )


@recipe.command("list")
@click.argument("folder", type=FOLDER)
@trust_option
def list_recipes(folder: Path, trust: tuple[Path, ...]) -> None:
    """List the recipes in FOLDER.

    \b
    edgeseg recipe list recipes
    """
    rows: list[tuple[str, ...]] = [("number", "recipe", "model", "golden", "last check")]
    for item in RecipeStore(folder=folder).recipes():
        rows.append(
            (
                str(item.settings.number),
                item.name,
                _model_words(item, trust),
                str(sum(1 for _ in golden_files(item))),
                last_check(item),
            )
        )
    click.echo("\n".join(align_columns(rows)))


@recipe.command()
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@json_option
@trust_option
def show(recipe_folder: Path, as_json: bool, trust: tuple[Path, ...]) -> None:
    """Say what RECIPE is: its model, operating point, golden set and last check.

    \b
    edgeseg recipe show recipes/bottle
    """
    facts = _facts(read_recipe(recipe_folder, trust=trust))
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        click.echo(f"{name:<16} {value}")


@recipe.command("add-golden")
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@click.argument("pictures")
@click.option("--good", "label", flag_value="good", help="They show good parts.")
@click.option("--bad", "label", flag_value="bad", help="They show bad parts.")
@opening_options
@quiet_option
def add_golden(
    recipe_folder: Path, pictures: str, label: Label | None, opening: SessionOptions, quiet: bool
) -> None:
    """Copy PICTURES into RECIPE's golden set, and approve the whole set with today's scores.

    PICTURES is a file, a folder or a pattern. A good part that is not judged good, or a bad one
    that is, is refused.

    \b
    edgeseg recipe add-golden recipes/bottle approved/good --good
    edgeseg recipe add-golden recipes/bottle approved/scratched --bad
    """
    if label is None:
        raise UsageError(f"{pictures}: good or bad parts? Add `--good` or `--bad`")
    item, added = read_recipe(recipe_folder, trust=opening.trust), []
    try:
        for path in image_paths(pictures):
            added.append(_copied(path, item.golden / label))
        _approve(item, opening, quiet=quiet)
    except EdgesegError:
        _remove(added)  # the set stays as it was approved
        raise


@recipe.command("add-master")
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@click.option("--source", required=True, help="A camera, as of the stream.")
@opening_options
@quiet_option
def add_master(recipe_folder: Path, source: str, opening: SessionOptions, quiet: bool) -> None:
    """Take frames of the master part before the camera, and approve how it looks.

    \b
    edgeseg recipe add-master recipes/bottle --source 0
    """
    item = read_recipe(recipe_folder, trust=opening.trust)
    frames = grab_frames(source, item.settings.golden.master_frames)
    with open_judge(item, opening, note=listeners(quiet=quiet)[0]) as judge:
        expected = approve_golden(judge, master=frames)
    folder = item.golden / MASTER
    _remove(folder.glob("*.png"))
    for index, frame_hwc in enumerate(frames):
        write_image(folder / f"{index:03d}.png", frame_hwc)
    path = write_approval(item, expected)
    note_stale(item.model, note)
    note(f"wrote {path}; check with: edgeseg check {item.folder} --source {source}")


@recipe.command()
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@opening_options
@quiet_option
def approve(recipe_folder: Path, opening: SessionOptions, quiet: bool) -> None:
    """Approve RECIPE's golden set again, with today's model, threshold and scores.

    \b
    edgeseg recipe approve recipes/bottle
    """
    _approve(read_recipe(recipe_folder, trust=opening.trust), opening, quiet=quiet)


@recipe.command()
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@click.argument("model", type=FILE)
@opening_options
@quiet_option
def install(recipe_folder: Path, model: Path, opening: SessionOptions, quiet: bool) -> None:
    """Let MODEL take the place of RECIPE's model, if it gets every golden picture right.

    The model before is kept for `edgeseg recipe rollback`. A stream that runs the recipe proves the
    new one again and swaps it in between two frames.

    \b
    edgeseg recipe install recipes/bottle better.onnx
    """
    item = read_recipe(recipe_folder, trust=opening.trust)
    install_model(item, model, opening, note=listeners(quiet=quiet)[0])
    note_stale(item.model, note)
    note(f"wrote {item.model}; go back with: edgeseg recipe rollback {item.folder}")


@recipe.command()
@click.argument("recipe_folder", metavar="RECIPE", type=FOLDER)
@trust_option
def rollback(recipe_folder: Path, trust: tuple[Path, ...]) -> None:
    """Put the model before the present one back, with what was approved and signed of it.

    With --trust only a version that was signed comes back.

    \b
    edgeseg recipe rollback recipes/bottle
    """
    item = read_recipe(recipe_folder)
    version = roll_back(item, trust=trust)
    note(
        f"model {version.model_sha256[:12]}... is back in {item.model}; check with: "
        f"edgeseg check {item.folder}"
    )


def _approve(item: Recipe, opening: SessionOptions, *, quiet: bool) -> None:
    """The golden set as it lies there now, by the model and the settings that were read."""
    note_to: Note = listeners(quiet=quiet)[0]
    with open_judge(item, opening, note=note_to) as judge:
        now = RecipeJudge(replace(item, files=DISK), judge.session)
        path = write_approval(item, approve_golden(now))
    note_stale(item.model, note)
    note(f"wrote {path}; check with: edgeseg check {item.folder}")


def _copied(path: Path, folder: Path) -> Path:
    """A copy under its own name, or beside a picture that has it already."""
    target, number = folder / path.name, 1
    while target.exists():
        target = folder / f"{path.stem}-{number}{path.suffix}"
        number += 1
    copy_file(path, target)
    return target


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _model_words(item: Recipe, trust: tuple[Path, ...]) -> str:
    try:
        read = read_recipe(item.folder, trust=trust)
        metadata = file_metadata(read.model, files=read.files)
    except EdgesegError as error:
        return f"unusable: {error}"
    return f"{metadata.name} {metadata.precision}"


def _facts(item: Recipe) -> dict[str, object]:
    metadata = file_metadata(item.model, files=item.files)
    own = item.settings.operating_point.threshold
    thresholds = metadata.thresholds(own)
    counts = {label: 0 for label in LABELS}
    for name, _ in golden_files(item):
        counts["good" if name.startswith("good/") else "bad"] += 1
    try:
        approved = read_approval(item).approved
    except UsageError:
        approved = "never"
    return {
        "recipe": item.name,
        "number": item.settings.number,
        "model": f"{item.model.name}: {metadata.name}, {metadata.precision}",
        "threshold": thresholds.score,
        "chosen": thresholds.method if own is None else "by hand",
        "region": item.settings.region.roi or "all",
        "golden": f"{counts['good']} good, {counts['bad']} bad, approved {approved}",
        "check at start": item.settings.golden.at_start,
        "last check": last_check(item),
    }
