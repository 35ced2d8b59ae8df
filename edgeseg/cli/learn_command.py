"""`edgeseg learn`: make the next version from people's marks, with a preview."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.options import PATH, command_line, listeners, quiet_option, trust_option
from edgeseg.base.progress import Note
from edgeseg.cli.needs import check_needs
from edgeseg.cli.teach_command import follow, open_service
from edgeseg.modelfile.signature import note_stale

if TYPE_CHECKING:
    from edgeseg.teach.service import TeachService

# Where a known defect can be taken back, if it is none.
_WHERE = {
    "mark": "a mark: take it back with --withdraw",
    "bad": "a picture in bad/: move it out if it is no defect",
    "golden": "a golden picture of the recipe",
    "missed": "a missed defect in missed/, or one to be learned now: move it out if it is none",
}


@click.command()
@click.argument("folder", metavar="PROJECT", type=PATH)
@click.option(
    "--from",
    "origin",
    type=click.Choice(("feedback",)),
    default="feedback",
    show_default=True,
    help="What is learned: alarms that were marked as good, or as places to ignore.",
)
@click.option(
    "--missed",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Learn from these missed defects, in folders by kind, instead of marks: as --known of "
    "`edgeseg fit`.",
)
@click.option("--dry-run", is_flag=True, help="Show what it would learn, and change nothing.")
@click.option(
    "--rollback", is_flag=True, help="Go back to the version before, instead of learning."
)
@click.option(
    "--force", is_flag=True, help="Learn even if many of the planted defects found now are lost."
)
@click.option("--marks", is_flag=True, help="List the marks, and change nothing.")
@click.option(
    "--withdraw", metavar="ALARM", help="Take back all marks of this alarm, instead of learning."
)
@trust_option
@quiet_option
def learn(
    folder: Path,
    origin: str,
    missed: Path | None,
    dry_run: bool,
    rollback: bool,
    force: bool,
    marks: bool,
    withdraw: str | None,
    trust: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Make what people marked in PROJECT the next version of its model.

    A picture is learned when two people or a supervisor call it good, at most one for ten that were
    fitted, and never one that scores like a known defect. The place of an alarm is ignored where
    they say so: at most a tenth of the picture, and nothing that hides a known defect. The new
    version must get the golden pictures right; a station that runs swaps it in between two frames.
    One that loses more of the planted defects that are found now than the project's may_lose is
    refused: another supervisor confirms it on the page, or --force does it here.
    Missed defects are learned by a fit on the good pictures, and every later fit knows them too;
    those that people marked on the page come before marks of alarms.
    With --trust it goes on from a recipe that is signed, and the new version waits for a signature.

    \b
    edgeseg learn line3 --from feedback --dry-run
    edgeseg learn line3 --from feedback
    edgeseg learn line3 --missed missed
    edgeseg learn line3 --marks
    edgeseg learn line3 --withdraw 1763391600000-000120
    edgeseg learn line3 --rollback
    """
    wishes = {"--dry-run": dry_run, "--rollback": rollback, "--force": force, "--marks": marks}
    named = [name for name, wish in {**wishes, "--withdraw": withdraw is not None}.items() if wish]
    if missed is not None:
        named += ["--missed"] * (rollback or marks or withdraw is not None)
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: they do different things; leave one out")

    from edgeseg.teach.project import Project

    if not (rollback or marks or withdraw is not None):
        check_needs("safetensors")
    note = listeners(quiet=quiet)[0]
    project = Project.open(folder)
    with open_service(project, note=note, trust=trust) as service:
        if rollback:
            back = service.rollback(who="supervisor")
            note(f"version {back['version']} runs again, threshold {back['threshold']:.4f}")
            return
        if marks or withdraw is not None:
            click.echo("\n".join(_marks_lines(service, withdraw)))
            return
        if missed is not None:
            service.ask_for_missed(missed)
        try:
            given = () if missed is None else ("--missed", missed)
            again = command_line("learn", folder, *given)
            _learn(service, again, dry_run=dry_run, force=force, note=note)
        finally:
            service.drop_missed()
        if not dry_run:
            note_stale(project.recipe / "model.onnx", note)
            note(f"wrote {project.recipe}; go back with: edgeseg learn {folder} --rollback")


