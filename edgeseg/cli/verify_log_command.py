"""`edgeseg verify-log`: whether a chained event log is as it was written."""

from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE, note
from edgeseg.runtime.sinks.hash_chain import head_path, parts_of, read_head
from edgeseg.runtime.sinks.log_check import check_log

_SHOWN = 20


@click.command("verify-log")
@click.argument("logs", type=FILE, nargs=-1, required=True)
@click.option("--head", type=FILE, help="A copy of the head; default: LOG.head, if it is there.")
@click.pass_context
def verify_log(ctx: click.Context, logs: tuple[Path, ...], head: Path | None) -> None:
    """Say whether a chained event log was altered, cut or reordered, and where.

    LOGS are files of `stream --events-chain`. One is read with the parts that it was rotated into;
    several are read in the order given, oldest first. Exit code 1 if something is wrong.

    \b
    edgeseg verify-log events.jsonl
    edgeseg verify-log events.jsonl --head copy-kept-elsewhere/events.jsonl.head
    """
    parts = (parts_of(logs[0]) or [logs[0]]) if len(logs) == 1 else list(logs)
    for path in parts:
        if not path.is_file():
            raise UsageError(f"{path}: no such file; expected a log of `stream --events-chain`")
    told = read_head(head_path(logs[-1]) if head is None else head)
    if head is not None and told is None:
        raise UsageError(
            Setting("head", head), ": cannot be read; expected the .head file of a log"
        )
    check = check_log(parts, told)
    for text in check.notes:
        note(text)
    for problem in check.problems[:_SHOWN]:
        click.echo(str(problem))
    if len(check.problems) > _SHOWN:
        click.echo(f"and {len(check.problems) - _SHOWN} more")
    if not check.whole:
        ctx.exit(1)
    click.echo(f"{check.lines} lines in {len(parts)} files: as they were written")
