"""`edgeseg bench peers`: anomalib's models beside ours, in the same run on the same images."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgeseg.artefact.artefact import load_artefact
from edgeseg.bench.compare.trial import Recipe, export_and_measure, onnx_predictor
from edgeseg.bench.harness.accuracy import accuracy_of, categories_in, fingerprint, measure_accuracy
from edgeseg.bench.harness.accuracy import open_limited as open_cut
from edgeseg.bench.harness.staging import Staged, stage
from edgeseg.bench.harness.units import FAILED, Done, Result, Unit
from edgeseg.bench.latency.runners import size_on_disk
from edgeseg.bench.latency.turns import Candidate, Schedule
from edgeseg.bench.peers.fit_worker import fit_in_process
from edgeseg.bench.peers.process import PEERS, PeerRequest, run_peer
from edgeseg.data.datasets import Dataset, open_dataset, read_sample
from edgeseg.errors import EdgesegError, UsageError
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.weights import find_weights

TITLES = {
    "padim": "anomalib PaDiM",
    "patchcore": "anomalib PatchCore",
    "efficientad": "anomalib EfficientAD-S",
}


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """Who is measured, and with what."""

    data: Path
    python: Path  # an interpreter that can import anomalib
    peers: tuple[str, ...] = PEERS
    recipes: tuple[Recipe, ...] = ()
    backbone: str = "resnet18"  # of the peers
    coreset: float = 0.01  # of PatchCore
    size_hw: tuple[int, int] = (256, 256)
    seed: int = 0
    limit: int | None = None
    threads: int = 2
    timeout_s: int = 7200  # for one peer on one category
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        unknown = set(self.peers) - set(PEERS)
        if unknown:
            raise UsageError(f"peers {sorted(unknown)}: expected some of {PEERS}")


class PeerRun:
    """The units of a run with peers, and the files they leave for timing."""

    def __init__(self, options: PeerOptions, out: Path) -> None:
        self.options, self.out = options, out
        self.datasets = [
            open_cut(path, limit=options.limit) for path in categories_in(options.data)
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
            | {"precisions": list(recipe.precisions)},
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
        found: Result = {"accuracy": raw.to_dict()}
        if "onnx" in result:
            path = folder / result["onnx"]
            predict = onnx_predictor(
                path,
                threads=self.options.threads,
                map_name="anomaly_map",
                score_name="pred_score",
            )
            exported = measure_accuracy(predict, dataset, size_hw=self.options.size_hw)
            found |= {"exported": exported.to_dict(), "onnx_bytes": size_on_disk(path)}
        return found

    def candidates(self, done: Done) -> list[Candidate]:
        """Our graphs and theirs in ONNX Runtime, ours and their own IR in OpenVINO."""
        first = self.datasets[0].name
        found: list[Candidate] = []
        for recipe in self.options.recipes:
            models = done.results.get(f"{first} {recipe.name}", {}).get("models", {})
            for precision in [p for p in recipe.precisions if FAILED not in models.get(p, {})]:
                path = self.folder(first, recipe.name) / f"{precision}.onnx"
                name = f"edgeseg {recipe.name} {precision}"
                found += [Candidate(name=name, path=path, backend=b) for b in ("cpu", "openvino")]
        for peer in self.options.peers:
            result = done.results.get(f"{first} {peer}", {})
            for key, backend in (("onnx", "cpu"), ("openvino", "openvino")):
                if key in result:
                    path = self.folder(first, peer) / result[key]
                    found.append(Candidate(name=TITLES[peer], path=path, backend=backend))
        gone = [item.path for item in found if not item.path.is_file()]
        if gone:
            raise UsageError(f"{gone[0]}: deleted since it was measured; run with --fresh")
        return found

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
