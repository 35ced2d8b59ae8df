"""Readers of what lies beside a running line: recipe, station, log, counters, signature."""

import contextlib
import io
import shutil
from pathlib import Path

from edgeseg.base.errors import UsageError
from tests.endurance.fuzz.format import write
from tests.endurance.fuzz.seeds import Seed
from tests.support import KEPT


def read_recipe_file(data: bytes, seed: Seed, folder: Path) -> object:
    """The settings of a recipe."""
    from edgeseg.runtime.recipes.recipe import read_recipe

    write(data, _recipe(folder), "recipe.toml")
    return read_recipe(folder / "bottle").scorer_config()


def _recipe(folder: Path) -> Path:
    recipe = folder / "bottle"
    if not recipe.exists():
        (recipe / "golden").mkdir(parents=True)
        (recipe / "checks").mkdir()
        shutil.copyfile(KEPT / "part-fp32.onnx", recipe / "model.onnx")
        write(b"number = 3\n", recipe, "recipe.toml")
    return recipe


def read_golden(data: bytes, seed: Seed, folder: Path) -> object:
    """What was approved, and what the last check said."""
    from edgeseg.runtime.recipes.approval import read_approval
    from edgeseg.runtime.recipes.check_record import last_check
    from edgeseg.runtime.recipes.recipe import read_recipe

    item = read_recipe(_recipe(folder))
    if seed.name == "expected.json":
        write(data, item.golden, seed.name)
        return read_approval(item)
    write(data, item.folder / "checks", seed.name)
    return last_check(item)


def read_station_file(data: bytes, seed: Seed, folder: Path) -> object:
    """A station in one file, up to the options of its stream."""
    import click

    from edgeseg.runtime.capture.sources import parse_source
    from edgeseg.runtime.settings.options import read_options
    from edgeseg.runtime.stream import stream

    path, said = write(data, folder, seed.name), io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            context = stream.make_context("stream", ["--station", str(path)])
        options = read_options(context.params)
        return [parse_source(source, max_pixels=options.max_pixels) for source in options.source]
    except (click.exceptions.Exit, click.UsageError):  # the command line has said why
        raise UsageError(said.getvalue()) from None


def read_project_file(data: bytes, seed: Seed, folder: Path) -> object:
    """What a project is taught with, or what was done in it."""
    from edgeseg.teach.project import Project

    place = folder / "line3"
    place.mkdir(exist_ok=True)
    write(data, place, seed.name)
    if seed.name != "project.toml":
        write(b'source = "0"\n', place, "project.toml")
    project = Project.opened(place)
    return project.settings().config(), project.history()


def read_regions_file(data: bytes, seed: Seed, folder: Path) -> object:
    """Polygons that do not matter."""
    from edgeseg.vision.ignored import read_regions

    return read_regions(write(data, folder, seed.name))


def read_signed(data: bytes, seed: Seed, folder: Path) -> object:
    """A damaged signature or key is never believed; a public key of before is beside it."""
    from edgeseg.modelfile.signature import check_signature

    write(data, folder, seed.name)
    try:
        told = check_signature(folder / "part.edgeseg", [folder / "owner.pub"])
    finally:
        write(seed.data, folder, seed.name)  # the next case damages the other of the two
    if told != check_signature(folder / "part.edgeseg", [folder / "owner.pub"]):
        raise ValueError("another statement than the signed one was believed")
    return told


def read_log(data: bytes, seed: Seed, folder: Path) -> object:
    """A log is checked, mended, and written on."""
    from edgeseg.runtime.sinks.event_file import EventFile, Rotation
    from edgeseg.runtime.sinks.hash_chain import head_path, parts_of, read_head
    from edgeseg.runtime.sinks.log_check import check_log

    log = folder / "events.jsonl"
    for path in folder.glob("events*"):
        path.unlink()
    write(data, folder, seed.name)
    if seed.name != log.name:
        write(b"", folder, log.name)
    check_log(parts_of(log), read_head(head_path(log)))
    daily = Rotation(days=1.0)
    file = EventFile(str(log), rotation=daily, chained=True, on_error=lambda text: None)
    file.write(b'{"event": "frame", "wall_s": 1.0}', durable=False)
    file.close()
    return log.stat().st_size


def read_counters(data: bytes, seed: Seed, folder: Path) -> object:
    """Counters count on, or from 0, whatever they find."""
    from edgeseg.runtime.sinks.counters import Counters
    from edgeseg.runtime.sinks.shift_times import ShiftTimes

    counters = Counters(
        write(data, folder, seed.name),
        times=ShiftTimes.parse("06:00,14:00"),
        on_error=lambda name, text: None,
    )
    counters.count("good")
    counters.close()
    if counters.counts.shift.all.parts < 1:
        raise ValueError("the part was not counted")
    return counters.counts
