"""A fit of the good pictures, as the child process does it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgeseg.base.errors import UsageError
from edgeseg.base.progress import Progress
from edgeseg.teach import engine
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.teach.reference import reference
from edgeseg.teach.report import write_report
from edgeseg.vision.images import images_in

if TYPE_CHECKING:
    from edgeseg.fitting.options import FitOptions

FEWEST = 5  # good pictures, below which a fit says nothing


class Telling(Protocol):
    """Who hears how far a job is."""

    @property
    def progress(self) -> Progress:
        """Wraps the loops of a fit."""

    def at(self, share: float, sentence: str) -> None:
        """So far."""

    def note(self, text: str) -> None:
        """A line about what is going on."""


def fit(project: Project, folder: Path, telling: Telling) -> dict[str, Any]:
    """A new model of the good pictures, its graph and its report, in a folder."""
    settings = project.settings()
    count = len(images_in(project.pictures("good")))
    if count < FEWEST:
        raise UsageError(
            f"good pictures: {count}, expected {FEWEST} or more to fit on; 60 are a good beginning"
        )
    telling.at(0.01, f"Fitting on {count} good pictures")
    artefact = engine.fit_model(
        project.pictures("good"),
        graph=graph_of(settings),
        reference=reference(project),
        config=settings.config(),
        options=fit_options(telling),
        out=folder / "part.edgeseg",
    )
    telling.at(0.87, "Writing the model")
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    write_report(project, folder, artefact, at=telling.at)
    return {"images": count}


def fit_options(telling: Telling) -> "FitOptions":
    """Let the fit talk to whoever hears of the job."""
    from edgeseg.fitting.options import FitOptions

    return FitOptions(progress=telling.progress, note=telling.note)


def graph_of(settings: ProjectSettings) -> Path | None:
    """The backbone's graph that the project names, if it does."""
    return Path(settings.graph) if settings.graph else None
