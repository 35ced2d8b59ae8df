"""The grid of `edgeseg tune`: backbones x precisions x backends, each step kept when it is done.

each backbone -> a few images, fp32, timed: far too slow ones are not fitted     glance
each other one -> fitted on all good images                                      fit
each precision -> exported and verified, judged by the scores the file carries;
    a rounded one for each backend, through the session that will run it         export
all files in all backends -> timed in interleaved rounds                         rounds
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from edgeseg.artefact.artefact import load_artefact, save_artefact
from edgeseg.bench.compare.trial import backends_of, export_as_shipped, facts_of
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.bench.harness.units import Done, Result, Store, Unit, run_units
from edgeseg.bench.latency.report import timing_units
from edgeseg.bench.latency.turns import Candidate, measure_latency
from edgeseg.bench.tune.choice import Judgement
from edgeseg.bench.tune.options import TuneOptions
from edgeseg.config import FitConfig
from edgeseg.contract.precisions import EXACT
from edgeseg.data.datasets import Dataset
from edgeseg.errors import ExportError, UsageError
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import SESSIONS, ExportOptions
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.progress import Note, Progress
from edgeseg.runtime.backends.session_options import AUTO

# No precision here is faster than fp32 by more: what takes longer cannot come within the budget.
MOST_GAIN = 4.0
_GLANCE_IMAGES = 8


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tried, and why the rest is not."""

    backbones: tuple[str, ...]
    precisions: tuple[str, ...]
    backends: tuple[str, ...]
    left_out: tuple[str, ...]  # a sentence each


