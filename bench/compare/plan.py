"""The plan of a comparison: models, categories, and the names of their results."""

from dataclasses import dataclass, replace

from edgeseg.bench.compare.candidates import OurModel
from edgeseg.bench.compare.files import backends_of, calibrating_session
from edgeseg.modelfile.precisions import EXACT
from edgeseg.runtime.backends.session_options import AUTO

TIMED_ONLY = "efficientad"  # of the peers: its teacher's weights are not part of anomalib


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A model fitted on a category, with a seed."""

    category: str
    model: OurModel
    seed: int

    @property
    def label(self) -> str:
        """Name in units and folders."""
        return f"{self.category} {self.model.name} seed {self.seed}"

    @property
    def unit(self) -> str:
        """Name of its result."""
        return f"fit {self.label}"


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A file that is exported of a fit."""

    fit: Fit
    precision: str
    session: str  # that calibrates it

    @property
    def unit(self) -> str:
        """Name of its result."""
        return f"export {self.fit.label} {self.precision} {self.session}"

    @property
    def title(self) -> str:
        """Name in tables."""
        return f"{self.fit.model.name} {self.precision}"

    @property
    def file(self) -> str:
        """Name of its file."""
        own = "" if self.session == AUTO else f"-{self.session}"
        return f"{self.precision}{own}.onnx"


def peer_unit(category: str, peer: str) -> str:
    """Name of a peer's result."""
    return f"peer {category} {peer}"


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Everything that a comparison measures."""

    categories: tuple[str, ...]
    models: tuple[OurModel, ...]
    peers: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("cpu",)
    seeds: int = 1
    # tune: by defects planted on good images, in a file for each backend's own session; else by
    # the test images, in the file that is shipped.
    by_planted: bool = False

    def graphs(self, fit: Fit) -> list[Graph]:
        """List the files that are exported of a fit."""
        return [
            Graph(fit=fit, precision=precision, session=session)
            for precision in fit.model.precisions
            for session in dict.fromkeys(
                self.session_for(precision, backend)
                # What none of the backends runs is exported and judged, but not timed.
                for backend in backends_of(precision, self.backends) or (AUTO,)
            )
        ]

    def first_graphs(self) -> list[Graph]:
        """List the files of the first category and seed, which are timed."""
        first = self.categories[0]
        fits = (Fit(category=first, model=model, seed=0) for model in self.models)
        return [graph for fit in fits for graph in self.graphs(fit)]

    def repeats(self, graph: Graph) -> list[list[Graph]]:
        """List a file's repetitions: for every category one for each seed."""
        return [
            [
                replace(graph, fit=replace(graph.fit, category=category, seed=seed))
                for seed in range(self.seeds)
            ]
            for category in self.categories
        ]

    def backends_for(self, graph: Graph) -> list[str]:
        """List the backends that run a file."""
        return [
            backend
            for backend in backends_of(graph.precision, self.backends)
            if self.session_for(graph.precision, backend) == graph.session
        ]

    def session_for(self, precision: str, backend: str) -> str:
        """Session that calibrated the file which a backend runs."""
        return calibrating_session(precision, backend) if self.by_planted else AUTO

    def peers_on(self, category: str) -> tuple[str, ...]:
        """List the peers that run on a category; a peer that is only timed runs on the first."""
        first = category == self.categories[0]
        return tuple(peer for peer in self.peers if first or peer != TIMED_ONLY)

    def judging_backend(self, precision: str) -> str:
        """Backend that judges files on the test images: the first that is timed."""
        return (*backends_of(precision, self.backends), *backends_of(precision))[0]

    def is_judged_in(self, precision: str, backend: str) -> bool:
        """Tell whether the accuracy of a file was measured in this backend.

        Test images are judged in one backend, and only fp32 gives the same in all.
        """
        return self.by_planted or precision == EXACT or backend == self.judging_backend(precision)
