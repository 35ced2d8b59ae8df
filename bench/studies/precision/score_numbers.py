"""Scores as numbers: finite, larger for larger defects, the same in any batch, order and thread.

    python -m edgeseg.bench.studies.precision.score_numbers --count 1000

A small model is fitted on synthetic parts and exported in every precision that this computer can
run; one that cannot be exported or opened breaks a bound. Half of the frames are good parts, half
have a planted spot. Bounds are those that `export` holds files to (TOLERANCES).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact, save_artefact
from edgeseg.bench.studies.trust.report import OUT, markdown, write_rows
from edgeseg.config import FitConfig
from edgeseg.contract.precisions import EXACT, PRECISIONS, Precision
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.synthetic.scene import SceneGenerator, write_dataset
from edgeseg.errors import EdgesegError, ExportError
from edgeseg.export.exported import Exported
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import check_arithmetic, installed_backends
from edgeseg.export.verify import Verified, agreement
from edgeseg.files import temporary_folder
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import FitOptions
from edgeseg.model.predictor import torch_predictor
from edgeseg.options import note
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions

Frames = NDArray[np.uint8]
SIZE_HW = (128, 128)
RADII = (0, 2, 4, 8, 16, 32)  # of the spot, in pixels


@dataclass(frozen=True, kw_only=True)
class Row:
    """One property on so many frames; `worst` may be up to `bound`."""

    what: str
    frames: int
    worst: float
    bound: float

    @property
    def kept(self) -> bool:
        """NaN keeps nothing."""
        return self.worst <= self.bound


@dataclass(frozen=True, kw_only=True)
class Made:
    """A model in one precision, for one frame at a time and for four."""

    single: Exported
    batched: Exported

    @property
    def precision(self) -> str:
        """Of both."""
        return self.single.metadata.precision

    @property
    def backends(self) -> tuple[str, ...]:
        """That compute as its file says, of those that are here."""
        plain = ("cpu",) if PRECISIONS[self.precision].arithmetic == "float32" else ()
        return (*plain, *(("openvino",) if find_spec("openvino") is not None else ()))


def failed(what: str, error: EdgesegError) -> Row:
    """What should have run, and did not."""
    return Row(what=f"{what}: {error}", frames=0, worst=1, bound=0)


def spotted(frame_hwc: Frames, *, radius: int, rng: np.random.Generator) -> Frames:
    """The frame with a dark spot around its middle, where the part is."""
    if radius == 0:
        return frame_hwc
    height, width = frame_hwc.shape[:2]
    x, y = (int(side / 2 + rng.uniform(-side, side) / 8) for side in (width, height))
    return np.asarray(cv2.circle(frame_hwc.copy(), (x, y), radius, (20, 10, 10), -1), np.uint8)


def frames_of(count: int, *, seed: int) -> Verified:
    """Good parts that the model has not seen, then as many with a spot."""
    scene, rng = SceneGenerator(size_hw=SIZE_HW), np.random.default_rng(seed)
    good = [scene.good(50_000 + index) for index in range(-(-count // 2))]
    bad = [spotted(frame, radius=8, rng=rng) for frame in good[: count // 2]]
    return Verified(images=np.stack([*good, *bad]), source="synthetic parts", planted=len(bad))


def scores_of(path: Path, frames: Frames, *, backend: str, threads: int) -> NDArray[np.float64]:
    """As the stream scores them, all in one call."""
    options = SessionOptions(backend=backend, threads=threads, allow_random_weights=True)
    with open_session(path, options) as session:
        return np.array([one.score for one in session.infer(frames)], np.float64)


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The largest, as a share of the range of scores."""
    return float(np.abs(one - other).max() / max(np.ptp(one), 1e-9))


def equal_rows(made: Made, backend: str, frames: Frames) -> Iterator[Row]:
    """The same scores however frames are put to the file."""
    bound, count = TOLERANCES[made.precision].max_error, len(frames)
    single, name = made.single.path, f"{made.precision}, {backend}"
    scores = scores_of(single, frames, backend=backend, threads=1)
    finite = float(np.count_nonzero(~np.isfinite(scores)))
    yield Row(what=f"{name}: scores that are not finite", frames=count, worst=finite, bound=0)
    order = np.random.default_rng(1).permutation(count)
    again = np.empty_like(scores)
    again[order] = scores_of(single, frames[order], backend=backend, threads=1)
    worst = difference(scores, again)
    yield Row(what=f"{name}: another order", frames=count, worst=worst, bound=0)
    threaded = scores_of(single, frames, backend=backend, threads=2)
    worst = difference(scores, threaded)
    yield Row(what=f"{name}: two threads and one", frames=count, worst=worst, bound=bound)
    together = scores_of(made.batched.path, frames, backend=backend, threads=1)
    worst = difference(scores, together)
    yield Row(what=f"{name}: batches of 4 and of 1", frames=count, worst=worst, bound=bound)


