"""Finish a candidate graph, refit the model through it if there are good images, and judge it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.base.files import temporary_folder
from edgeseg.base.progress import Note, Progress, ignore, silent
from edgeseg.base.tables import align_columns
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.metrics import auroc
from edgeseg.decision.prediction import above
from edgeseg.export.calibration_frames import (
    CALIBRATION_IMAGES,
    calibration_frames,
    copies_with_defects,
    synthetic_frames,
)
from edgeseg.export.graph import save_graph, set_metadata
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.makers import GraphCandidate, Head
from edgeseg.export.precision.refit import (
    EMBEDDING,
    cut,
    embedder,
    embedding_tensor,
    refit,
    with_embedding,
)
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import (
    MAP_AND_SCORE,
    NAMES,
    Run,
    backend_predictors,
    backend_runs,
)
from edgeseg.export.verify import Agreement, VerificationFrames, agreement, head_error, table
from edgeseg.model.artefact import Artefact
from edgeseg.model.model_metadata import describe_model
from edgeseg.model.predictor import Embedder, variant_predictor
from edgeseg.modelfile.metadata import AccuracyRow, ModelMetadata
from edgeseg.modelfile.precisions import EXACT

# Fewer of frames above 512x512; with less than eight the ranks of their scores would say nothing.
# Decisions need more of them than errors of a map: 64 and as many planted defects, where there are.
_MOST_VERIFIED, _LEAST_VERIFIED = 16, 8
_MOST_DECIDED = CALIBRATION_IMAGES
_HEADS = 4  # frames on which what is behind the embedding is looked at alone


@dataclass(frozen=True, kw_only=True)
class TriedGraph:
    """A finished candidate: its graph, its metadata, and how it compares with the reference."""

    text: str
    graph: ModelProto
    metadata: ModelMetadata
    rows: tuple[Agreement, ...]

    @property
    def failures(self) -> list[str]:
        """The failed comparisons, one text per backend."""
        return [f"{row.backend}: {'; '.join(row.failures)}" for row in self.rows if row.failures]

    def with_accuracy(self, rows: tuple[AccuracyRow, ...]) -> "TriedGraph":
        """Write the measured accuracy into the graph, and return the candidate with it."""
        metadata = replace(self.metadata, accuracy=rows)
        set_metadata(self.graph, metadata)
        return replace(self, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The inputs and settings with which all candidates of one export are made and judged."""

    artefact: Artefact  # as it was fitted, in fp32: the reference
    folder: Path  # where the file will be
    options: ExportOptions
    good: Dataset | None
    images: NDArray[np.uint8]  # (N, H, W, 3)
    artefact_sha256: str
    note: Note = field(default=ignore)
    progress: Progress = field(default=silent)

    def run(self, candidate: GraphCandidate) -> TriedGraph:
        """Finish a candidate and judge it."""
        if self.good is None or self.options.precision == EXACT:
            model = self.artefact.model()
            graph = candidate.finish(Head(model=model, embed=model.embeddings))
            return self._judge(candidate, graph, self.artefact)
        with self._open_probe(cut(candidate.rounded), self.artefact, (EMBEDDING,)) as runs:
            backend, opener = next(iter(runs.items()))
            embed = embedder(opener())
            artefact = self._refit(self.good, embed, backend=backend)
            graph = candidate.finish(Head(model=artefact.model(), embed=embed))
        return self._judge(candidate, graph, artefact, calibrated_in=backend)

    def _refit(self, good: Dataset, embed: Embedder, *, backend: str) -> Artefact:
        precision = self.options.precision
        fitted, count = int(self.artefact.data["fitted"]), len(good.train)
        through = f"through the {precision} graph in {NAMES[backend]}"
        self.note(f"taking the moments again {through}")
        if count < fitted:
            self.note(
                f"the model was fitted on {fitted} images, and there are {count} of them now: it "
                "knows the part less well than before; give all good images there are"
            )
        artefact = refit(self.artefact, embed, good, note=self.note, progress=self.progress)
        calibration = artefact.calibration
        origin = replace(calibration.origin, precision=precision, backend=NAMES[backend])
        artefact = replace(artefact, calibration=replace(calibration, origin=origin))
        self.note(_thresholds(self.artefact, artefact, precision=precision))
        return artefact

    def _judge(
        self,
        candidate: GraphCandidate,
        graph: ModelProto,
        artefact: Artefact,
        *,
        calibrated_in: str | None = None,
    ) -> TriedGraph:
        names = [output.name for output in graph.graph.output]
        metadata = self._metadata(artefact, outputs=names, calibrated_in=calibrated_in)
        set_metadata(graph, metadata)
        rows: tuple[Agreement, ...] = ()
        if self.options.verify:
            rows = self._verify(graph, embedding_tensor(candidate.rounded), artefact)
            self.note(table(rows))
        return TriedGraph(text=candidate.text, graph=graph, metadata=metadata, rows=rows)

    def _verify(self, graph: ModelProto, tensor: str, artefact: Artefact) -> tuple[Agreement, ...]:
        """Compare the file as it will be with the reference, in every backend that is installed."""
        again = artefact is not self.artefact
        frames = self._frames(refitted=again)
        heads: dict[str, float] = {}
        if again:
            model = artefact.model()
            probe = with_embedding(graph, tensor)
            probed = frames.images[:: -(-len(frames.images) // _HEADS)]
            with self._open_probe(probe, artefact, (EMBEDDING, *MAP_AND_SCORE)) as runs:
                heads = {
                    NAMES[name]: head_error(model, run(), probed) for name, run in runs.items()
                }
        reference = variant_predictor(self.artefact.model())
        thresholds = (
            self.artefact.calibration.score_threshold,
            artefact.calibration.score_threshold,
        )
        with self.save(graph) as path:
            backends = backend_predictors(
                path,
                precision=self.options.precision,
                target=self.options.target,
                batch=self.options.batch,
                backend=self.options.backend,
                variants=bool(self.artefact.config.variants),
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

    def _frames(self, *, refitted: bool) -> VerificationFrames:
        choose = planted_frames if refitted else verification_frames
        return choose(self.artefact.config, self.good, self.images)

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
    def save(self, graph: ModelProto) -> Iterator[Path]:
        """Save the graph as a file in a temporary folder."""
        with temporary_folder(self.folder, name="export") as folder:
            path = folder / "graph.onnx"
            save_graph(graph, path)
            yield path

    @contextmanager
    def _open_probe(
        self, probe: ModelProto, artefact: Artefact, outputs: tuple[str, ...]
    ) -> Iterator[dict[str, Callable[[], Run]]]:
        """Open a graph with other outputs, which states the same precision as the file will."""
        metadata = self._metadata(artefact, outputs=artefact.outputs)
        set_metadata(probe, metadata)
        with self.save(probe) as path:
            yield backend_runs(
                path,
                precision=self.options.precision,
                target=self.options.target,
                batch=self.options.batch,
                backend=self.options.backend,
                outputs=outputs,
            )


def verification_frames(
    config: FitConfig, good: Dataset | None, images: NDArray[np.uint8] | None = None
) -> VerificationFrames:
    """Choose the frames that a graph is compared with the fitted model on, of good images if any.

    `images` are those of `calibration_frames` or `synthetic_frames`, where they are there already.
    """
    if images is None:
        images = synthetic_frames(config) if good is None else calibration_frames(good, config)
    source = "synthetic images" if good is None else "calibration images"
    count = _frame_count(config, most=_MOST_VERIFIED)
    return VerificationFrames(images=images[:count], source=source)


def planted_frames(
    config: FitConfig, good: Dataset | None, images: NDArray[np.uint8] | None = None
) -> VerificationFrames:
    """Choose the frames that decisions are compared on: good ones, and copies with a defect."""
    if images is None:
        images = synthetic_frames(config) if good is None else calibration_frames(good, config)
    images = images[: _frame_count(config, most=_MOST_DECIDED)]
    planted = copies_with_defects(images, seed=config.seed)
    return VerificationFrames(
        images=np.concatenate([images, planted]),
        source="good images, and copies of them with a planted defect",
        planted=len(planted),
        refitted=True,
    )


def _frame_count(config: FitConfig, *, most: int) -> int:
    pixels = _MOST_VERIFIED * 512**2
    return frames_at_once(config.size_hw, most=most, least=_LEAST_VERIFIED, pixels=pixels)


def _thresholds(reference: Artefact, artefact: Artefact, *, precision: str) -> str:
    """Tabulate what the new moments change in the threshold, on images held out of them."""
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
    return "\n".join(align_columns(rows))
