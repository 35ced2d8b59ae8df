"""The work of a comparison: fit, export and judge models, then time all files.

categories x models x seeds -> fitted                                              (fit units)
each fit x precisions -> exported as shipped, judged                            (export units)
categories x peers -> fitted, asked and exported by anomalib in its process       (peer units)
the files of the first category in all backends -> interleaved rounds           (timing units)
everything, by its names -> Record

Each unit is kept when it is done, so that a run goes on where it was stopped.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note, Progress, silent
from edgeseg.bench.compare.candidates import PEERS, PeerOptions
from edgeseg.bench.compare.files import REFUSED, draw_decisions, export_and_judge, peer_predictor
from edgeseg.bench.compare.peer_process import PeerRequest, run_peer
from edgeseg.bench.compare.plan import ComparisonPlan, Fit, Graph, peer_unit
from edgeseg.bench.compare.record import Record
from edgeseg.bench.harness.accuracy import accuracy_of, fingerprint, measure_accuracy
from edgeseg.bench.harness.fit_worker import FitWorkerRequest, fit_in_process
from edgeseg.bench.harness.units import FAILED, Result, Store, Unit, UnitResults, run_units
from edgeseg.bench.latency.runners import size_on_disk
from edgeseg.bench.latency.timing import timing_units
from edgeseg.bench.latency.turns import LatencyCandidate, Schedule
from edgeseg.data.datasets import Dataset, read_sample
from edgeseg.fitting.fitting import FitOptions
from edgeseg.fitting.fitting import fit as fit_model
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights import find_weights
from edgeseg.runtime.backends.session_options import SessionOptions

SHIPPED = "verified"  # in a unit's settings: the file that `edgeseg export` writes


@dataclass(frozen=True, kw_only=True)
class ComparisonWork:
    """The units of a plan in one folder, and the files that they leave for timing."""

    plan: ComparisonPlan
    datasets: Sequence[Dataset]  # of the plan's categories
    out: Path
    session: SessionOptions
    peers: PeerOptions | None = None
    weights: str | None = None
    planted: int | None = None  # defects to judge by, where the plan judges by them
    progress: Progress = silent
    size_hw: tuple[int, int] = (256, 256)

    def measure(
        self, store: Store, *, schedule: Schedule, note: Note, cold_starts: bool = True
    ) -> Record:
        """Run the units that have no result yet, and return all results."""
        done = run_units(list(self.units()), store, note=note)
        candidates = self.candidates(done)
        if not candidates:
            return Record(
                plan=self.plan, done=done, timed=UnitResults(results={}, commits=(), seconds=0)
            )
        units = timing_units(
            candidates,
            schedule=schedule,
            options=self.session,
            size_hw=self.size_hw,
            progress=self.progress,
            cold_starts=cold_starts,
        )
        return Record(plan=self.plan, done=done, timed=run_units(units, store, note=note))

    def units(self) -> Iterator[Unit]:
        """List the units, category by category, our models first."""
        for category in self.plan.categories:
            for model in self.plan.models:
                for seed in range(self.plan.seeds):
                    fit = Fit(category=category, model=model, seed=seed)
                    yield self._fit_unit(fit)
                    yield from map(self._file_unit, self.plan.graphs(fit))
            if self.peers is not None:
                for peer in self.plan.peers_on(category):
                    yield self._peer_unit(category, peer, self.peers)

    def _dataset(self, category: str) -> Dataset:
        return self.datasets[self.plan.categories.index(category)]

    def _is_timed(self, category: str, seed: int = 0) -> bool:
        """Tell whether files of this fit are timed: one category is enough, graphs are alike."""
        return category == self.plan.categories[0] and seed == 0

    def _settings(self, fit: Fit) -> Result:
        return {
            "data": fingerprint(self._dataset(fit.category)),
            "config": fit.model.config_for(fit.seed).to_dict(),
            "weights": self.weights,
            "planted": self.planted,
        }

    def _fit_unit(self, fit: Fit) -> Unit:
        # Beside peers its seconds are compared.
        threads = {"threads": self.session.thread_count} if self.plan.peers else {}
        return Unit(
            name=fit.unit,
            settings=self._settings(fit) | threads,
            run=lambda: self._fit(fit),
            weight=len(self._dataset(fit.category).train),
        )

    def _fit(self, fit: Fit) -> Result:
        """Fit and save; beside peers in a process of its own, for its seconds and its memory."""
        dataset, config = self._dataset(fit.category), fit.model.config_for(fit.seed)
        path = self._artefact_path(fit)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.plan.peers:
            request = FitWorkerRequest(
                data=dataset.root,
                config=config,
                weights=self.weights,
                threads=self.session.thread_count,
                artefact=path,
            )
            return fit_in_process(request, path.parent)
        options = FitOptions(
            weights=self.weights,
            keep_moments=False,
            planted=FitOptions.planted if self.planted is None else self.planted,
            progress=self.progress,
        )
        save_artefact(fit_model(dataset, config, options), path)
        return {"images": len(dataset.train)}

    def _file_unit(self, graph: Graph) -> Unit:
        dataset = self._dataset(graph.fit.category)
        how = {
            "precision": graph.precision,
            "session": graph.session,
            "export": SHIPPED,
            "judged_in": self._judging_backend(graph),
            "kept": self._is_timed(graph.fit.category, graph.fit.seed),
        }
        return Unit(
            name=graph.unit,
            settings=self._settings(graph.fit) | how,
            run=lambda: self._export(graph),
            weight=len(dataset.train) / 4 + len(dataset.test),
        )

    def _export(self, graph: Graph) -> Result:
        fit, path = graph.fit, self.path(graph)
        dataset, artefact = self._dataset(fit.category), self._artefact(fit)
        backend = self._judging_backend(graph)
        result = export_and_judge(
            artefact,
            dataset,
            path,
            precision=graph.precision,
            session=graph.session,
            judging_backend=backend,
            options=self.session,
        )
        shown = graph == self.plan.first_graphs()[0] and REFUSED not in result
        if backend is not None and shown:
            target = self.out / f"examples-{fit.category}.png"
            draw_decisions(artefact, path, dataset, target, backend=backend)
        if not self._is_timed(fit.category, fit.seed):
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
        # All artefacts of a large data set would fill a disk; a search has one of each backbone.
        if not self.plan.by_planted and graph == self.plan.graphs(fit)[-1]:
            self._artefact_path(fit).unlink(missing_ok=True)
        return result

    def _judging_backend(self, graph: Graph) -> str | None:
        return None if self.plan.by_planted else self.plan.judging_backend(graph.precision)

    def _artefact(self, fit: Fit) -> Artefact:
        """Load the fitted model; fit again if its file was deleted since."""
        path = self._artefact_path(fit)
        if not path.is_file():
            self._fit(fit)
        return load_artefact(path)

    def _peer_unit(self, category: str, peer: str, options: PeerOptions) -> Unit:
        dataset = self._dataset(category)
        common = {
            "data": fingerprint(dataset),
            "size_hw": list(self.size_hw),
            "threads": self.session.thread_count,
            "first": self._is_timed(category),
        }
        return Unit(
            name=peer_unit(category, peer),
            settings=common
            | {"peer": peer, "backbone": options.backbone, "coreset": options.coreset},
            run=lambda: self._run_peer(category, peer, options),
            # Most of the time of PatchCore is its coreset.
            weight=len(dataset.train) * (7 if peer == "patchcore" else 1),
        )

    def _run_peer(self, category: str, peer: str, options: PeerOptions) -> Result:
        dataset, folder = self._dataset(category), self._folder(category, peer)
        request = PeerRequest(
            peer=peer,
            data=dataset.root,
            weights=find_weights(backbone_spec(options.backbone), weights=None),
            test_images=tuple(sample.image.resolve() for sample in dataset.test),
            backbone=options.backbone,
            size_hw=self.size_hw,
            coreset=options.coreset,
            threads=self.session.thread_count,
        )
        result = run_peer(options.python, request, folder, timeout_s=options.timeout_s)
        if result.get("predicted"):
            result |= self._judge_peer(dataset, folder, result)
        if not self._is_timed(category):
            shutil.rmtree(folder)
        if "error" in result and "fit_s" not in result:
            result[FAILED] = f"{result['step']}: {result['error']}"
        return result

    def _judge_peer(self, dataset: Dataset, folder: Path, result: Result) -> Result:
        """Measure the peer's raw maps and its exported graph with our metric code."""
        raw = accuracy_of(
            np.load(folder / "maps.npy"),
            [read_sample(sample, self.size_hw)[1] for sample in dataset.test],
            np.load(folder / "scores.npy").tolist(),
            [sample.label for sample in dataset.test],
            name=folder.name,
        )
        judged: Result = {"accuracy": raw.to_dict()}
        if "onnx" in result:
            path = folder / result["onnx"]
            predict = peer_predictor(path, threads=self.session.thread_count)
            exported = measure_accuracy(predict, dataset, size_hw=self.size_hw)
            judged |= {"exported": exported.to_dict(), "onnx_bytes": size_on_disk(path)}
        return judged

    def candidates(self, done: UnitResults) -> list[LatencyCandidate]:
        """List what is timed: graphs of the first category in every backend, and peers' files."""
        first = self.plan.categories[0]
        candidates = [
            LatencyCandidate(name=graph.title, path=self.path(graph), backend=backend)
            for graph in self.plan.first_graphs()
            for backend in self.plan.backends_for(graph)
            if REFUSED not in done.results[graph.unit]
        ]
        for peer in self.plan.peers:
            result = done.results[peer_unit(first, peer)]
            for key, backend in (("onnx", "cpu"), ("openvino", "openvino")):
                if key in result:
                    path = self._folder(first, peer) / result[key]
                    candidates.append(
                        LatencyCandidate(name=PEERS[peer], path=path, backend=backend)
                    )
        gone = [item.path for item in candidates if not item.path.is_file()]
        if gone:
            raise UsageError(
                f"{gone[0]}: deleted since it was made; give ",
                Setting("fresh", True),
                " to start again",
            )
        return candidates

    def _folder(self, category: str, name: str) -> Path:
        return self.out / "models" / category / name.replace(" ", "-")

    def _artefact_path(self, fit: Fit) -> Path:
        return self._folder(fit.category, f"{fit.model.name} seed{fit.seed}") / "model.edgeseg"

    def path(self, graph: Graph) -> Path:
        """Path of an exported file."""
        return self._artefact_path(graph.fit).with_name(graph.file)
