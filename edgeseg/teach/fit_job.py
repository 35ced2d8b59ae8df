"""The fit of the good pictures, in the child process."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.base.progress import Listener
from edgeseg.teach import engine
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.teach.reference import reference
from edgeseg.teach.report import write_report
from edgeseg.vision.images import images_in

if TYPE_CHECKING:
    from edgeseg.fitting.options import FitOptions

FEWEST = 5  # good pictures, below which a fit says nothing


class JobProgress(Listener, Protocol):
    """Receives the progress and the notes of a job."""

    def at(self, share: float, sentence: Message) -> None:
        """Report the share that is done."""


def fit(project: Project, folder: Path, job: JobProgress) -> dict[str, Any]:
    """Fit a model of the good pictures, and write it with graph and report into a folder."""
    settings = project.settings()
    count = len(images_in(project.pictures("good")))
    if count < FEWEST:
        raise UsageError(Message("fit_few", n=count, n_few=FEWEST))
    job.at(0.01, Message("fit_begins", n=count))
    artefact = engine.fit_model(
        project.pictures("good"),
        graph=graph_of(settings),
        reference=reference(project),
        config=settings.config(),
        options=fit_options(job),
        out=folder / "part.edgeseg",
    )
    job.at(0.87, Message("work_writing"))
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    write_report(project, folder, artefact, at=job.at)
    return {"images": count}


def fit_options(job: JobProgress) -> "FitOptions":
    """Make the options of a fit that reports its progress."""
    from edgeseg.fitting.options import FitOptions

    return FitOptions(progress=job.progress, note=job.note, listener=job)


def graph_of(settings: ProjectSettings) -> Path | None:
    """Path of the backbone's graph that the project names; None if it names none."""
    return Path(settings.graph) if settings.graph else None
