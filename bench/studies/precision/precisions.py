"""What each precision keeps of the accuracy, file by file, in every session that can run it.

    python -m edgeseg.bench.studies.precision.precisions mvtec_ad/bottle mvtec_ad/cable --out out

Each category is fitted once with each backbone and exported as `edgeseg export` does it. A run that
was killed goes on; models are kept in OUT/models and used again for the same settings. With
--rounds the files of the first category are timed, whole and without their heads.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from edgeseg.bench.compare.options import BACKBONES
from edgeseg.bench.compare.trial import backends_of, export_as_shipped, facts_of, measure_file
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.bench.harness.machine import CoreWatch, describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, run_units
from edgeseg.bench.latency.report import runnable, timing_notes
from edgeseg.bench.latency.turns import Schedule
from edgeseg.bench.studies.precision.asked import Asked, asked_options
from edgeseg.bench.studies.precision.head_share import head_rows
from edgeseg.bench.studies.precision.kept_models import kept_fit
from edgeseg.bench.studies.precision.precision_tables import Measured, tables_of
from edgeseg.config import FitConfig
from edgeseg.contract.precisions import PRECISIONS
from edgeseg.data.datasets import Dataset
from edgeseg.errors import ExportError
from edgeseg.files import file_sha256
from edgeseg.fitting.feature_space import with_context
from edgeseg.options import Entry, note
from edgeseg.progress import bar
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import SessionOptions


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured, and where its files are."""

    out: Path
    datasets: tuple[Dataset, ...]
    backbones: tuple[str, ...]
    precisions: tuple[str, ...]
    backends: tuple[str, ...]
    threads: int
    weights: str | None = None
    config: FitConfig = FitConfig()  # noqa: RUF009  # frozen

    def units(self) -> Iterator[Unit]:
        """Backbone by backbone, so that the means of the first are there early."""
        for backbone in self.backbones:
            for dataset in self.datasets:
                for precision in self.precisions:
                    yield self._unit(dataset, backbone, precision)

    def _unit(self, dataset: Dataset, backbone: str, precision: str) -> Unit:
        config = with_context(replace(self.config, backbone=backbone))

        def run() -> Result:
            artefact = kept_fit(dataset, config, self.out / "models", weights=self.weights)
            path = self.file(dataset.name, backbone, precision)
            try:
                exported = export_as_shipped(artefact, dataset, path, precision=precision)
            except ExportError as error:
                return {"refused_all": str(error).replace(f"{path.parent}/", "")}
            accuracy = {
                backend: measure_file(path, dataset, backend=backend, threads=self.threads)
                for backend in backends_of(precision, self.backends)
            }
            return facts_of(exported) | {
                "accuracy": {name: reached.to_dict() for name, reached in accuracy.items()},
                "head_error": {row.backend: row.head_error for row in exported.agreements},
            }

        return Unit(
            name=f"{dataset.name} {backbone} {precision}",
            settings={
                "data": fingerprint(dataset),
                "config": config.to_dict(),
                "backends": list(self.backends),
                "weights": self.weights,
            },
            run=run,
            weight=float(len(dataset.train) + len(dataset.test)),
        )

    def file(self, category: str, backbone: str, precision: str) -> Path:
        """Where an exported graph is kept."""
        return self.out / "models" / f"{category}-{backbone}-{precision}.onnx"

    def head_unit(self, schedule: Schedule) -> Unit:
        """Times of the first category's files, with and without their heads."""
        first = self.datasets[0].name
        names = [f"{backbone} {p}" for backbone in self.backbones for p in self.precisions]
        paths = {name: self.file(first, *name.split()) for name in names}
        files = {name: path for name, path in paths.items() if path.is_file()}
        options = SessionOptions(threads=self.threads)

        def run() -> Result:
            with CoreWatch() as cores:
                rows = head_rows(
                    files,
                    backends=self.backends,
                    schedule=schedule,
                    options=options,
                    progress=bar,
                )
                timed = [asdict(row) for row in rows]
            return {"rows": timed, "cores": {"others": cores.others, "stolen": cores.stolen}}

        hashes = {name: file_sha256(path) for name, path in files.items()}
        settings = {"files": hashes, "schedule": asdict(schedule), "threads": self.threads}
        return Unit(name="rounds", settings=settings | {"backends": list(self.backends)}, run=run)


@click.command()
@asked_options()
@click.option("--backbone", "backbones", multiple=True, default=BACKBONES, show_default=True)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=Entry(PRECISIONS),
    default=tuple(PRECISIONS),
    show_default=True,
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(backend_names()),
    default=("cpu", "openvino"),
    show_default=True,
)
@click.option("--rounds", type=click.IntRange(0), default=0, help="Of timing; 0: none.")
def main(
    asked: Asked,
    backbones: tuple[str, ...],
    precisions: tuple[str, ...],
    backends: tuple[str, ...],
    rounds: int,
) -> None:
    """Measure exported precisions on the categories in DATA, each a folder as MVTec AD has it."""
    import torch

    torch.set_num_threads(asked.threads)
    study = Study(
        out=asked.out,
        datasets=asked.datasets(),
        backbones=backbones,
        precisions=precisions,
        backends=tuple(runnable(backends)),
        threads=asked.threads,
        weights=asked.weights,
    )
    asked.show(run_study(study, Schedule(rounds=rounds) if rounds else None, fresh=asked.fresh))


def run_study(study: Study, schedule: Schedule | None, *, fresh: bool) -> Report:
    """Measure, write the report and return it."""
    store = Store(study.out, fresh=fresh)
    done = run_units(list(study.units()), store, note=note)
    timed = None
    notes = [f"Left out: {name}, {why}." for name, why in _refused(done.results)]
    if schedule is not None:
        timed = run_units([study.head_unit(schedule)], store, note=note)
        notes += timing_notes(timed, note=note)
    measured = Measured(
        categories=tuple(dataset.name for dataset in study.datasets),
        backbones=study.backbones,
        precisions=study.precisions,
        results=done.results,
        heads=timed.results["rounds"]["rows"] if timed else (),
    )
    facts = describe(threads=study.threads, seeds=(study.config.seed,))
    report = Report(
        name="precisions",
        title="Precisions beside fp32, as exported and in the sessions that run them",
        findings=tuple(measured.findings()),
        tables=tuple(tables_of(measured)),
        figures=(),
        facts=facts | {"commits": list(done.commits), "work_seconds": done.seconds},
        notes=tuple(notes),
        raw=done.results | (timed.results if timed else {}),
    )
    write_report(report, study.out)
    return report


def _refused(results: dict[str, Result]) -> Iterator[tuple[str, str]]:
    for name, result in results.items():
        if (why := result.get("refused_all") or result.get(FAILED)) is not None:
            yield name, str(why).rstrip(".")


if __name__ == "__main__":
    main()
