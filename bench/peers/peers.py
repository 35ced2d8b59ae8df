"""`edgeseg bench peers`: anomalib's models beside ours, in the same run on the same images.

categories -> images staged once as PNG -> our fit and theirs, each in its own process  (units)
maps and exported graphs of both -> the same metric code                                (units)
the graphs of the first category -> timing in interleaved rounds                        (units)
all of it, by its names -> PeerResults -> rows -> tables, Pareto picture                (report)
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgeseg.artefact.artefact import load_artefact
from edgeseg.bench.compare.options import Recipe
from edgeseg.bench.compare.trial import (
    SHIPPED,
    backends_of,
    export_and_measure,
    onnx_predictor,
)
from edgeseg.bench.harness.accuracy import (
    accuracy_of,
    categories_in,
    fingerprint,
    measure_accuracy,
    open_limited,
)
from edgeseg.bench.harness.fit_worker import fit_in_process
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.staging import Staged, stage
from edgeseg.bench.harness.units import FAILED, Done, Result, Store, Unit, run_units
from edgeseg.bench.latency.report import timing_notes, timing_units
from edgeseg.bench.latency.runners import size_on_disk
from edgeseg.bench.latency.turns import Candidate
from edgeseg.bench.peers.options import PEERS, PeerOptions
from edgeseg.bench.peers.process import PeerRequest, run_peer
from edgeseg.bench.peers.readme import readme_table
from edgeseg.bench.peers.report import NOTES, PeerResults, report_of
from edgeseg.data.datasets import Dataset, open_dataset, read_sample
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.files import write_text
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights import find_weights
from edgeseg.progress import Note, Progress, silent
from edgeseg.runtime.backends.session_options import SessionOptions


def run_peers(
    options: PeerOptions, out: Path, *, fresh: bool, note: Note, progress: Progress = silent
) -> Report:
    """Measure ours and theirs, and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads, seeds=(options.seed,))
    run = PeerRun(options, out)
    store = Store(out, fresh=fresh)
    done = run_units(list(run.units()), store, note=note)
    units = timing_units(
        run.candidates(done),
        schedule=options.schedule,
        options=SessionOptions(threads=options.threads),
        size_hw=options.size_hw,
        progress=progress,
    )
    timed = run_units(units, store, note=note)
    notes = [*NOTES, *timing_notes(timed, note=note)]
    if options.limit is not None:
        notes.append(f"A rehearsal with --limit {options.limit}: no result.")
    categories = tuple(dataset.name for dataset in run.datasets)
    results = PeerResults(options=options, categories=categories, done=done, timed=timed)
    report = report_of(results, out, facts=facts, notes=notes)
    write_report(report, out)
    write_text(out / "readme-table.md", "\n".join(readme_table(report.tables[0])) + "\n")
    return report


