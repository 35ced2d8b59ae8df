"""A fit of the good pictures, as the child process does it."""

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


class Telling(Listener, Protocol):
    """Who hears how far a job is."""

    def at(self, share: float, sentence: Message) -> None:
        """So far."""


def fit(project: Project, folder: Path, telling: Telling) -> dict[str, Any]:
    """A new model of the good pictures, its graph and its report, in a folder."""
    settings = project.settings()
    count = len(images_in(project.pictures("good")))
    if count < FEWEST:
        raise UsageError(Message("fit_few", n=count, n_few=FEWEST))
    telling.at(0.01, Message("fit_begins", n=count))
    artefact = engine.fit_model(
        project.pictures("good"),
        graph=graph_of(settings),
        reference=reference(project),
        config=settings.config(),
        options=fit_options(telling),
        out=folder / "part.edgeseg",
    )
    telling.at(0.87, Message("work_writing"))
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    write_report(project, folder, artefact, at=telling.at)
    return {"images": count}


def fit_options(telling: Telling) -> "FitOptions":
    """Let the fit talk to whoever hears of the job."""
    from edgeseg.fitting.options import FitOptions

    return FitOptions(progress=telling.progress, note=telling.note, listener=telling)


def graph_of(settings: ProjectSettings) -> Path | None:
    """The backbone's graph that the project names, if it does."""
    return Path(settings.graph) if settings.graph else None
