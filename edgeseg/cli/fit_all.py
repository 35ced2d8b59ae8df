"""`edgeseg fit --all`: every dataset below a folder, and a table of the results."""

import json
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from edgeseg.base.errors import ArtefactError, EdgesegError, UsageError
from edgeseg.base.options import command_line, say_options
from edgeseg.cli.dataset_jobs import DatasetJob, FitOutcome, datasets_below, table
from edgeseg.cli.fit_job import FitJob
from edgeseg.data.datasets import LAYOUTS
from edgeseg.fitting.options import FitOptions
from edgeseg.modelfile.header import read_header
from edgeseg.vision.images import images_in


def fit_all(job: FitJob, root: Path, models: Path, *, skip_existing: bool, as_json: bool) -> None:
    """Fit on every dataset below a folder; the exit code is 1 if one of them failed."""
    job.settings.config()  # a wrong setting is wrong for all of them
    datasets = datasets_below(root, models, layout=job.images.layout)
    fold = job.images.fold
    if fold is not None and not any(_has_folds(dataset) for dataset in datasets):
        raise UsageError(f"--fold {fold}: none of these {len(datasets)} datasets has folds")
    options = job.options()
    loose = images_in(root)
    if loose:
        options.note(
            f"{len(loose)} pictures in {root} itself belong to none of its folders: left alone"
        )
    outcomes = list(_run_all(job, options, datasets, skip_existing=skip_existing))
    records = [outcome.to_dict() for outcome in outcomes]
    click.echo(json.dumps(records, indent=2) if as_json else table(outcomes))
    written = sum(outcome.seconds is not None for outcome in outcomes)
    failed = [outcome.name for outcome in outcomes if outcome.error is not None]
    if failed:
        options.note(
            f"wrote {written} models into {models}; failed: {', '.join(failed)}; "
            "next: the same command with --skip-existing"
        )
        click.get_current_context().exit(1)
    following = command_line("info", outcomes[0].model)
    options.note(f"wrote {written} models into {models}; next: {following}")


def _run_all(
    job: FitJob, options: FitOptions, datasets: Sequence[DatasetJob], *, skip_existing: bool
) -> Iterator[FitOutcome]:
    """Fit on every dataset; what fails is reported and does not stop the others."""
    say, note = say_options(click.get_current_context().command.params), options.note
    for number, dataset in enumerate(datasets, start=1):
        note(f"{dataset.name} ({number} of {len(datasets)})")
        try:
            outcome = (
                _outcome_of_existing(dataset) if skip_existing and dataset.model.exists() else None
            )
            if outcome is None:
                plan = job.plan(
                    dataset.data,
                    dataset.model,
                    layout=job.images.layout,
                    fold=job.images.fold if _has_folds(dataset) else None,
                )
                outcome = replace(job.run(plan, options, note=note), name=dataset.name)
        except Exception as error:
            # A bug on one dataset must not lose the models of all others; it keeps its traceback.
            if not isinstance(error, EdgesegError | OSError):
                note(traceback.format_exc())
            reason = error.text(say) if isinstance(error, EdgesegError) else repr(error)
            outcome = FitOutcome(name=dataset.name, error=" ".join(reason.split()))
            note(f"{dataset.name} failed: {outcome.error}")
        yield outcome


def _has_folds(dataset: DatasetJob) -> bool:
    return dataset.layout is not None and LAYOUTS[dataset.layout].folds > 0


def _outcome_of_existing(dataset: DatasetJob) -> FitOutcome | None:
    """Read the outcome of a model that exists already; None if its file cannot be read."""
    try:
        header = read_header(dataset.model)
    except ArtefactError:
        return None
    return FitOutcome.of(header, dataset.model, name=dataset.name)