@dataclass(frozen=True, kw_only=True)
class Found:
    """All results of a search."""

    exported: dict[str, Result]  # by key of candidate: a file in a backend
    timed: Done | None  # None: nothing was exported
    left_out: tuple[str, ...]
    commits: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """The steps of one search, in one folder."""

    options: TuneOptions
    grid: Grid
    dataset: Dataset
    out: Path
    note: Note
    progress: Progress
    done: list[Done] = field(default_factory=list)

    def run(self, store: Store) -> Found:
        """Do what is not done yet."""
        glances = self._units(store, [self._glance(name) for name in self.grid.backbones])
        slow, left_out = self._too_slow(glances), list(self.grid.left_out)
        left_out += slow.values()
        names = [name for name in self.grid.backbones if name not in slow]
        self._units(store, [self._fit(name) for name in names])
        tried = [self._export(*each) for each in self._files(names)]
        results = self._units(store, tried)
        exported = {key: each for each in results.values() for key in self._keys(each)}
        left_out += [sentence for each in results.values() for sentence in _refusals(each)]
        timed = self._time(store, exported) if exported else None
        return Found(
            exported=exported,
            timed=timed,
            left_out=tuple(left_out),
            commits=tuple(sorted({commit for done in self.done for commit in done.commits})),
            seconds=sum(done.seconds for done in self.done),
        )

    def _units(self, store: Store, units: Sequence[Unit]) -> dict[str, Result]:
        if not units:
            return {}
        finished = run_units(units, store, note=self.note)
        self.done.append(finished)
        return {unit.name.partition(" ")[2]: finished.results[unit.name] for unit in units}

    def config(self, backbone: str) -> FitConfig:
        """The settings of a fit."""
        return replace(self.options.config, backbone=backbone)

    def _settings(self, backbone: str) -> Result:
        return {
            "data": fingerprint(self.dataset),
            "config": self.config(backbone).to_dict(),
            "weights": self.options.weights,
        }

    def _glance(self, backbone: str) -> Unit:
        """The time of a model of few images: it depends on their number not at all."""
        options, threads = self.options, self.options.session

        def run() -> Result:
            few = replace(self.dataset, train=self.dataset.train[:_GLANCE_IMAGES])
            fitting = FitOptions(weights=options.weights, keep_moments=False, planted=0)
            artefact = fit(few, replace(self.config(backbone), folds=2), fitting)
            path = self.out / "models" / f"{backbone}-glance.onnx"
            unverified = ExportOptions(verify=False, allow_random_weights=True)
            export_onnx(artefact, path, options=unverified, good=few)
            candidates = [Candidate(name="glance", path=path, backend=b) for b in self._exact()]
            timings = measure_latency(candidates, schedule=options.glance, options=threads)
            path.unlink()
            path.with_suffix(".json").unlink()
            return {
                "ms": {
                    candidate.backend: timing.to_dict(timing)["streamed_ms"]["p50"]
                    for candidate, timing in zip(candidates, timings, strict=True)
                }
            }

        session = {"threads": threads.threads, "spin": threads.spin}
        how = {"session": session, "backends": self._exact()}
        return Unit(
            name=f"glance {backbone}", settings=self._settings(backbone) | how, run=run, weight=1.0
        )

    def _exact(self) -> list[str]:
        return list(self.grid.backends)

    def _too_slow(self, glances: dict[str, Result]) -> dict[str, str]:
        """Backbones that nothing brings within the budget, and a sentence on each."""
        limit = MOST_GAIN * self.options.budget_ms
        fastest = {name: min(glance["ms"].values()) for name, glance in glances.items()}
        return {
            name: f"{name}: not fitted, {ms:.1f} ms in fp32 are more than {MOST_GAIN:g} times the "
            "budget."
            for name, ms in fastest.items()
            if ms > limit
        }

    def _fit(self, backbone: str) -> Unit:
        options = self.options

        def run() -> Result:
            fitting = FitOptions(
                weights=options.weights,
                keep_moments=False,
                planted=options.planted,
                progress=self.progress,
            )
            artefact = fit(self.dataset, self.config(backbone), fitting)
            save_artefact(artefact, self.artefact(backbone))
            return {"images": len(self.dataset.train)}

        settings = self._settings(backbone) | {"planted": options.planted}
        return Unit(name=f"fit {backbone}", settings=settings, run=run, weight=10.0)

    def artefact(self, backbone: str) -> Path:
        """Where a fitted model is kept."""
        return self.out / "models" / f"{backbone}.edgeseg"

    def _files(self, backbones: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Backbone, precision and the session that a graph is calibrated in, of every graph."""
        for backbone in backbones:
            for precision in self.grid.precisions:
                backends = backends_of(precision, self.grid.backends)
                for session in dict.fromkeys(calibrating(precision, each) for each in backends):
                    yield backbone, precision, session

    def _keys(self, exported: Result) -> Iterator[str]:
        """The candidates that run a graph; of one that was refused, none."""
        precision = exported["precision"]
        for backend in backends_of(precision, self.grid.backends) if "form" in exported else ():
            if calibrating(precision, backend) == exported["session"]:
                yield f"{exported['backbone']} {precision} on {backend}"

    def file(self, backbone: str, precision: str, backend: str) -> Path:
        """Where the graph is kept that a backend runs."""
        session = calibrating(precision, backend)
        own = "" if session == AUTO else f"-{session}"
        return self.out / "models" / f"{backbone}-{precision}{own}.onnx"

    def _export(self, backbone: str, precision: str, session: str) -> Unit:
        def run() -> Result:
            path = self.file(backbone, precision, session)
            facts: Result = {"backbone": backbone, "precision": precision, "session": session}
            artefact = load_artefact(_there(self.artefact(backbone)))
            try:
                exported = export_as_shipped(
                    artefact, self.dataset, path, precision=precision, backend=session
                )
            except ExportError as error:
                path.with_name(f"{path.name}.failed").unlink(missing_ok=True)
                return facts | {"why": str(error).replace(f"{path.parent}/", "")}
            judged = asdict(Judgement.of(exported.metadata))
            return facts | facts_of(exported) | {"judged": judged}

        settings = self._settings(backbone) | {
            "planted": self.options.planted,
            "precision": precision,
            "session": session,
        }
        name = f"export {backbone} {precision} {session}"
        return Unit(name=name, settings=settings, run=run, weight=10.0)

    def _time(self, store: Store, exported: dict[str, Result]) -> Done:
        candidates = []
        for key in exported:
            name, _, backend = key.rpartition(" on ")
            backbone, precision = name.split(" ")
            path = _there(self.file(backbone, precision, backend))
            candidates.append(Candidate(name=name, path=path, backend=backend))
        rounds, *_ = timing_units(
            candidates,
            schedule=self.options.schedule,
            options=self.options.session,
            size_hw=self.options.config.size_hw,
            progress=self.progress,
        )
        timed = run_units([rounds], store, note=self.note)
        self.done.append(timed)
        return timed


def calibrating(precision: str, backend: str) -> str:
    """The session that a file for a backend is calibrated in.

    fp32 is the same in all, and an export has no session of a GPU: those get what is shipped.
    """
    return backend if precision != EXACT and backend in SESSIONS else AUTO


def _there(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"{path}: deleted since it was made; give fresh=True to start again")
    return path


def _refusals(result: Result) -> Iterator[str]:
    own = "" if result["session"] == AUTO else f" for {result['session']}"
    name = f"{result['backbone']} {result['precision']}{own}"
    if "why" in result:
        yield f"{name}: refused, {result['why'].rstrip('.')}."
    for form, failures in result.get("refused", {}).items():
        yield f"{name}: not with {form}, which does not decide as fp32 ({'; '.join(failures)})."
