"""A fit as the command line asks for it, for one dataset or for each of many."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeseg.artefact.artefact import read_header, save_artefact
from edgeseg.cli.dataset_jobs import Outcome, Place
from edgeseg.cli.fit_command import parts_of
from edgeseg.cli.settings import cut_into_tiles, read_settings
from edgeseg.config import FitConfig
from edgeseg.data.datasets import LAYOUTS, Dataset, open_dataset
from edgeseg.errors import ArtefactError, EdgesegError, UsageError
from edgeseg.files import check_writable
from edgeseg.fitting.checkpoint import discard
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Checkpoints, FitOptions
from edgeseg.fitting.screening.listing import lines, name_of, write_suspects
from edgeseg.fitting.screening.screen import FEWEST, MOST_SHARE, Screening, screen


@dataclass(frozen=True, kw_only=True)
class FitJob:
    """All that was asked for, apart from where the images are and where the model goes."""

    preset: str
    settings: dict[str, Any]
    layout: str | None
    fold: int | None
    robust: str | None  # list: name images that do not belong. drop: leave them out as well
    resume: bool
    checkpoint_seconds: float
    options: FitOptions
    show: Callable[[str], None]  # takes a line about each suspect

    def __post_init__(self) -> None:
        if self.robust is not None and self.options.group.size > 1:
            raise UsageError("--robust compares images in one process; run it without torchrun")

    def run(self, data: Path, out: Path) -> Outcome:
        """Fit on one dataset and write the model; of several processes, one does."""
        started = time.perf_counter()
        config = read_settings(self.preset, self.settings)
        check_writable(out)
        dataset = open_dataset(data, layout=self.layout, fold=self.fold, seed=config.seed)
        config = cut_into_tiles(config, self.settings, dataset)
        checkpoints = Checkpoints(
            folder=parts_of(out), resume=self.resume, seconds=self.checkpoint_seconds
        )
        options = replace(self.options, checkpoints=checkpoints)
        for line in dataset.notes:
            options.note(line)
        suspects = None
        if self.robust is not None:
            screening = self._screen(dataset, config, out=out)
            suspects = tuple(name_of(found.sample, dataset) for found in screening.suspects)
            if self.robust == "drop":
                dataset = screening.without_suspects(dataset)
        artefact = fit(dataset, config, options)
        if self.robust == "drop":
            artefact = replace(artefact, data=artefact.data | {"left_out": sorted(suspects or ())})
        if options.group.rank == 0:
            save_artefact(artefact, out)
        discard(options)
        return replace(
            _outcome(artefact.header(), out, name=dataset.name),
            seconds=time.perf_counter() - started,
            suspects=suspects,
        )

    def _screen(self, dataset: Dataset, config: FitConfig, *, out: Path) -> Screening:
        """List images that do not belong, with pictures."""
        note = self.options.note
        screening = screen(dataset, config, self.options)
        if screening.images < FEWEST:
            note(f"--robust: {screening.images} images, too few to compare with each other")
            return screening
        written = write_suspects(screening, dataset, config, beside=out)
        for line in lines(screening, dataset):
            self.show(line)
        found = len(screening.suspects)
        note(
            f"{found} of {screening.images} images do not look like the others; wrote {written[-1]}"
        )
        if self.robust == "drop" and screening.too_many:
            raise EdgesegError(
                f"{dataset.root}: {found} of {screening.images} images look different, more than "
                f"{MOST_SHARE:.0%}: rather another kind of part than bad images; look at "
                f"{written[-1]} and fit the kinds apart, or leave --robust drop out"
            )
        if found and self.robust == "list":
            note("fitting on all of them; leave them out with --robust drop")
        elif found:
            # Calibration no longer sees the worst images, be they bad or good ones listed wrongly.
            note("leaving them out; the false-alarm rate is then one of images like the others")
        return screening


def run_all(job: FitJob, places: Sequence[Place], *, skip_existing: bool) -> Iterator[Outcome]:
    """Fit on every dataset; what fails is reported and does not stop the others."""
    if job.fold is not None and not any(_has_folds(place) for place in places):
        raise UsageError(f"--fold {job.fold}: none of these {len(places)} datasets has folds")
    note = job.options.note
    for number, place in enumerate(places, start=1):
        note(f"{place.name} ({number} of {len(places)})")
        try:
            outcome = _kept(place) if skip_existing and place.model.exists() else None
            if outcome is None:
                mine = replace(job, fold=job.fold if _has_folds(place) else None)
                outcome = replace(mine.run(place.data, place.model), name=place.name)
        except Exception as error:
            # A bug on one dataset must not lose the models of all others; it keeps its traceback.
            if not isinstance(error, EdgesegError | OSError):
                note(traceback.format_exc())
            reason = str(error) if isinstance(error, EdgesegError) else repr(error)
            outcome = Outcome(name=place.name, error=" ".join(reason.split()))
            note(f"{place.name} failed: {outcome.error}")
        yield outcome


def _has_folds(place: Place) -> bool:
    return place.layout is not None and LAYOUTS[place.layout].folds > 0


def _kept(place: Place) -> Outcome | None:
    """What a model that is there already says of itself; None if it cannot be read."""
    try:
        return _outcome(read_header(place.model), place.model, name=place.name)
    except ArtefactError:
        return None


def _outcome(header: dict[str, Any], out: Path, *, name: str) -> Outcome:
    calibration = header["calibration"]
    return Outcome(
        name=name,
        model=str(out),
        images=header["data"]["fitted"],
        threshold=calibration["score_threshold"],
        false_alarm_rate=calibration["answered_rate"],
        size_bytes=out.stat().st_size,
    )
