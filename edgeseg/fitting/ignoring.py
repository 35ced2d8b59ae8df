"""Ignore regions in a fitted model, without a new fit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.data.datasets import Dataset
from edgeseg.decision.calibration import GoodImageScores, calibrate
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.fitting.held_out import HeldOutScorer
from edgeseg.fitting.image_pass import collect
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.part_evidence import evidence_apart
from edgeseg.fitting.smallest import without_spots
from edgeseg.fitting.spaces import space_of
from edgeseg.model.artefact import Artefact
from edgeseg.model.gaussian_head import Cells, GaussianHead
from edgeseg.model.predictor import frame_scores
from edgeseg.modelfile.history import entry, highest, note_value
from edgeseg.vision.geometry import Geometry, Polygon
from edgeseg.vision.ignored import hidden_of, refuse_several

_AT_ONCE = 64  # grids


def ignore_in_model(
    artefact: Artefact,
    regions: Sequence[Polygon],
    *,
    camera_hw: tuple[int, int] | None = None,
    good: Dataset | None = None,
    options: FitOptions,
) -> Artefact:
    """Return the model without these regions beside those of its fit, and with a new threshold.

    They replace the regions that were named since the fit. The threshold comes from the grids of
    the held-out good images that the file keeps, or from `good`.
    """
    geometry = _geometry(artefact, tuple(regions), camera_hw)
    changed = replace(artefact, config=replace(artefact.config, geometry=geometry))
    if geometry.uncounted and hidden_of(geometry, changed.config.image_hw) is None:
        raise UsageError(
            "region: none lies in what the model looks at; expected places in pixels of the images"
        )
    head, before = changed.head(), artefact.calibration
    if good is not None:
        scores, origin = _from_images(changed, head, good, options), ScoreOrigin(kind="split")
    else:
        # The same scores in fewer cells; anomalies, if there were some, choose no more.
        scores, origin = _from_grids(head, before.good), replace(before.origin, anomalies=None)
    calibration = calibrate(
        scores,
        false_alarm_rate=before.requested_rate,
        promise=before.promise,
        origin=origin,
        expected_d2=before.expected_d2,
        measured_d2=before.measured_d2,
        unseen=before.answered_rate < 1 or good is not None,
        appearance=before.appearance,
        grouping=before.grouping or "pictures",
    )
    _tell(artefact, options.note)
    source = f"{len(geometry.regions)} regions ignored: {before.score_threshold:.4f} to "
    line = entry(
        "ignore",
        images=scores.count,
        source=source + f"{calibration.score_threshold:.4f}",
        newest=0.0,
    )
    when = max((line["when"] for line in artefact.history), default=line["when"])
    return replace(
        changed,
        calibration=calibration,
        planted=None,
        data=without_spots(changed.data) | {"highest": highest(scores)},
        accuracy=[],
        history=[*artefact.history, line | {"when": when}],
    )


def _geometry(
    artefact: Artefact, regions: tuple[Polygon, ...], camera_hw: tuple[int, int] | None
) -> Geometry:
    geometry = artefact.config.geometry
    refuse_several(geometry)
    stored = artefact.data.get("camera_hw")  # absent after a fit on arrays
    known = geometry.camera_hw or (None if stored is None else (stored[0], stored[1])) or camera_hw
    if known is None:
        raise UsageError(
            "the model does not know the size of the camera's pictures, in whose pixels regions "
            "are; give it: ",
            Setting("camera_hw", "HEIGHTxWIDTH"),
        )
    if camera_hw is not None and camera_hw != known:
        raise UsageError(
            Setting("camera_hw", f"{camera_hw[0]}x{camera_hw[1]}"),
            f": the model was fitted on pictures of {known[0]}x{known[1]} (height x width); "
            "leave it out",
        )
    return replace(geometry, camera_hw=known, uncounted=regions)


def _from_grids(head: GaussianHead, good: GoodImageScores) -> GoodImageScores:
    """Return held-out scores of the cells that count now, to the precision of 16 bits."""
    shown = good.grids if head.factors.shown is None else good.shown_grids
    if good.grids is None or shown is None:
        raise ArtefactError(
            "the file keeps no distances of its good images (tiles, variants, or too many), so no "
            "threshold can be taken from them; give good images: ",
            Setting("good", "FOLDER"),
        )
    scores, peaks, floors, frame_d2 = [], [], [], []
    sums = np.zeros((2, *good.grids.shape[1:]))
    for start in range(0, len(good.grids), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        grids, shown_grids = (kept[some].astype(np.float32) for kept in (good.grids, shown))
        whole = Cells(grids, shown_grids)
        cells = head.mask_ignored(whole)
        of_frames = frame_scores(*head.to_image(cells), tiling=None)
        d2 = np.square(cells.shown)
        scores.append(of_frames.score)
        peaks.append(of_frames.peak)
        floors.append(of_frames.floor)
        frame_d2.append(d2.reshape(len(d2), -1).mean(axis=1))
        d2 = d2.astype(np.float64)
        sums += np.stack([d2.sum(axis=0), np.square(d2).sum(axis=0)])
    mean, square = sums / len(good.grids)
    return replace(
        good,
        scores=np.concatenate(scores),
        peaks=np.concatenate(peaks),
        floors=np.concatenate(floors),
        frame_d2=np.concatenate(frame_d2),
        d2_mean=mean.astype(np.float32),
        d2_std=np.sqrt(np.clip(square - mean**2, 0, None)).astype(np.float32),
    )


def _from_images(
    changed: Artefact, head: GaussianHead, good: Dataset, options: FitOptions
) -> GoodImageScores:
    space = space_of(changed, options)
    scorer = HeldOutScorer(space=space, batch_size=options.batch_size, steps=options.steps)
    with collect(space, (), good.train, shard=Shard(), options=options) as collected:
        evidence = evidence_apart(collected.seen, collected.unseen, options.group)
        return scorer.scores_by_model(head, collected.unseen, evidence)


def _tell(artefact: Artefact, note: Note) -> None:
    note_value(artefact.history, artefact.calibration.score_threshold, note)
    if artefact.planted is not None:
        note("planted defects were scored with the earlier regions and are dropped")
    if artefact.accuracy:
        note("stored figures of accuracy were of the earlier regions and are dropped")
    if artefact.calibration.unsure_rate is not None:
        note("the band of unsure scores is dropped; choose it again: edgeseg threshold")
