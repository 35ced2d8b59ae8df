"""One fit of the command line: a dataset, its model, and images that do not belong."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import Note
from edgeseg.cli.data_options import PassOptions
from edgeseg.cli.dataset_jobs import FitOutcome
from edgeseg.cli.fit_settings import FitPlan, FitSettings
from edgeseg.config import FitConfig
from edgeseg.data.samples import Sample
from edgeseg.decision.kinds import Severity
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.process_group import ProcessGroup

if TYPE_CHECKING:
    from edgeseg.data.datasets import Dataset
    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.fitting.screening.screen import Screening
    from edgeseg.model.artefact import Artefact


def settings_of(graph: Path | None) -> FitConfig | None:
    """Return the settings that a backbone's graph brings along; None without a graph."""
    if graph is None:
        return None
    from edgeseg.fitting.graph.backbone_graph import read_facts

    return read_facts(graph).settings


@dataclass(frozen=True, kw_only=True)
class FitJob:
    """Everything that `edgeseg fit` was told, except the folder of images and the model's path."""

    settings: FitSettings
    images: PassOptions
    robust: str | None  # list: name images that do not belong. drop: leave them out as well
    anomalies: tuple[Sample, ...]
    keep_moments: bool
    group: ProcessGroup
    known: tuple[Sample, ...] = ()  # defects to learn from
    severity: tuple[tuple[str, Severity], ...] = ()  # of kinds of them
    kind_order: tuple[str, ...] = ()  # of those whose numbers stay
    planted: int = FitOptions.planted
    smallest: int | None = None  # defect that matters, in pixels of the camera
    closing: bool = False  # say what each rate costs and which images decide the threshold
    report: Path | None = None  # a folder for the same, with pictures
    graph: Path | None = None  # of a backbone, to go through instead of torch
    variants: bool = False  # folders of good images are variants of the product

    def plan(self, data: Path, out: Path, *, layout: str | None, fold: int | None) -> FitPlan:
        """Check settings and paths before the fit begins; a graph brings settings of its own."""
        base = settings_of(self.graph)
        return self.settings.plan(
            data, out, layout=layout, fold=fold, base=base, variants=self.variants
        )

    def options(self) -> FitOptions:
        """Options of the fit, as the library takes them."""
        return replace(
            self.images.fit_options(),
            weights=self.settings.weights,
            keep_moments=self.keep_moments,
            anomalies=self.anomalies,
            known=self.known,
            severity=self.severity,
            kind_order=self.kind_order,
            group=self.group,
            planted=self.planted,
            smallest=self.smallest,
            graph=self.graph,
        )

    def run(self, plan: FitPlan, options: FitOptions, *, note: Note) -> FitOutcome:
        """Fit on one dataset and write the model; of several processes, one does.

        `note` takes a line about each suspect.
        """
        from edgeseg.fitting.checkpoint import discard, parts_of
        from edgeseg.fitting.fitting import fit
        from edgeseg.model.artefact import save_artefact

        started = time.perf_counter()
        checkpoints = self.images.checkpoints(parts_of(plan.out))
        options = replace(options, checkpoints=checkpoints)
        suspects: tuple[str, ...] | None = None

        def screen(space: "FeatureSpace", dataset: "Dataset") -> "Dataset":
            nonlocal suspects
            screening, suspects = self._screen(plan, space, options, note=note)
            return screening.without_suspects(dataset) if self.robust == "drop" else dataset

        artefact = fit(
            plan.dataset, plan.config, options, screen=None if self.robust is None else screen
        )
        if self.robust == "drop":
            artefact = replace(artefact, data=artefact.data | {"left_out": sorted(suspects or ())})
        if options.group.rank == 0:
            save_artefact(artefact, plan.out)
            self._close(artefact, plan.dataset, options)
        discard(options)
        return replace(
            FitOutcome.of(artefact.header(), plan.out, name=plan.dataset.name),
            seconds=time.perf_counter() - started,
            suspects=suspects,
        )

    def _close(self, artefact: "Artefact", dataset: "Dataset", options: FitOptions) -> None:
        """Print and write the report of the fit, where it was asked for."""
        from edgeseg.cli.closing_report import closing_lines, write_report
        from edgeseg.fitting.judge_model import head_predictor
        from edgeseg.fitting.spaces import space_of

        if self.closing:
            for line in closing_lines(artefact):
                options.note(line)
        if self.report is not None:
            predict = head_predictor(space_of(artefact, options), artefact.head())
            written = write_report(artefact, dataset, self.report, predict=predict)
            options.note(f"wrote {' and '.join(map(str, written))}")

    def _screen(
        self, plan: FitPlan, space: "FeatureSpace", options: FitOptions, *, note: Note
    ) -> "tuple[Screening, tuple[str, ...]]":
        """List images that do not belong, draw them, and return their names."""
        from edgeseg.fitting.screening.listing import lines, name_of, write_suspects
        from edgeseg.fitting.screening.screen import FEWEST, MOST_SHARE, screen_in

        screening = screen_in(space, plan.dataset, options)
        names = tuple(name_of(suspect.sample, plan.dataset) for suspect in screening.suspects)
        if screening.images < FEWEST:
            options.note(f"--robust: {screening.images} images, too few to compare with each other")
            return screening, names
        written = write_suspects(screening, plan.dataset, space.config, beside=plan.out)
        for line in lines(screening, plan.dataset):
            note(line)
        share = f"{len(names)} of {screening.images} images"
        options.note(f"{share} do not look like the others; wrote {written[-1]}")
        if self.robust == "drop" and screening.too_many:
            raise EdgesegError(
                f"{plan.dataset.root}: {share} look different, more than {MOST_SHARE:.0%}: rather "
                f"another kind of part than bad images; look at {written[-1]} and fit the kinds "
                "apart, or leave --robust drop out"
            )
        if names and self.robust == "list":
            options.note("fitting on all of them; leave them out with --robust drop")
        elif names:
            # Calibration no longer sees the worst images, be they bad or good ones listed wrongly.
            options.note(
                "leaving them out; the false-alarm rate is then one of images like the others"
            )
        return screening, names
