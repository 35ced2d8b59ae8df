"""The fit of the good pictures, in the child process."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.messages import Message
from edgeseg.data.samples import Sample
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach import engine
from edgeseg.teach.job_progress import JobProgress
from edgeseg.teach.missed import learned_defects
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.teach.reference import reference
from edgeseg.teach.report import write_report
from edgeseg.vision.images import images_in

if TYPE_CHECKING:
    from edgeseg.fitting.options import FitOptions
    from edgeseg.model.artefact import Artefact

FEWEST = 5  # good pictures, below which a fit says nothing


def fit_costs(images: int) -> dict[str, float]:
    """Return the stages of a fit, and what each costs with so many pictures."""
    return {
        "fit_begins": 0.5,
        "work_fitting": 0.03 * images,
        "work_planting": 2.0,
        "work_calibrating": 15.0,
        "work_writing": 1.5,
        "work_looking": 1.0,
    }


def fit(project: Project, folder: Path, job: JobProgress) -> dict[str, Any]:
    """Fit a model of the good pictures, and write it with graph and report into a folder."""
    count = len(images_in(project.pictures("good")))
    if count < FEWEST:
        raise UsageError(Message("fit_few", n=count, n_few=FEWEST))
    job.plan(fit_costs(count))
    fit_good(project, folder, job)
    return {"images": count}


def fit_good(
    project: Project, folder: Path, job: JobProgress, *, missed: Sequence[Sample] = ()
) -> "Artefact":
    """Fit on the good pictures, the learned missed defects and more of them; report in a folder."""
    settings, known = project.settings(), (*learned_defects(project), *missed)
    severity, kinds = settings.severity, {each.kind for each in known}
    job.at("fit_begins", Message("fit_begins", n=len(images_in(project.pictures("good")))))
    artefact = engine.fit_model(
        project.pictures("good"),
        graph=graph_of(settings),
        reference=reference(project),
        config=settings.config(),
        options=replace(
            fit_options(job),
            known=known,
            severity=tuple((kind, each) for kind, each in severity.items() if kind in kinds),
            kind_order=_numbered_kinds(project),
            smallest=settings.region.smallest or None,
        ),
        out=folder / "part.edgeseg",
    )
    job.at("work_writing", Message("work_writing"))
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    write_report(project, folder, artefact, job=job)
    return artefact


def _numbered_kinds(project: Project) -> tuple[str, ...]:
    """Return the kinds of the model that runs, in the order of their numbers: a PLC knows them."""
    kinds = None
    with suppress(EdgesegError):  # none, or a damaged one, which gives no numbers
        kinds = file_metadata(project.recipe / "model.onnx").kinds
    return () if kinds is None else kinds.names


def fit_options(job: JobProgress) -> "FitOptions":
    """Make the options of a fit that reports its progress."""
    from edgeseg.fitting.options import FitOptions

    return FitOptions(progress=job.progress, note=job.note, listener=job)


def graph_of(settings: ProjectSettings) -> Path | None:
    """Path of the backbone's graph that the project names; None if it names none."""
    return Path(settings.graph) if settings.graph else None
