"""`edgeseg check`: compare a recipe with what was approved."""

import json
from pathlib import Path

import click

from edgeseg.base.options import FOLDER, listeners, note, quiet_option
from edgeseg.runtime.backends.ran_versions import RanVersions
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.recipes.check_record import CheckRecord, write_record
from edgeseg.runtime.recipes.master_frames import grab_frames
from edgeseg.runtime.recipes.open_judge import check_recipe
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.runtime.settings.opening_options import opening_options


@click.command()
@click.argument("recipe", type=FOLDER)
@click.option("--source", help="Camera with the master part before it, as for `edgeseg stream`.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@opening_options
@quiet_option
@click.pass_context
def check(
    ctx: click.Context,
    recipe: Path,
    source: str | None,
    as_json: bool,
    opening: SessionOptions,
    quiet: bool,
) -> None:
    """Say whether RECIPE still is what was approved, on this computer.

    The golden pictures must get their verdicts, and their scores within the bounds of recipe.toml,
    from the session that the stream opens. With --source a master part must look as it did: light,
    focus, position and score. Every check is kept in RECIPE/checks. Exit code 0: passed; 1: failed.

    \b
    edgeseg check recipes/bottle
    edgeseg check recipes/bottle --source 0
    """
    note_to, _ = listeners(quiet=quiet)
    product = read_recipe(recipe, trust=opening.trust)
    RanVersions().check(product.statement)
    frames = () if source is None else grab_frames(source, product.settings.golden.master_frames)
    record = check_recipe(product, opening, live=frames, note=note_to)
    path = write_record(product, record)
    click.echo(json.dumps(record.facts(), indent=2) if as_json else check_text(record))
    note(f"wrote {path}")
    ctx.exit(0 if record.passed else 1)


def check_text(record: CheckRecord) -> str:
    """Write a check as text for people."""
    lines = [f"{record.recipe}: {'passed' if record.passed else 'FAILED'}, {record.summary}"]
    if not record.passed:
        lines += [f"  {problem}" for problem in record.problems]
    if record.false_alarms is not None and record.misses is not None:
        lines += [
            f"false alarms: {record.false_alarms}",
            f"misses: {record.misses}",
            f"repeats: {record.repeats}, scores differ by {record.largest_spread or 0:.2g} at most",
        ]
    if record.master is not None:
        values = record.master
        lines.append(
            f"master part: brightness x{values['brightness']:.2f}, sharpness "
            f"x{values['sharpness']:.2f}, moved {values['right']:.1%} right and "
            f"{values['down']:.1%} down, turned {values['turn']:.1f} degrees"
        )
    return "\n".join(lines)
