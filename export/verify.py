"""Does the exported graph say what the reference says? Measured after every export."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from edgeseg.contract.precisions import precision_spec
from edgeseg.contract.prediction import above
from edgeseg.data.samples import frames_at_once
from edgeseg.export.precision.exact_session import exact_session
from edgeseg.export.precision.tolerances import Tolerance
from edgeseg.model.predictor import Predictor
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.openvino_session import compile_openvino, read_openvino
from edgeseg.runtime.backends.session_options import SessionOptions

Maps = NDArray[np.float32]
Frames = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far a candidate is from the reference on the same frames."""

    backend: str
    images: int
    source: str  # what the frames were
    map_range: float
    max_error: float  # of the map, as a share of the range
    mean_error: float
    p99_error: float
    rank_correlation: float
    flips: int  # verdicts that change at the threshold
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Within the tolerance."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"passed": self.passed}


def agreement(
    reference: Predictor,
    candidate: Predictor,
    frames: Frames,
    *,
    backend: str,
    source: str,
    threshold: float,
    tolerance: Tolerance,
) -> Agreement:
    """Compare maps, scores and verdicts on the same frames.

    The reference sees one frame at a time, so a graph that mixes the frames of a batch is caught.
    """
    wanted_scores, candidate_scores, error, span = _compared(reference, candidate, frames)
    flips = int(np.sum(above(wanted_scores, threshold) != above(candidate_scores, threshold)))
    finite = bool(np.isfinite(error).all() and np.isfinite(candidate_scores).all())
    # -1 stands for an error that is no number: JSON has none for it.
    error = error if finite else np.full(1, -1.0, np.float32)
    figures = {
        "max_error": float(error.max()),
        "mean_error": float(error.mean()),
        "p99_error": float(np.quantile(error, 0.99)),
        "rank_correlation": rank_correlation(wanted_scores, candidate_scores) if finite else -1.0,
    }
    failures: tuple[str, ...] = ("not finite",)
    if finite:
        order = ordered(wanted_scores, candidate_scores, apart=tolerance.mean_error * span)
        failures = _failures(figures, order, flips / len(frames), tolerance)
    return Agreement(
        backend=backend,
        images=len(frames),
        source=source,
        map_range=span,
        flips=flips,
        failures=failures,
        **figures,
    )


def _compared(
    reference: Predictor, candidate: Predictor, frames: Frames
) -> tuple[Maps, Maps, Maps, float]:
    """Both kinds of scores, the map's error as a share of the reference's range, and the range.

    A few frames at a time where they are large: of their maps only the difference is kept.
    """
    step = frames_at_once(frames.shape[1:3], most=len(frames))
    scores, errors, low, high = [], [], np.inf, -np.inf
    for start in range(0, len(frames), step):
        part = frames[start : start + step]
        one_by_one = [reference(frame[None]) for frame in part]
        wanted, wanted_scores = (np.concatenate(both) for both in zip(*one_by_one, strict=True))
        maps, candidate_scores = candidate(part)
        scores.append((wanted_scores, candidate_scores))
        errors.append(np.abs(wanted - maps))
        low, high = min(low, float(wanted.min())), max(high, float(wanted.max()))
    span = max(high - low, 1e-6)
    wanted_scores, candidate_scores = (np.concatenate(both) for both in zip(*scores, strict=True))
    error = np.concatenate(errors)
    error /= span
    return wanted_scores, candidate_scores, error, span


def _failures(
    figures: dict[str, float], order: float, flip_share: float, tolerance: Tolerance
) -> tuple[str, ...]:
    limits = tolerance
    # A few images with scores nearer to each other than what may differ have no order to lose.
    ranks = max(figures["rank_correlation"], order)
    checks = (
        ("max error", figures["max_error"] <= limits.max_error, f"<= {limits.max_error:g}"),
        ("mean error", figures["mean_error"] <= limits.mean_error, f"<= {limits.mean_error:g}"),
        (
            "rank correlation",
            ranks >= limits.min_rank_correlation,
            f">= {limits.min_rank_correlation:g}",
        ),
        ("flipped verdicts", flip_share <= limits.max_flips, f"<= {limits.max_flips:.0%}"),
    )
    return tuple(f"{name}: expected {expected}" for name, passed, expected in checks if not passed)


