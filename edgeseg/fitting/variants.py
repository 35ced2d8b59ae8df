"""Several variants of a product in one fit: their names, their images, and what each pays.

folders --settle_variants--> names in the settings --add_images_--> a mean each, one covariance
held-out good images --variant_table--> what one model for all of them costs each of them
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.tables import align_columns
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import Sample
from edgeseg.decision.calibration import Calibration
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.decision.prediction import above
from edgeseg.model.moments import Moments
from edgeseg.model.variant_moments import VariantMoments
from edgeseg.vision.part_groups import highest_of_parts

if TYPE_CHECKING:
    from edgeseg.model.windows import Windows

_FEWEST = 2  # images of a variant: without one of them there has to be a mean


def settle_variants(config: FitConfig, dataset: Dataset) -> FitConfig:
    """Return the settings with the names of the variants that the folders of a dataset name."""
    counts = Counter(sample.variant for sample in dataset.train)
    names = tuple(sorted(name for name in counts if name is not None))
    check_same(config, dataset)
    if not names:
        return config
    if None in counts:
        loose = next(sample for sample in dataset.train if sample.variant is None)
        raise DatasetError(
            f"{loose.image}: beside the folders of the variants ({', '.join(names)}); put it into "
            "that of its variant"
        )
    fewest = min(names, key=lambda name: counts[name])
    if len(names) < 2 or counts[fewest] < _FEWEST:
        raise DatasetError(
            f"{dataset.root}: {counts[fewest]} good pictures in the folder {fewest}; variants are "
            f"two folders or more, with at least {_FEWEST} pictures each"
        )
    return config.with_options({"variants": names})


def check_opened(dataset: Dataset) -> None:
    """Refuse a dataset without a folder for each variant, where they were asked for."""
    if not any(sample.variant for sample in dataset.train):
        raise UsageError(
            Setting("variants", True),
            f": {dataset.root} has no folders with good pictures; expected one for each variant, "
            "such as red/ and blue/",
        )


def check_same(config: FitConfig, dataset: Dataset) -> None:
    """Refuse images of other variants than those that settings or a model name."""
    found = sorted({sample.variant or "none" for sample in dataset.train})
    if config.variants and found != sorted(config.variants):
        raise UsageError(
            f"{dataset.root}: pictures of the variants {', '.join(found)}, expected those of "
            f"{', '.join(config.variants)}: a folder of each, as in the fit"
        )


def numbers_of(config: FitConfig, samples: Sequence[Sample], places: Sequence[int]) -> list[int]:
    """Return the variant of some of the images, by its place among the names; none of one."""
    number = {name: place for place, name in enumerate(config.variants)}
    return [number[str(samples[place].variant)] for place in places] if number else []


def add_images_(
    windows: "Windows",
    moments: Moments,
    x_nkhw: NDArray[np.float32],
    *,
    images: int,
    variants: Sequence[int],
) -> None:
    """Add embedded inputs of some images to moments, in place; those of variants to their own."""
    if not isinstance(moments, VariantMoments):
        windows.add_(moments, x_nkhw, images=images)
        return
    own = np.asarray(variants)
    for variant in np.unique(own).tolist():
        x = x_nkhw[own == variant]
        windows.add_(moments.part_(variant), x, images=len(x))
    moments.settle_()


def check_means(config: FitConfig, moments: Moments) -> None:
    """Refuse moments in which a variant has no image and so no mean."""
    if not isinstance(moments, VariantMoments):
        return
    for name, count in zip(config.variants, moments.own_count, strict=True):
        if not count.min() > 0:
            raise DatasetError(
                f"variant {name}: no picture is left when those that show one part are held out; "
                "expected pictures of two different parts at least"
            )


def by_variant(order: Sequence[int], variants: Sequence[int]) -> list[int]:
    """Return an order in which variants come one after another: folds then have all of them."""
    return sorted(order, key=lambda unit: variants[unit]) if variants else list(order)


def variant_table(
    config: FitConfig, calibration: Calibration, planted: Sequence[tuple[int, float]]
) -> Iterator[str]:
    """Yield what one threshold for all means to each variant, where there are some.

    `planted` are planted defects: the variant that each is on, and its score.
    """
    good, threshold = calibration.good, calibration.score_threshold
    if not good.variants:
        return
    shown, named = np.array(good.variants).T
    copied = np.array([variant for variant, _ in planted])
    found = above(np.array([score for _, score in planted], np.float64), threshold)
    rows = [("variant", "good parts", "flagged", "named rightly", "threshold", "alone", "planted")]
    for number, name in enumerate(config.variants):
        own = shown == number
        if not own.any():  # of very many images some are kept
            continue
        groups = good.groups[own] if good.groups.size else good.groups
        scores = highest_of_parts(good.scores[own], groups)
        alone = rate_threshold(
            scores.tolist(),
            false_alarm_rate=calibration.requested_rate,
            promise=calibration.promise,
        )
        copies = copied == number
        rows.append(
            (
                name,
                f"{scores.size}",
                f"{int(above(scores, threshold).sum())}",
                f"{int((named[own] == number).sum())} of {int(own.sum())}",
                f"{threshold:.4g}",
                f"{alone.value:.4g}",
                f"{int(found[copies].sum())} of {int(copies.sum())} found",
            )
        )
    yield from align_columns(rows)
