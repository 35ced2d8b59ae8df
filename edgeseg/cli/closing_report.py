"""What a fit says at its end: what each rate of false alarms costs, and which images decide it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeseg.cli.threshold_report import table_lines
from edgeseg.contract.images import write_image
from edgeseg.contract.operating_point import RATES, operating_point
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.evaluation.deciding import DecidingImage, deciding_images
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.files import write_text
from edgeseg.fitting.odd_inputs import text_of
from edgeseg.tables import aligned

if TYPE_CHECKING:
    from edgeseg.artefact.artefact import Artefact
    from edgeseg.model.predictor import Predictor

_HEAD = ("score", "p-value", "threshold without it and those above", "image")


def closing_lines(artefact: "Artefact") -> Iterator[str]:
    """The table of rates, then the images that decide the threshold."""
    calibration, planted = artefact.calibration, artefact.planted
    if calibration.answered_rate >= 1:  # of images that were fitted on themselves
        return
    good = calibration.good
    scores = () if planted is None else planted.scores
    points = [
        operating_point(good.scores, good.peaks, rate=rate, planted=scores)
        for rate in sorted({*RATES, calibration.requested_rate})
    ]
    yield from table_lines(points, calibration.thresholds)
    images = deciding_images(good, rate=calibration.requested_rate)
    if not images:
        return
    yield (
        f"threshold {calibration.score_threshold:.4f}, {calibration.method}; "
        "good images with the highest scores decide it:"
    )
    rows = [
        (f"{row.score:.4f}", f"{row.p_value:.3g}", f"{row.threshold_without:.4f}", row.image)
        for row in images
    ]
    yield from aligned([_HEAD, *rows], last_left=True)


def write_report(
    artefact: "Artefact", dataset: Dataset, folder: Path, *, predict: "Predictor"
) -> list[Path]:
    """The same lines as a file, and a picture of the images that decide."""
    text, sheet = folder / "fit.txt", folder / "highest.png"
    write_text(text, "\n".join([*closing_lines(artefact), ""]))
    calibration = artefact.calibration
    images = deciding_images(calibration.good, rate=calibration.requested_rate)
    if not images:
        sheet.unlink(missing_ok=True)  # of an earlier fit: it would be taken for this one's
        return [text]
    samples = {text_of(sample): sample for sample in dataset.train}
    panels = [_panel(artefact, row, samples[row.image], predict) for row in images]
    title = f"{dataset.name}: good images with the highest scores, the highest first"
    write_image(sheet, contact_sheet(panels, columns=2, title=title))
    return [text, sheet]


def _panel(
    artefact: "Artefact", row: DecidingImage, sample: Sample, predict: "Predictor"
) -> NDArray[np.uint8]:
    """An image, and where the fitted model finds it odd."""
    config, pixel = artefact.config, artefact.calibration.pixel_threshold
    frame_hwc, _ = read_sample(sample, config.image_hw, config.geometry)
    maps, _ = predict(frame_hwc[None])
    return render_panel(
        frame_hwc,
        maps[0],
        pixel_threshold=pixel,
        value_range=(0.0, max(pixel, 1e-6)),  # good images stay below it
        caption=f"{sample.image.name}: {row.score:.4f}, p-value {row.p_value:.3g}",
    )