def ordered(
    wanted: NDArray[np.floating[Any]], candidate: NDArray[np.floating[Any]], *, apart: float
) -> float:
    """How well pairs of scores keep their order, 1 to -1, of those more than `apart` apart."""
    wanted_steps, steps = (a[:, None] - a[None, :] for a in (wanted, candidate))
    clear = wanted_steps > apart
    return float(np.sign(steps[clear]).mean()) if clear.any() else 1.0


def rank_correlation(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> float:
    """Spearman's: the correlation of ranks, ties sharing theirs.

    It is undefined where all are tied: then 1.0 if they are in both, else 0.0.
    """
    centred = [ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b))]
    norms = [float(np.linalg.norm(ranks)) for ranks in centred]
    if min(norms) == 0.0:
        return 1.0 if max(norms) == 0.0 else 0.0
    return float(centred[0] @ centred[1]) / (norms[0] * norms[1])


def _ranks(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return ranks


def onnxruntime_predictor(path: Path, *, exact: bool = False) -> Predictor:
    """ONNX Runtime as a stream has it; `exact` runs the graph as written, as TensorRT does."""
    how = onnxruntime.RunOptions()
    if exact:
        session = exact_session(onnx.load(path))
    else:
        session = open_onnxruntime(path, SessionOptions())
        # What a run took goes back to the system: the reference needs as much for large frames.
        how.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    name = session.get_inputs()[0].name

    def predict(frames: Frames) -> tuple[Maps, Maps]:
        image_map, score = session.run(["map", "score"], {name: frames}, how)
        return image_map, score

    return predict


def openvino_predictor(path: Path) -> Predictor:
    """OpenVINO as a stream has it."""
    compiled = compile_openvino(read_openvino(path), SessionOptions(), model=path)

    def predict(frames: Frames) -> tuple[Maps, Maps]:
        outputs = compiled(frames)
        return outputs["map"], outputs["score"]

    return predict


def in_batches(predict: Predictor, batch: tuple[int, int, int]) -> Predictor:
    """Any number of frames through a graph that takes min to max of them at once."""
    low, _, high = batch

    def predict_all(frames: Frames) -> tuple[Maps, Maps]:
        maps, scores = [], []
        for start in range(0, len(frames), high):
            chunk = frames[start : start + high]
            count = len(chunk)
            # Frames are repeated until there are enough, and what they give is dropped.
            image_map, score = predict(np.resize(chunk, (max(low, count), *chunk.shape[1:])))
            maps.append(image_map[:count])
            scores.append(score[:count])
        return np.concatenate(maps), np.concatenate(scores)

    return predict_all


def installed_backends(
    path: Path, *, precision: str, target: str, batch: tuple[int, int, int]
) -> dict[str, Callable[[], Predictor]]:
    """Every backend on this machine that can run the file, by name; any number of frames."""
    from importlib.util import find_spec

    # No CPU rounds as fp16 says, so that is for other devices whatever the target.
    exact = target == "trt" or precision_spec(precision).needs_rounding
    name = "ONNX Runtime, as written" if exact else "ONNX Runtime"
    predictors: dict[str, Callable[[], Predictor]] = {
        name: lambda: in_batches(onnxruntime_predictor(path, exact=exact), batch)
    }
    # OpenVINO has no mode for signed int8 as written; where it lacks VNNI, it saturates.
    if find_spec("openvino") is not None and (precision, target) != ("int8", "trt"):
        predictors["OpenVINO"] = lambda: in_batches(openvino_predictor(path), batch)
    return predictors


def table(rows: list[Agreement]) -> str:
    """The comparison as people read it."""
    lines = [
        f"{'backend':<26}{'images':>7}{'max':>10}{'mean':>10}{'p99':>10}{'ranks':>9}{'flips':>7}  "
    ]
    for row in rows:
        verdict = "ok" if row.passed else "FAILED, " + "; ".join(row.failures)
        lines.append(
            f"{row.backend:<26}{row.images:>7}{row.max_error:>10.2e}{row.mean_error:>10.2e}"
            f"{row.p99_error:>10.2e}{row.rank_correlation:>9.5f}{row.flips:>7}  {verdict}"
        )
    return "\n".join([*lines, "errors are shares of the map's range"])
