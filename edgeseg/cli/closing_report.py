"""The report at the end of a fit: what each false-alarm rate costs, and which images decide."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.files import write_text
from edgeseg.cli.deciding_pictures import deciding_panel, deciding_sheet
from edgeseg.cli.threshold_evidence import Evidence
from edgeseg.cli.threshold_report import choice_lines, deciding_lines, question_lines, table_lines
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.decision.deciding_images import DecidingImage
from edgeseg.decision.usual_recall import usual_recall
from edgeseg.model.map_layers import with_backbone_choices
from edgeseg.vision.images import write_image

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact
    from edgeseg.model.predictor import VariantPredictor


def closing_lines(artefact: "Artefact") -> Iterator[str]:
    """Lines of the report: the table of rates, the stored choice, the images that decide it."""
    if artefact.calibration.answered_rate >= 1:  # of images that were fitted on themselves
        return
    evidence = evidence_of(artefact)
    yield from table_lines(evidence)
    yield from choice_lines(evidence.chosen, count=len(evidence.scores))
    yield from deciding_lines(evidence)
    yield from question_lines(evidence)
    usual = usual_recall(len(evidence.scores)) if _as_measured(artefact) else None
    if usual is not None:
        yield usual.sentence


def _as_measured(artefact: "Artefact") -> bool:
    """Tell whether a fit has the settings whose usual recall is known: the defaults."""
    usual = with_backbone_choices(FitConfig(seed=artefact.config.seed))
    return with_backbone_choices(artefact.config) == usual and artefact.known is None


def evidence_of(artefact: "Artefact") -> Evidence:
    """Collect the scores behind a threshold, with the paths of the images if they are known."""
    good, planted = artefact.calibration.good, artefact.planted
    of_parts = good.of_parts
    return Evidence(
        name=str(artefact.data["name"]),
        chosen=artefact.calibration.thresholds,
        scores=tuple(of_parts.scores.tolist()),
        peaks=tuple(of_parts.peaks.tolist()),
        images=tuple(good.images[place] for place in good.leading) if good.images else (),
        planted=() if planted is None else tuple(planted.scores.tolist()),
        pictures=good.count if good.parts < good.count else None,
        screened=artefact.config.geometry.several is None,
    )


def write_report(
    artefact: "Artefact", dataset: Dataset, folder: Path, *, predict: "VariantPredictor"
) -> list[Path]:
    """Write the report as a text file, and a picture of the images that decide."""
    text, sheet = folder / "fit.txt", folder / "highest.png"
    write_text(text, "\n".join([*closing_lines(artefact), ""]))
    images = evidence_of(artefact).deciding
    if not images:
        sheet.unlink(missing_ok=True)  # of an earlier fit: it would be taken for this one's
        return [text]
    samples = {sample.name: sample for sample in dataset.train}
    panels = [_panel(artefact, row, samples[row.image], predict) for row in images]
    write_image(sheet, deciding_sheet(panels, name=dataset.name))
    return [text, sheet]


def _panel(
    artefact: "Artefact", row: DecidingImage, sample: Sample, predict: "VariantPredictor"
) -> NDArray[np.uint8]:
    """Draw an image and where the fitted model finds it odd."""
    from edgeseg.model.predictor import variant_scores

    config, pixel = artefact.config, artefact.calibration.pixel_threshold
    frame_hwc, _ = read_sample(sample, config.image_hw, config.geometry)
    maps = variant_scores(predict(frame_hwc[None])).maps
    return deciding_panel(row, frame_hwc, maps[0], pixel=pixel)