def growth_row(made: Made, backend: str, count: int, *, seed: int) -> Row:
    """Mean score by the size of the spot; the worst step down, as a share of the whole rise."""
    name, precision = f"{made.precision}, {backend}", made.precision
    scene, rng = SceneGenerator(size_hw=SIZE_HW), np.random.default_rng(seed)
    parts = [scene.good(80_000 + index) for index in range(max(1, count // len(RADII)))]
    means = []
    for radius in RADII:
        frames = np.stack([spotted(part, radius=radius, rng=rng) for part in parts])
        scores = scores_of(made.single.path, frames, backend=backend, threads=1)
        means.append(float(scores.mean()))
    note(
        f"{name}: mean score by radius: "
        + ", ".join(f"{r}: {m:.3g}" for r, m in zip(RADII, means, strict=True))
    )
    worst = float(max(-np.diff(means).min(), 0.0) / max(np.ptp(means), 1e-9))
    frames_seen = len(parts) * len(RADII)
    what = f"{name}: mean score falls while the spot grows"
    bound = 0.0 if precision == EXACT else TOLERANCES[precision].mean_error
    return Row(what=what, frames=frames_seen, worst=worst, bound=bound)


def precision_rows(artefact: Artefact, exported: Exported, frames: Verified) -> Iterator[Row]:
    """Every backend that runs the file, against the reference."""
    told = exported.metadata
    seen = replace(frames, refitted=PRECISIONS[told.precision].needs_images)
    backends = installed_backends(
        exported.path, precision=told.precision, target=told.target, batch=told.input.batch
    )
    for name, opener in backends.items():
        row = agreement(
            torch_predictor(artefact.model()),
            opener(),
            seen,
            backend=name,
            thresholds=(artefact.calibration.score_threshold, told.threshold.score),
            tolerance=TOLERANCES[told.precision],
        )
        for failure in row.failures:
            note(f"{told.precision}, {name}: {failure}")
        count = len(frames.images)
        what = f"{told.precision}, {name}: bounds of export that are broken"
        yield Row(what=what, frames=count, worst=len(row.failures), bound=0)


def is_computed_here(precision: Precision) -> bool:
    """Whether this processor has its arithmetic: nothing could be said of it elsewhere."""
    try:
        check_arithmetic(precision)
    except ExportError as error:
        note(f"not tried: {error}")
        return False
    return True


def exported(artefact: Artefact, good: Dataset, folder: Path, precision: Precision) -> Made:
    """The model in one precision."""

    def export(batch: int) -> Exported:
        return export_onnx(
            artefact,
            folder / f"{precision.name}-{batch}.onnx",
            options=ExportOptions(precision=precision.name, batch=(batch,) * 3, verify=False),
            good=good if precision.needs_images else None,
        )

    return Made(single=export(1), batched=export(4))


def rows_of(made: Made, artefact: Artefact, frames: Verified, *, seed: int) -> Iterator[Row]:
    """All properties of one precision."""
    for backend in made.backends:
        try:
            yield from equal_rows(made, backend, frames.images)
            yield growth_row(made, backend, len(frames.images), seed=seed)
        except EdgesegError as error:
            yield failed(f"{made.precision}, {backend}", error)
    yield from precision_rows(artefact, made.single, frames)


def study(count: int, *, folder: Path, backbone: str, seed: int) -> list[Row]:
    """Fit, export, and hold every property to its bound."""
    write_dataset(folder / "plate", size_hw=SIZE_HW, train=40, test_good=2, test_defective=1)
    good = open_dataset(folder / "plate")
    config = FitConfig(backbone=backbone, size_hw=SIZE_HW, k=64, folds=4, false_alarm_rate=0.1)
    artefact = fit(good, config, FitOptions(planted=0))
    save_artefact(artefact, folder / "m.edgeseg")
    frames, rows = frames_of(count, seed=seed), list[Row]()
    for name, precision in PRECISIONS.items():
        if not is_computed_here(precision):
            continue
        try:
            made = exported(artefact, good, folder, precision)
            rows += rows_of(made, artefact, frames, seed=seed)
        except EdgesegError as error:
            rows.append(failed(f"{name}, export", error))
    return rows


@click.command(context_settings={"show_default": True})
@click.option("--count", type=click.IntRange(12), default=1000, help="Frames.")
@click.option("--backbone", default="efficientnet_lite0")
@click.option("--seed", default=0, help="Of the spots.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(count: int, backbone: str, seed: int, out: Path) -> None:
    """Look at the numbers, and fail if a bound is broken."""
    with temporary_folder(out, name="score_numbers") as folder:
        rows = study(count, folder=folder, backbone=backbone, seed=seed)
    shown = [asdict(row) | {"kept": row.kept} for row in rows]
    click.echo(markdown(shown))
    write_rows(out, "score_numbers", title="Scores as numbers", rows=shown)
    if not all(row.kept for row in rows):
        raise SystemExit("FAILED: a bound is broken")


if __name__ == "__main__":
    main()
