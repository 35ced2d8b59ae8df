"""The scores behind a threshold, as a fitted model, a graph or a plan stores them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgeseg.base.errors import ArtefactError, RuntimeFailure
from edgeseg.decision.deciding_images import (
    DecidingImage,
    OddGoodParts,
    deciding_images,
    odd_good_parts,
)
from edgeseg.decision.operating_point import (
    RATES,
    OperatingPoint,
    operating_point,
    rate_threshold,
)
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.header import (
    calibration_facts,
    highest_scores,
    read_config,
    read_floats,
    read_header,
)
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.vision.part_groups import highest_of_parts


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The stored threshold, and the scores from which every threshold is chosen."""

    name: str
    chosen: Thresholds
    scores: tuple[float, ...]  # of good parts: one each
    peaks: tuple[float, ...]
    images: tuple[str, ...] = ()  # of the highest scores, the highest first, as far as known
    planted: tuple[float, ...] = ()  # scores of planted defects
    earlier: bool = False  # the planted ones were scored before the good images of this computer
    labelled: tuple[float, ...] = ()  # scores of known defects
    pictures: int | None = None  # good images behind the scores; None: one image a part
    screened: bool = True  # whether a fit can leave odd ones out: not of several parts in each

    @cached_property
    def points(self) -> tuple[OperatingPoint, ...]:
        """Operating points of the usual rates and of the stored one."""
        return tuple(
            operating_point(
                self.scores,
                self.peaks,
                rate=rate,
                promise=self.chosen.promise,
                planted=self.planted,
                pictures=self.pictures,
            )
            for rate in sorted({*RATES, self.chosen.requested_rate})
        )

    @cached_property
    def deciding(self) -> tuple[DecidingImage, ...]:
        """Good images that decide the threshold; none where it was not chosen by a rate."""
        rate = self.chosen.requested_rate
        if not 0 < rate < 1:
            return ()
        promise = self.chosen.promise
        chosen = rate_threshold(self.scores, false_alarm_rate=rate, promise=promise)
        if chosen.value != self.chosen.score:
            return ()
        return deciding_images(self.scores, self.images, rate=rate, promise=promise)

    @cached_property
    def odd(self) -> OddGoodParts | None:
        """Good images that score unlike the others, where the threshold was chosen by a rate."""
        rate = self.chosen.requested_rate
        if not 0 < rate < 1:
            return None
        return odd_good_parts(self.scores, rate=rate, promise=self.chosen.promise)


def read_evidence(model: Path) -> Evidence:
    """Read the evidence from an .edgeseg, .onnx or .plan file."""
    return _of_graph(model) if model.suffix in MODEL_SUFFIXES else _of_artefact(model)


def _of_graph(model: Path) -> Evidence:
    metadata = file_metadata(model)
    good = metadata.good_scores
    if not good.scores:
        raise RuntimeFailure(
            f"{model}: it has no scores of good images to choose a threshold from; run "
            f"`edgeseg calibrate {model} GOOD_IMAGES`"
        )
    return Evidence(
        name=metadata.name,
        chosen=metadata.threshold,
        scores=good.scores,
        peaks=good.peaks,
        planted=metadata.planted_scores,
        pictures=good.images,
        earlier=any(decision.action != "threshold" for decision in metadata.history),
    )


def _of_artefact(model: Path) -> Evidence:
    header = read_header(model)
    chosen = calibration_facts(header).thresholds
    scores, peaks = read_floats(model, "good.scores"), read_floats(model, "good.peaks")
    if scores is None or peaks is None or not scores.size or chosen.false_alarm_rate >= 1:
        raise ArtefactError(
            f"{model}: it has no scores of good images that it was not fitted on; export it and "
            "run `edgeseg calibrate MODEL.onnx GOOD_IMAGES`"
        )
    images, groups = int(scores.size), read_floats(model, "good.groups")
    if groups is not None:
        scores, peaks = (highest_of_parts(values, groups) for values in (scores, peaks))
    planted = read_floats(model, "planted.scores")
    named = highest_scores(model, header)
    highest = sorted(scores.tolist(), reverse=True)[: len(named)]
    known = [each.score for each in named] == highest  # or they are of other scores than these
    return Evidence(
        name=str(header["data"].get("name", model.stem)),
        chosen=chosen,
        scores=tuple(sorted(scores.tolist())),
        peaks=tuple(sorted(peaks.tolist())),
        images=tuple(each.image for each in named) if known else (),
        planted=() if planted is None else tuple(planted.tolist()),
        pictures=None if groups is None else images,
        screened=read_config(model).geometry.several is None,
    )
