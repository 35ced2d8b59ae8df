"""Calibrate the threshold and the drift baseline with the arithmetic that runs here."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgeseg.base.progress import Note, Progress
from edgeseg.base.utc import utc_time
from edgeseg.decision.foreign import foreign_limit
from edgeseg.decision.operating_point import (
    by_rate,
    check_rate,
    guarantee,
    interval_words,
    needed_images,
    operating_point,
    with_band,
)
from edgeseg.decision.score_origin import ScoreOrigin, percent
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.metadata import Decision, ModelMetadata
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.runtime.capture.image_files import image_paths
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.runtime.scoring.good_images import GoodImages, score_good_images
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.vision.appearance import AppearanceLimits
from edgeseg.vision.group_by import AUTO, GroupBy


def calibrate_here(
    detector: Detector,
    model: Path,
    folder: Path,
    *,
    rate: float | None,
    max_pixels: int = StreamOptions.max_pixels,
    group_by: str = AUTO,
    note: Note,
    progress: Progress,
) -> str:
    """Score the images, store the new threshold and baseline, and describe them in a few lines."""
    by = GroupBy(text=group_by)
    metadata = file_metadata(model)
    before = metadata.threshold
    wish = before.requested_rate if rate is None else rate
    check_rate(wish)
    paths = image_paths(str(folder))
    note("images that the model was fitted on score too low: calibrate on others")
    scored = progress(paths, length=len(paths), label="Scoring good images")
    good = score_good_images(detector, scored, max_pixels=max_pixels, by=by, note=note)
    if good.drift is None:
        note("the model gives no grid of the whole frame: its drift baseline stays")
    chosen = _choose_thresholds(before, good, wish, backend=detector.backend, note=note)
    calibrated = _with_calibration(metadata, good, chosen, backend=detector.backend)
    write_sidecar(model, replace(calibrated, calibrated_in=detector.entry))
    return "\n".join(_lines(before, chosen, wish=wish))


def _lines(before: Thresholds, chosen: Thresholds, *, wish: float) -> Iterator[str]:
    """Describe the chosen threshold, its promise, and the limits of that promise."""
    line = f"threshold {chosen.score:.4f} (was {before.score:.4f}), {chosen.method}"
    if chosen.false_alarm_rate >= 1:
        yield (
            f"{line}; promises nothing: all pictures show one part, and {needed_images(wish)} "
            f"different parts would promise {percent(wish)}; if they are different, say so with "
            "--group-by none"
        )
        return
    yield f"{line}; answers for {percent(chosen.false_alarm_rate)} false alarms"
    yield str(guarantee(chosen))
    if chosen.grouping == "pictures":
        yield "--group-by says which pictures show one part"
    yield interval_words(chosen.parts, rate=wish, promise=chosen.promise)


def _choose_thresholds(
    before: Thresholds, images: GoodImages, wish: float, *, backend: str, note: Note
) -> Thresholds:
    scores, peaks, floors = images.highest
    count = len(images.scores)
    point = operating_point(scores, peaks, rate=wish, promise=before.promise, pictures=count)
    known = images.parts > 1 or count == 1
    if known and point.shortfall is not None:
        note(point.shortfall)
    chosen = replace(
        by_rate(before, point),
        origin=ScoreOrigin(kind="split", backend=backend),
        choice=None,
        foreign=foreign_limit(floors, threshold=point.pixel),
        appearance=_appearance(before.appearance, images.looks.limits),
        false_alarm_rate=point.promised_rate if known else 1.0,
        images=count,
        parts=images.parts,
        grouping=images.grouping,
    )
    if known and before.unsure_rate is not None and before.unsure_rate > wish:
        return with_band(chosen, scores, rate=before.unsure_rate)
    return chosen


def _appearance(
    before: AppearanceLimits | None, here: AppearanceLimits | None
) -> AppearanceLimits | None:
    """Join the appearance limits of the fit and of this device: either may come again."""
    return before.widen(here) if before is not None and here is not None else here or before


def _with_calibration(
    metadata: ModelMetadata, good: GoodImages, chosen: Thresholds, *, backend: str
) -> ModelMetadata:
    decision = Decision(
        when=utc_time(),
        action="calibrate",
        rule=f"{percent(chosen.requested_rate)} false alarms",
        images=len(good.scores),
        before=metadata.threshold.score,
        after=chosen.score,
        backend=backend,
        precision=metadata.precision,
    )
    return replace(
        metadata,
        threshold=chosen,
        good_scores=good.statistics,
        drift=good.drift or metadata.drift,
        history=(*metadata.history, decision),
    )
