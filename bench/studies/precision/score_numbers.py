"""Scores as numbers: finite, larger for larger defects, the same in any batch, order and thread.

    python -m edgeseg.bench.studies.precision.score_numbers --count 1000

A small model is fitted on synthetic parts and exported in every precision that this computer can
run. Half of the frames are good parts, half have a planted spot. Bounds are those that `export`
holds files to (TOLERANCES), and for equal numbers those of fp32.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.artefact.artefact import Artefact, save_artefact
from edgeseg.bench.studies.trust.report import OUT, markdown, write_rows
from edgeseg.config import FitConfig
from edgeseg.contract.precisions import PRECISIONS
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.synthetic.scene import SceneGenerator, write_dataset
from edgeseg.errors import EdgesegError
from edgeseg.export.exported import Exported
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import installed_backends
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
    options = SessionOptions(threads=threads)
    with open_session(path, backend=backend, options=options, allow_random_weights=True) as session:
        return np.array([one.score for one in session.infer(frames)], np.float64)


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The largest, as a share of the range of scores."""
    return float(np.abs(one - other).max() / max(np.ptp(one), 1e-9))


def equal_rows(single: Path, batched: Path, frames: Frames) -> Iterator[Row]:
    """The same scores however frames are put to the file."""
    bound, count = TOLERANCES["fp32"].max_error, len(frames)
    for backend in ("cpu", "openvino"):
        try:
            scores = scores_of(single, frames, backend=backend, threads=1)
        except EdgesegError as error:
            note(f"{backend}: {error}")
            continue
        finite = float(np.count_nonzero(~np.isfinite(scores)))
        yield Row(
            what=f"{backend}: scores that are not finite", frames=count, worst=finite, bound=0
        )
        order = np.random.default_rng(1).permutation(count)
        again = np.empty_like(scores)
        again[order] = scores_of(single, frames[order], backend=backend, threads=1)
        worst = difference(scores, again)
        yield Row(what=f"{backend}: another order", frames=count, worst=worst, bound=0)
        threaded = scores_of(single, frames, backend=backend, threads=2)
        worst = difference(scores, threaded)
        yield Row(what=f"{backend}: two threads and one", frames=count, worst=worst, bound=bound)
        together = scores_of(batched, frames, backend=backend, threads=1)
        worst = difference(scores, together)
        yield Row(what=f"{backend}: batches of 4 and of 1", frames=count, worst=worst, bound=bound)


def growth_row(path: Path, count: int, *, seed: int) -> Row:
    """Mean score by the size of the spot; the worst step down, as a share of the whole rise."""
    scene, rng = SceneGenerator(size_hw=SIZE_HW), np.random.default_rng(seed)
    parts = [scene.good(80_000 + index) for index in range(max(1, count // len(RADII)))]
    means = []
    for radius in RADII:
        frames = np.stack([spotted(part, radius=radius, rng=rng) for part in parts])
        means.append(float(scores_of(path, frames, backend="cpu", threads=1).mean()))
    note(
        "mean score by radius: "
        + ", ".join(f"{r}: {m:.3g}" for r, m in zip(RADII, means, strict=True))
    )
    worst = float(max(-np.diff(means).min(), 0.0) / max(np.ptp(means), 1e-9))
    frames_seen = len(parts) * len(RADII)
    what = "mean score falls while the spot grows"
    return Row(what=what, frames=frames_seen, worst=worst, bound=0.0)


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


def export_all(artefact: Artefact, good: Dataset, folder: Path) -> dict[str, Exported]:
    """The model in every precision that can be made here, and in batches of four."""
    save_artefact(artefact, folder / "m.edgeseg")
    made: dict[str, Exported] = {}
    for name, precision in PRECISIONS.items():
        try:
            made[name] = export_onnx(
                artefact,
                folder / f"{name}.onnx",
                options=ExportOptions(precision=name, verify=False),
                good=good if precision.needs_images else None,
            )
        except EdgesegError as error:
            note(f"{name}: {error}")
    four = ExportOptions(batch=(4, 4, 4), verify=False)
    made["batched"] = export_onnx(artefact, folder / "batched.onnx", options=four)
    return made


def study(count: int, *, folder: Path, backbone: str, seed: int) -> list[Row]:
    """Fit, export, and hold every property to its bound."""
    write_dataset(folder / "plate", size_hw=SIZE_HW, train=40, test_good=2, test_defective=1)
    good = open_dataset(folder / "plate")
    config = FitConfig(backbone=backbone, size_hw=SIZE_HW, k=64, folds=4, false_alarm_rate=0.1)
    artefact = fit(good, config, FitOptions(planted=0))
    made = export_all(artefact, good, folder)
    batched, frames = made.pop("batched"), frames_of(count, seed=seed)
    rows = list(equal_rows(made["fp32"].path, batched.path, frames.images))
    rows.append(growth_row(made["fp32"].path, count, seed=seed))
    for exported in made.values():
        rows += precision_rows(artefact, exported, frames)
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
