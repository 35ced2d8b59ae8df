"""Known defects to the kinds of a model: their directions, and how well they tell each other.

pictures by kind -> cells of the place that is marked, or oddest -> z -> direction -> KnownKinds
each known defect, judged by the others -> how often the kind is right, and what is unknown
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.base.packed import PackedArray
from edgeseg.data.known_defects import UNNAMED_KIND
from edgeseg.data.samples import Sample, load_batches
from edgeseg.decision.explain import cells_of, core_of
from edgeseg.decision.kinds import KnownKinds, Severity, unit_rows, vote
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.options import FitOptions
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.moments import Moments
from edgeseg.vision.images import resize_mask

_RIDGE = 0.1  # mean squares of good deviations: directions that hardly vary must not decide alone
_KEPT = 0.05  # of known ones, judged by the others of their kind: so many may count as unknown


def learn_kinds(
    space: FeatureSpace, head: GaussianHead, pooled: Moments, options: FitOptions
) -> KnownKinds | None:
    """Return the kinds of the known defects of a fit; None where there are none."""
    severity = dict(options.severity)
    names = tuple(sorted({str(sample.kind) for sample in options.known}))
    _check_severity(severity, names)
    if not options.known or names == (UNNAMED_KIND,):
        return None
    rows, kinds = known_rows(space, head, options.known, options)
    learned = make_kinds(
        rows,
        kinds,
        projection=projection_of(pooled),
        severity=severity,
        order=options.kind_order,
    )
    options.tell(
        Message("kinds_learned", n=learned.right, n_all=learned.tried, names=", ".join(names))
    )
    return learned


def make_kinds(
    rows: NDArray[np.float32],
    kinds: Sequence[str],
    *,
    projection: NDArray[np.float32],
    severity: Mapping[str, Severity] = MappingProxyType({}),
    order: Sequence[str] = (),
) -> KnownKinds:
    """Make the kinds of known defects from the mean z (n, k) of their cells.

    Names in `order` keep their places, whether there are defects of them or not.
    """
    names = tuple(dict.fromkeys((*order, *sorted(set(kinds)))))
    numbers = np.array([names.index(kind) for kind in kinds], np.int64)
    directions = unit_rows(rows @ projection)
    right, tried, limit = judge_each(directions, numbers)
    return KnownKinds(
        names=names,
        severity=tuple(severity.get(name) for name in names),
        kinds=tuple(numbers.tolist()),
        projection=PackedArray.of(projection),
        directions=PackedArray.of(directions),
        limit=limit,
        right=right,
        tried=tried,
    )


def _check_severity(severity: Mapping[str, Severity], names: Sequence[str]) -> None:
    unknown = sorted(set(severity) - set(names))
    if unknown:
        known = ", ".join(names) or "none: give a folder of known defects"
        raise UsageError(
            Setting("severity", unknown[0]), f": no such kind; the known defects are {known}"
        )


def projection_of(pooled: Moments) -> NDArray[np.float32]:
    """Return what turns z (k,) into units of how much good parts vary, over all places."""
    count = np.maximum(pooled.count, 1)[:, None, None]
    covariance = (pooled.scatter / count).mean(axis=0)
    variance, vectors = np.linalg.eigh(covariance)
    ridge = _RIDGE * float(np.trace(covariance)) / len(covariance)
    scaled = vectors / np.sqrt(np.maximum(variance, 0) + max(ridge, 1e-12))
    projection = scaled @ vectors.T
    return np.asarray(projection / np.abs(projection).max(), np.float32)  # directions alone count


def judge_each(directions: NDArray[np.float32], kinds: NDArray[np.int64]) -> tuple[int, int, float]:
    """Judge each known defect by the others: how many are right, of how many, and the limit.

    Defects whose kind has no other are not tried. The limit is what nearly all of them reach in
    likeness to another of their own kind.
    """
    alike = directions @ directions.T
    np.fill_diagonal(alike, -np.inf)
    right, own = [], []
    for place, kind in enumerate(kinds.tolist()):
        others = np.flatnonzero(np.arange(len(kinds)) != place)
        same = others[kinds[others] == kind]
        if not same.size:
            continue
        number, _, _ = vote(alike[place, others], kinds[others])
        right.append(number == kind)
        own.append(float(alike[place, same].max()))
    limit = float(np.quantile(own, _KEPT)) if own else -1.0
    return sum(right), len(right), limit


def known_rows(
    space: FeatureSpace, head: GaussianHead, samples: Sequence[Sample], options: FitOptions
) -> tuple[NDArray[np.float32], list[str]]:
    """Return the mean z (n, k) of the cells of each known defect, and its kind."""
    config, rows, kinds = space.config, [], []
    batches = load_batches(
        samples,
        size_hw=config.image_hw,
        geometry=config.geometry,
        batch_size=1,
        max_bad=options.max_bad,
        max_pixels=options.max_pixels,
    )
    embed = space.input_embedder()
    label = Message("work_scoring")
    for batch in options.steps(batches, length=len(samples), label=label):
        inputs = space.inputs(embed(batch.frames))
        inside = batch.views[0].inside(config.grid_hw)
        cells = head.mask_ignored(head.distances(inputs))
        maps, _ = head.to_image(cells, (inside,))
        rows.append(_mean_cells(head, inputs, maps[0], batch.masks[0], cells.variants))
        kinds.append(str(batch.samples[0].kind))
    return np.stack(rows), kinds


def _mean_cells(
    head: GaussianHead,
    inputs: NDArray[np.float32],
    map_hw: NDArray[np.float32],
    mask_hw: NDArray[np.bool_] | None,
    variants: NDArray[np.int64] | None,
) -> NDArray[np.float32]:
    """Return the mean z (k,) of the cells where a known defect is: marked, or oddest."""
    size_hw = (map_hw.shape[0], map_hw.shape[1])
    region_hw = np.ones(size_hw, np.bool_)
    if mask_hw is not None and mask_hw.any():
        region_hw = resize_mask(mask_hw, size_hw)
    core_hw = core_of(map_hw, region_hw if region_hw.any() else np.ones(size_hw, np.bool_))
    apart_pk = head.apart(inputs, variants)[0]
    grid_hw = head.rule.grid_hw
    mean: NDArray[np.float32] = apart_pk[cells_of(map_hw, core_hw, grid_hw)].mean(axis=0)
    return mean
