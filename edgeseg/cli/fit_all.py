"""`edgeseg fit --all`: every dataset below a folder, and a table of what became of them."""

import json
from pathlib import Path

import click

from edgeseg.cli.dataset_jobs import datasets_below, table
from edgeseg.cli.fit_job import FitJob, run_all
from edgeseg.data.layouts import images_in
from edgeseg.errors import UsageError


def check_out(data: Path, out: Path, *, every: bool, skip_existing: bool) -> None:
    """Refuse a result in the wrong place before anything is computed."""
    if skip_existing and not every:
        raise UsageError("--skip-existing is for many datasets; add --all")
    if not every and out.is_dir():
        raise UsageError(
            f"--out {out}: a folder; expected a file such as {out / data.name}.edgeseg, or --all"
        )


def fit_all(job: FitJob, root: Path, models: Path, *, skip_existing: bool, as_json: bool) -> None:
    """Fit on every dataset below a folder; the exit code is 1 if one of them failed."""
    note = job.options.note
    if job.options.group.size > 1:
        raise UsageError("--all runs in one process; run it without torchrun")
    if job.options.anomalies:
        raise UsageError("--anomalies are of one kind of part; fit on that dataset without --all")
    places = datasets_below(root, models, layout=job.layout)
    loose = images_in(root)
    if loose:
        note(f"{len(loose)} pictures in {root} itself belong to none of its folders: left alone")
    outcomes = list(run_all(job, places, skip_existing=skip_existing))
    records = [outcome.to_dict() for outcome in outcomes]
    click.echo(json.dumps(records, indent=2) if as_json else table(outcomes))
    written = sum(outcome.seconds is not None for outcome in outcomes)
    failed = [outcome.name for outcome in outcomes if outcome.error is not None]
    if failed:
        note(
            f"wrote {written} models into {models}; failed: {', '.join(failed)}; "
            "next: the same command with --skip-existing"
        )
        click.get_current_context().exit(1)
    note(f"wrote {written} models into {models}; next: edgeseg info {outcomes[0].model}")