def _learn(service: "TeachService", again: str, *, dry_run: bool, force: bool, note: Note) -> None:
    """Show what would be learned, and learn it; `again` is the command that does."""
    preview = service.learn_preview()
    if preview["state"] == "running":
        follow(service, "learn", note=note)
        preview = service.learn_preview()
    click.echo("\n".join(preview_lines(preview)))
    if dry_run:
        note(f"nothing was changed; do it with: {again}")
        return
    if preview["loss"] is not None and preview["loss"]["asks"] and not force:
        note(f"if the parts are really good: {again} --force")
    service.learn(who="supervisor", of=preview["of"], force=force)
    follow(service, "learn", note=note)


def _marks_lines(service: "TeachService", withdraw: str | None) -> Iterator[str]:
    """List the marks; with `withdraw`, those left after an alarm's marks are taken back."""
    if withdraw is not None:
        from edgeseg.teach.feedback import Author

        # A shell has no name, and may do what a supervisor may.
        shell = Author(who="supervisor", name="shell")
        if any(item["id"] == withdraw for item in service.missed_defects()):
            service.withdraw_missed(withdraw, by=shell)
        else:
            service.withdraw(withdraw, by=shell, of=None)
    for item in service.marks():
        words = ", ".join(
            f"{mark['name']} ({mark['who']}): {mark['mark']}" for mark in item["marks"]
        )
        yield f"{item['id']}  {item['said']:<9} {words}"
    missed = service.missed_defects()
    for item in missed:
        who = f"{item['name']} ({item['who']})" if item["known"] else "nobody knows who"
        yield f"{item['id']}  {'missed':<9} {who}: {item['kind']}"
    counts = service.state()["feedback"]
    also = f", {len(missed)} missed defects" if missed else ""
    yield f"{counts['agreed']} agreed, {counts['waiting']} waiting{also}"


def preview_lines(preview: dict[str, Any]) -> Iterator[str]:
    """Lines of a preview: what is learned, what is held back, and what that changes."""
    for item in preview["would_learn"]:
        word = "learn" if item["ignored"] is None else "ignore"
        yield f"{word:<10} {item['name']}  score {item['score']:.4f}  {item['why']}"
    for item in preview["held_back"]:
        yield f"hold back  {item['name']}  {item['reason']}"
    for guard in preview["guards"]:
        yield f"because of {guard['name']}  {_WHERE[guard['kind']]}"
    for name in preview["now_passes"]:
        yield f"now passes {name}"
    for problem in preview["problems"]:
        yield f"refused    {problem}"
    if preview["threshold_new"] is not None:
        found = preview["still_found"]
        yield f"threshold  {preview['threshold_old']:.4f} becomes {preview['threshold_new']:.4f}"
        yield f"found      {found['found']} of {found['of']} known defects, as before"
    if preview["change"] is not None:
        change = preview["change"]
        before, after, known = change["found_before"], change["found_after"], change["known"]
        yield f"defects    {before} of {known} known ones are found, {after} would be"
        yield from (f"           {each['sentence']}" for each in change["kinds"])
        if (others := change["by_others"]) is not None:
            found, tried = others["found"], others["of"]
            yield f"others     {found} of {tried} missed ones are found by what the others teach"
        now, then = change["per_thousand_before"], change["per_thousand_after"]
        parts = change["good_after"]["parts"]
        yield f"alarms     {now:.3g} per thousand good parts, then {then:.3g} ({parts} parts)"
    if preview["loss"] is not None:
        yield f"lost       {preview['loss']['sentence']}"
    yield str(preview["sentence"])