class PeerRun:
    """The units of a run with peers, and the files they leave for timing."""

    def __init__(self, options: PeerOptions, out: Path) -> None:
        self.options, self.out = options, out
        self.datasets = [
            open_limited(path, limit=options.limit) for path in categories_in(options.data)
        ]
        spec = backbone_spec(options.backbone)
        self._weights = find_weights(spec, weights=None)

    def units(self) -> Iterator[Unit]:
        """Category by category, ours first; EfficientAD is timed only, so once."""
        for dataset in self.datasets:
            for recipe in self.options.recipes:
                yield self._our_unit(dataset, recipe)
            for peer in self.options.peers:
                if peer != "efficientad" or dataset is self.datasets[0]:
                    yield self._peer_unit(dataset, peer)

    def _our_unit(self, dataset: Dataset, recipe: Recipe) -> Unit:
        options = self.options
        config = recipe.config(seed=options.seed, size_hw=options.size_hw)

        def run() -> Result:
            staged = self._stage(dataset)
            folder = self.folder(dataset.name, recipe.name)
            folder.mkdir(parents=True, exist_ok=True)
            artefact_path = folder / "model.edgeseg"
            cost = fit_in_process(
                {
                    "data": str(staged.root),
                    "config": config.to_dict(),
                    "weights": None,
                    "threads": options.threads,
                    "artefact": str(artefact_path),
                },
                folder,
            )
            models = export_and_measure(
                load_artefact(artefact_path),
                open_dataset(staged.root),
                folder,
                precisions=recipe.precisions,
                threads=options.threads,
                keep=self._is_first(dataset),
            )
            artefact_path.unlink()
            return cost | {"models": models}

        return Unit(
            name=f"{dataset.name} {recipe.name}",
            settings=self._settings(dataset) | {"config": config.to_dict()}
            | {"precisions": list(recipe.precisions), "export": SHIPPED},
            run=run,
            weight=60,
        )  # fmt: skip

    def _peer_unit(self, dataset: Dataset, peer: str) -> Unit:
        options = self.options

        def run() -> Result:
            staged = self._stage(dataset)
            folder = self.folder(dataset.name, peer)
            request = PeerRequest(
                peer=peer,
                data=staged.root,
                weights=self._weights,
                test_images=tuple(path.resolve() for path in staged.test_images),
                backbone=options.backbone,
                size_hw=options.size_hw,
                seed=options.seed,
                coreset=options.coreset,
                threads=options.threads,
            )
            result = run_peer(options.python, request, folder, timeout_s=options.timeout_s)
            if result.get("predicted"):
                result |= self._judge(staged, folder, result)
            if not self._is_first(dataset):
                shutil.rmtree(folder)
            if "error" in result and "fit_s" not in result:
                result[FAILED] = f"{result['step']}: {result['error']}"
            return result

        return Unit(
            name=f"{dataset.name} {peer}",
            settings=self._settings(dataset)
            | {"peer": peer, "backbone": options.backbone, "coreset": options.coreset},
            run=run,
            weight={"padim": 60, "patchcore": 400, "efficientad": 60}[peer],
        )

    def _judge(self, staged: Staged, folder: Path, result: Result) -> Result:
        """Our metric on the peer's raw maps, and on what its exported graph answers."""
        dataset = open_dataset(staged.root)
        order = [sample.image.resolve() for sample in dataset.test]
        if order != [path.resolve() for path in staged.test_images]:
            raise EdgesegError(f"{staged.root}: test images changed while they were measured")
        masks = [read_sample(sample, self.options.size_hw)[1] for sample in dataset.test]
        raw = accuracy_of(
            np.load(folder / "maps.npy"),
            masks,
            np.load(folder / "scores.npy").tolist(),
            staged.labels,
            name=folder.name,
        )
        judged: Result = {"accuracy": raw.to_dict()}
        if "onnx" in result:
            path = folder / result["onnx"]
            predict = onnx_predictor(
                path,
                threads=self.options.threads,
                map_name="anomaly_map",
                score_name="pred_score",
            )
            exported = measure_accuracy(predict, dataset, size_hw=self.options.size_hw)
            judged |= {"exported": exported.to_dict(), "onnx_bytes": size_on_disk(path)}
        return judged

    def candidates(self, done: Done) -> list[Candidate]:
        """Our graphs and theirs in ONNX Runtime, ours and their own IR in OpenVINO."""
        first = self.datasets[0].name
        candidates: list[Candidate] = []
        for recipe in self.options.recipes:
            models = done.results.get(f"{first} {recipe.name}", {}).get("models", {})
            for precision in [p for p in recipe.precisions if FAILED not in models.get(p, {})]:
                path = self.folder(first, recipe.name) / f"{precision}.onnx"
                name = f"edgeseg {recipe.name} {precision}"
                candidates += [
                    Candidate(name=name, path=path, backend=backend)
                    for backend in backends_of(precision)
                ]
        for peer in self.options.peers:
            result = done.results.get(f"{first} {peer}", {})
            for key, backend in (("onnx", "cpu"), ("openvino", "openvino")):
                if key in result:
                    path = self.folder(first, peer) / result[key]
                    candidates.append(Candidate(name=PEERS[peer], path=path, backend=backend))
        gone = [item.path for item in candidates if not item.path.is_file()]
        if gone:
            raise UsageError(f"{gone[0]}: deleted since it was measured; give fresh=True")
        return candidates

    def folder(self, category: str, name: str) -> Path:
        """Where the files of one model lie."""
        return self.out / "models" / category / name.replace(" ", "-")

    def _is_first(self, dataset: Dataset) -> bool:
        return dataset is self.datasets[0]

    def _stage(self, dataset: Dataset) -> Staged:
        root = self.out / "staged" / dataset.name
        return stage(dataset, root, size_hw=self.options.size_hw)

    def _settings(self, dataset: Dataset) -> Result:
        return {
            "data": fingerprint(dataset),
            "size_hw": list(self.options.size_hw),
            "seed": self.options.seed,
            "threads": self.options.threads,
            "first": self._is_first(dataset),
        }
