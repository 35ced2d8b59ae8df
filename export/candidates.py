"""A candidate made whole, fitted again through itself where there are good images, and judged."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.base.files import temporary_folder
from edgeseg.base.progress import Note, Progress, ignore, silent
from edgeseg.base.tables import aligned
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.metrics import auroc
from edgeseg.decision.prediction import above
from edgeseg.export.calibration_frames import CALIBRATION_IMAGES, planted_copies
from edgeseg.export.graph import save_graph, set_metadata
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.makers import Candidate, Head
from edgeseg.export.precision.refit import (
    EMBEDDING,
    cut,
    embedder,
    embedding_tensor,
    refitted,
    with_embedding,
)
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import NAMES, Run, installed_backends, installed_runs
from edgeseg.export.verify import Agreement, Verified, agreement, head_error, table
from edgeseg.model.artefact import Artefact
from edgeseg.model.model_metadata import describe_model
from edgeseg.model.predictor import Embedder, torch_predictor
from edgeseg.modelfile.metadata import AccuracyRow, ModelMetadata
from edgeseg.modelfile.precisions import EXACT

# Fewer of frames above 512x512; with less than eight the ranks of their scores would say nothing.
# Decisions need more of them than errors of a map: 64 and as many planted defects, where there are.
_MOST_VERIFIED, _LEAST_VERIFIED = 16, 8
_MOST_DECIDED = CALIBRATION_IMAGES
_HEADS = 4  # frames on which what is behind the embedding is looked at alone


@dataclass(frozen=True, kw_only=True)
class Made:
    """A candidate as a graph, what the file says of itself, and how it compares."""

    text: str
    graph: ModelProto
    metadata: ModelMetadata
    rows: tuple[Agreement, ...]

    @property
    def failures(self) -> list[str]:
        """What is wrong with it, backend by backend."""
        return [f"{row.backend}: {'; '.join(row.failures)}" for row in self.rows if row.failures]

    def with_accuracy(self, rows: tuple[AccuracyRow, ...]) -> "Made":
        """Return the same candidate, whose graph says its accuracy too."""
        metadata = replace(self.metadata, accuracy=rows)
        set_metadata(self.graph, metadata)
        return replace(self, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """All that candidates of one export are made and judged with."""

    artefact: Artefact  # as it was fitted, in fp32: the reference
    folder: Path  # where the file will be
    options: ExportOptions
    good: Dataset | None
    images: NDArray[np.uint8]  # (N, H, W, 3)
    artefact_sha256: str
    note: Note = field(default=ignore)
    progress: Progress = field(default=silent)

    def of(self, candidate: Candidate) -> Made:
        """Make it and judge it."""
        if self.good is None or self.options.precision == EXACT:
            model = self.artefact.model()
            graph = candidate.finished(Head(model=model, embed=model.embeddings))
            return self._judged(candidate, graph, self.artefact)
        with self._opened(cut(candidate.rounded), self.artefact, (EMBEDDING,)) as runs:
            backend, opener = next(iter(runs.items()))
            embed = embedder(opener())
            artefact = self._refitted(self.good, embed, backend=backend)
            graph = candidate.finished(Head(model=artefact.model(), embed=embed))
        return self._judged(candidate, graph, artefact, calibrated_in=backend)

    def _refitted(self, good: Dataset, embed: Embedder, *, backend: str) -> Artefact:
        precision = self.options.precision
        fitted, count = int(self.artefact.data["fitted"]), len(good.train)
        through = f"through the {precision} graph in {NAMES[backend]}"
        self.note(f"taking the moments again {through}")
        if count < fitted:
            self.note(
                f"the model was fitted on {fitted} images, and there are {count} of them now: it "
                "knows the part less well than before; give all good images there are"
            )
        artefact = refitted(self.artefact, embed, good, note=self.note, progress=self.progress)
        calibration = artefact.calibration
        origin = replace(calibration.origin, precision=precision, backend=NAMES[backend])
        artefact = replace(artefact, calibration=replace(calibration, origin=origin))
        self.note(_thresholds(self.artefact, artefact, precision=precision))
        return artefact

    def _judged(
        self,
        candidate: Candidate,
        graph: ModelProto,
        artefact: Artefact,
        *,
        calibrated_in: str | None = None,
    ) -> Made:
        names = [output.name for output in graph.graph.output]
        metadata = self._metadata(artefact, outputs=names, calibrated_in=calibrated_in)
        set_metadata(graph, metadata)
        rows: tuple[Agreement, ...] = ()
        if self.options.verify:
            rows = self._verified(graph, embedding_tensor(candidate.rounded), artefact)
            self.note(table(rows))
        return Made(text=candidate.text, graph=graph, metadata=metadata, rows=rows)

    def _verified(
        self, graph: ModelProto, tensor: str, artefact: Artefact
    ) -> tuple[Agreement, ...]:
        """The comparison of the file as it will be, in every backend that is installed here."""
        refit = artefact is not self.artefact
        frames = self._frames(refitted=refit)
        heads: dict[str, float] = {}
        if refit:
            model = artefact.model()
            probe = with_embedding(graph, tensor)
            looked_at = frames.images[:: -(-len(frames.images) // _HEADS)]
            with self._opened(probe, artefact, (EMBEDDING, "map")) as runs:
                heads = {
                    NAMES[name]: head_error(model, run(), looked_at) for name, run in runs.items()
                }
        reference = torch_predictor(self.artefact.model())
        thresholds = (
            self.artefact.calibration.score_threshold,
            artefact.calibration.score_threshold,
        )
        with self.saved(graph) as path:
            backends = installed_backends(
                path,
                precision=self.options.precision,
                target=self.options.target,
                batch=self.options.batch,
                backend=self.options.backend,
            )
            return tuple(
                agreement(
                    reference,
                    open_predictor(),
                    frames,
                    backend=name,
                    thresholds=thresholds,
                    tolerance=TOLERANCES[self.options.precision],
                    head_error=heads.get(name),
                )
                for name, open_predictor in backends.items()
            )

    def _frames(self, *, refitted: bool) -> Verified:
        most, least = _MOST_DECIDED if refitted else _MOST_VERIFIED, _LEAST_VERIFIED
        size_hw = self.artefact.config.size_hw
        count = frames_at_once(size_hw, most=most, least=least, pixels=_MOST_VERIFIED * 512**2)
        images = self.images[:count]
        if not refitted:
            source = "synthetic images" if self.good is None else "calibration images"
            return Verified(images=images, source=source)
        planted = planted_copies(images, seed=self.artefact.config.seed)
        return Verified(
            images=np.concatenate([images, planted]),
            source="good images, and copies of them with a planted defect",
            planted=len(planted),
            refitted=True,
        )

    def _metadata(
        self, artefact: Artefact, *, outputs: Sequence[str], calibrated_in: str | None = None
    ) -> ModelMetadata:
        return describe_model(
            artefact,
            artefact_sha256=self.artefact_sha256,
            precision=self.options.precision,
            target=self.options.target,
            batch=self.options.batch,
            outputs=list(outputs),
            calibrated_in=calibrated_in,
        )

    @contextmanager
    def saved(self, graph: ModelProto) -> Iterator[Path]:
        """The graph as a file, in a folder of its own."""
        with temporary_folder(self.folder, name="export") as folder:
            path = folder / "graph.onnx"
            save_graph(graph, path)
            yield path

    @contextmanager
    def _opened(
        self, probe: ModelProto, artefact: Artefact, outputs: tuple[str, ...]
    ) -> Iterator[dict[str, Callable[[], Run]]]:
        """Sessions of a look into the graph, which says its precision as the file will."""
        metadata = self._metadata(artefact, outputs=("map", "score", "grid"))
        set_metadata(probe, metadata)
        with self.saved(probe) as path:
            yield installed_runs(
                path,
                precision=self.options.precision,
                target=self.options.target,
                batch=self.options.batch,
                backend=self.options.backend,
                outputs=outputs,
            )


def _thresholds(reference: Artefact, artefact: Artefact, *, precision: str) -> str:
    """What the new moments did to the threshold, on images that were held out of them."""
    rows = [["", "threshold", "good parts held out", "of them flagged", "planted found", "AUROC"]]
    for name, model in ((EXACT, reference), (precision, artefact)):
        calibration, planted = model.calibration, model.planted
        scores, threshold = calibration.good.of_parts.scores, calibration.score_threshold
        flagged = float(np.mean(above(scores, threshold)))
        row = [name, f"{threshold:.4g}", f"{scores.size}", f"{flagged:.1%}", "-", "-"]
        if planted is not None:
            found = int(np.sum(above(planted.scores, threshold)))
            labels = np.repeat([0, 1], [scores.size, planted.count])
            separation = auroc(np.concatenate([scores, planted.scores]), labels)
            row[4:] = [f"{found} of {planted.count}", f"{separation:.3f}"]
        rows.append(row)
    return "\n".join(aligned(rows))
