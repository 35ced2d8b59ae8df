"""Learning on site: add images to a model, remove some, let old ones fade, and merge models.

All of these are sums of moments. Afterwards factors and threshold are computed anew.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import Note
from edgeseg.data.datasets import Dataset
from edgeseg.decision.calibration import GRID_BYTES, GoodImageScores, calibrate, no_groups
from edgeseg.decision.operating_point import needed_images
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.fitting.checkpoint import Collected, describe_space, difference
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import share_facts, versions, warn_about
from edgeseg.fitting.group_sums import group_expected_d2, group_factors
from edgeseg.fitting.held_out import HeldOutScorer
from edgeseg.fitting.image_pass import collect
from edgeseg.fitting.options import Changes, FitOptions, Shard
from edgeseg.fitting.part_evidence import evidence_apart, evidence_by_folds
from edgeseg.fitting.smallest import without_spots
from edgeseg.fitting.spaces import space_of
from edgeseg.model.artefact import Artefact, sorted_prints
from edgeseg.model.factors import with_diagonal
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.moments import Floats, Moments
from edgeseg.model.parallel import in_parallel
from edgeseg.modelfile.history import entry, highest, note_value
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.part_groups import Grouping

# Of a scatter's trace: embeddings of the same image differ in their seventh digit from one
# machine to another, and a direction that no other image has then comes out just below zero.
INDEFINITE = 1e-6
CONSTANT = 1e-20  # of a squared mean: a constant pixel has no trace, only float64's rounding


def update(artefact: Artefact, changes: Changes, options: FitOptions) -> Artefact:
    """Return the model of the images it had, without some of them and with others."""
    space = space_of(artefact, options)
    moments = moments_of(artefact, "this model")
    history = list(artefact.history)
    bad: set[str] = set()
    prints: set[int] = set(artefact.prints.tolist())
    with ExitStack() as stack:
        if changes.forget is not None:
            gone = _collect(stack, space, changes.forget, options)
            moments = forget(moments, gone.moments, name=changes.forget.name)
            history.append(_line("forget", gone, changes.forget))
            prints -= gone.prints
        seen: Collected | None = None
        if changes.more is not None:
            seen = _collect(stack, space, changes.more, options, once=frozenset(prints))
            _tell_of(seen, artefact, options.note)
            if not seen.moments.images:
                raise UsageError(
                    f"more={changes.more.name}: the model has all of its {len(changes.more.train)} "
                    "pictures already; expected new ones"
                )
            bad = seen.bad
            prints |= seen.prints
            if changes.decay < 1:
                line = _line("decay", seen, changes.more) | {"factor": changes.decay}
                history.append(line | {"images": moments.images})
                moments = moments.scale(changes.decay)
            moments = moments.merge(seen.moments)
            history.append(_line("update", seen, changes.more))
        changed = replace(
            artefact,
            moments=moments,
            prints=sorted_prints(prints),
            history=history,
            data=artefact.data
            | {
                "fitted": moments.images,
                "unreadable": sorted(
                    {*artefact.data["unreadable"], *(_name(path) for path in bad)}
                ),
            },
        )
        return refresh(
            changed, [artefact], space=space, seen=seen, apart=changes.calibrate, options=options
        )


def merge_models(
    models: dict[str, Artefact], *, apart: Dataset | None, options: FitOptions
) -> Artefact:
    """Return one model of the images of several with the same settings, W and weights."""
    (first_name, first), *rest = models.items()
    moments = moments_of(first, first_name)
    for name, model in rest:
        changed = difference(*(describe_space(FeatureSpace.of(part)) for part in (first, model)))
        if changed is not None:
            raise UsageError(
                f"{first_name} and {name} cannot be joined ({changed}); fit both with the same "
                "settings and seed"
            )
        moments = moments.merge(moments_of(model, name))
    parts = list(models.values())
    history = [line for model in parts for line in model.history]
    when = max((line["when"] for line in history), default="")
    joined = {"action": "merge", "images": moments.images, "from": " + ".join(models)}
    whole = replace(
        first,
        moments=moments,
        prints=sorted_prints({print_ for model in parts for print_ in model.prints.tolist()}),
        history=[*history, joined | {"when": when}],
        data={
            "name": " + ".join(dict.fromkeys(model.data["name"] for model in parts)),
            "layout": " + ".join(dict.fromkeys(model.data["layout"] for model in parts)),
            "fitted": moments.images,
            "held_out": sum(model.data["held_out"] for model in parts),
            "unreadable": sorted({name for model in parts for name in model.data["unreadable"]}),
        },
    )
    # Without images nothing is embedded.
    space = FeatureSpace.of(first) if apart is None else space_of(first, options)
    return refresh(whole, parts, space=space, seen=None, apart=apart, options=options)


def forget(moments: Moments, gone: Moments, *, name: str) -> Moments:
    """Return moments without these images; refused if they cannot have been among them."""
    about = "about " if moments.decayed else ""
    if bool((moments.count - gone.count < 1 - 1e-9).any()):
        raise UsageError(
            Setting("forget", name),
            f": {gone.images} images of a model of {about}{moments.images}: none would be "
            "left; fit a new model",
        )
    rest = moments.remove(gone)
    locations, k = rest.mean.shape
    failed = np.zeros(locations, np.bool_)

    def check(start: int, stop: int) -> None:
        trace = moments.scatter[start:stop].diagonal(axis1=1, axis2=2).sum(axis=1)
        size = np.square(moments.mean[start:stop]).sum(axis=1)
        jitter = INDEFINITE * trace + CONSTANT * (1 + size)
        failed[start:stop] = _indefinite(with_diagonal(rest.scatter[start:stop], jitter))

    in_parallel(check, locations, bytes_each=8 * k * k)
    if bool(failed.any()):
        raise UsageError(
            Setting("forget", name),
            f": without these {gone.images} images {int(failed.sum())} of {locations} "
            "covariances would be negative, so not all of them are part of this model, or "
            "they count less since a decay; expected images that it was fitted on",
        )
    return rest


def _indefinite(matrices: Floats) -> NDArray[np.bool_]:
    """Return which of some symmetric matrices (B, k, k) have no Cholesky factor."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.ones(1, np.bool_)
        return np.concatenate([_indefinite(matrix[None]) for matrix in matrices])
    return np.zeros(len(matrices), np.bool_)


def refresh(
    changed: Artefact,
    earlier: Sequence[Artefact],
    *,
    space: FeatureSpace,
    seen: Collected | None,
    apart: Dataset | None,
    options: FitOptions,
) -> Artefact:
    """Compute factors and thresholds for new moments, from the best good images there are.

    These are images kept apart; else new ones, each scored by the model without its fold; else, or
    where these are too few for the false-alarm rate, together with the scores of earlier models.
    """
    moments = moments_of(changed, "this model")
    scorer = HeldOutScorer(space=space, batch_size=options.batch_size, steps=options.steps)
    pooled = space.windows.pool_moments(moments)
    factors = group_factors(space.config, pooled, known=space.known)
    head = space.head(factors)
    if apart is not None:
        good, looks, grouping = _from_apart(scorer, head, apart, seen, options)
        origin = ScoreOrigin(kind="split")
    else:
        new, looks = seen.seen if seen is not None else None, GoodAppearance()
        good, origin, grouping = _from_new_and_earlier(scorer, pooled, new, earlier, options.note)
    # Without images nothing can be measured: what the earlier models measured is the next best.
    measured = float(np.mean([artefact.calibration.measured_d2 for artefact in earlier]))
    calibration = calibrate(
        good,
        # That of the settings, unless `edgeseg threshold` has chosen another one since.
        false_alarm_rate=earlier[0].calibration.requested_rate,
        promise=earlier[0].calibration.promise,
        origin=origin,
        expected_d2=group_expected_d2(space.config, factors, moments),
        measured_d2=measured if seen is None else scorer.mean_d2(head, seen.seen),
        appearance=_join_looks(earlier, looks if seen is None else looks.merge(seen.appearance)),
        grouping=grouping,
    )
    warn_about(calibration, options)
    _say_what_is_dropped(earlier, options.note)
    return replace(
        changed,
        factors=factors,
        calibration=calibration,
        planted=None,  # those of an earlier model say nothing of this one
        data=without_spots(changed.data) | {"highest": highest(good)},
        accuracy=[],
        versions=versions(space.through),
    )


def _say_what_is_dropped(earlier: Sequence[Artefact], note: Note) -> None:
    for artefact in earlier:
        note_value(artefact.history, artefact.calibration.score_threshold, note)
    if any(artefact.calibration.unsure_rate is not None for artefact in earlier):
        note("the band of unsure scores is dropped; choose it again: edgeseg threshold")
    if any(artefact.accuracy for artefact in earlier):
        note("stored figures of accuracy were of an earlier model and are dropped")


def _join_looks(earlier: Sequence[Artefact], looks: GoodAppearance) -> GoodAppearance:
    """Join the appearance of the images of all models and of new ones.

    Forgotten images still count: a range does not remember what made it.
    """
    for artefact in earlier:
        looks = looks.merge(artefact.calibration.appearance)
    return looks


def _from_apart(
    scorer: HeldOutScorer,
    head: GaussianHead,
    apart: Dataset,
    seen: Collected | None,
    options: FitOptions,
) -> tuple[GoodImageScores, GoodAppearance, Grouping]:
    with ExitStack() as stack:
        kept = _collect(stack, scorer.space, apart, options, fitted=False)
        # Of the images behind a model only those that were just added are there to compare with.
        fitted = kept.seen if seen is None else seen.seen
        evidence = evidence_apart(fitted, kept.unseen, options.group)
        for sentence in (*kept.census.sentences(), *evidence.sentences()):
            options.note(sentence)
        if not evidence.count:
            raise UsageError(
                "calibrate: all of its images are near-copies of images that are added; expected "
                "good images of other parts"
            )
        good = scorer.scores_by_model(head, kept.unseen, evidence)
        return good, kept.appearance, evidence.grouping


def _from_new_and_earlier(
    scorer: HeldOutScorer,
    pooled: Moments,
    new: EmbeddingStore | None,
    earlier: Sequence[Artefact],
    note: Note,
) -> tuple[GoodImageScores, ScoreOrigin, Grouping]:
    scores = [artefact.calibration.good for artefact in earlier]
    groupings = {artefact.calibration.grouping for artefact in earlier}
    origin = ScoreOrigin(kind="earlier", earlier_models=len(scores))
    if new is not None:
        evidence = evidence_by_folds(new, scorer.group)
        fresh = scorer.cross_fold_scores(
            pooled, new, evidence=evidence, seed=scorer.space.config.seed
        )
        on_new = ScoreOrigin(kind="cross", new_images=fresh.count)
        groupings.add(evidence.grouping)
        if fresh.parts >= needed_images(earlier[0].calibration.requested_rate):
            return fresh, on_new, evidence.grouping
        origin = replace(on_new, earlier_models=len(scores))
        scores = [fresh, *scores]
    note(
        "the threshold rests on scores that an earlier model gave; "
        "calibrate on good images kept apart for a better one"
    )
    return join_scores(scores), origin, "pictures" if "pictures" in groupings else "told"


def join_scores(parts: Sequence[GoodImageScores]) -> GoodImageScores:
    """Join the scores of several sets of images to those of one."""
    weight = np.array([part.count for part in parts], np.float64)
    weight /= weight.sum()
    mean = np.stack([part.d2_mean for part in parts]).astype(np.float64)  # (sets, h, w)
    square = np.stack([part.d2_std for part in parts]).astype(np.float64) ** 2 + mean**2
    whole, whole_square = (np.einsum("p,phw->hw", weight, values) for values in (mean, square))
    return GoodImageScores(
        scores=np.concatenate([part.scores for part in parts]),
        peaks=np.concatenate([part.peaks for part in parts]),
        frame_d2=np.concatenate([part.frame_d2 for part in parts]),
        floors=np.concatenate([part.floors for part in parts]),
        d2_mean=whole.astype(np.float32),
        d2_std=np.sqrt(np.clip(whole_square - whole**2, 0, None)).astype(np.float32),
        grids=_join_grids([part.grids for part in parts]),
        shown_grids=_join_grids([part.shown_grids for part in parts]),
        groups=_join_groups(parts),
    )


def _join_groups(parts: Sequence[GoodImageScores]) -> NDArray[np.float32]:
    """Number the parts of all sets; parts of different sets count as different."""
    if not any(part.groups.size for part in parts):
        return no_groups()
    numbers, first = [], 0
    for part in parts:
        own = part.groups if part.groups.size else np.arange(part.count)
        _, of_each = np.unique(own, return_inverse=True)
        numbers.append(first + of_each)
        first += part.parts
    return np.concatenate(numbers).astype(np.float32)


def _join_grids(parts: Sequence[NDArray[np.float16] | None]) -> NDArray[np.float16] | None:
    grids = [grids for grids in parts if grids is not None]
    fits = sum(grid.nbytes for grid in grids) <= GRID_BYTES
    return np.concatenate(grids) if fits and len(grids) == len(parts) else None


def moments_of(artefact: Artefact, name: str) -> Moments:
    """Return the moments of a model, which may have been left out of its file."""
    if artefact.config.variants:
        raise UsageError(
            f"{name} has several variants, which only a whole fit takes in: no images can be added "
            "to it, taken out or joined; fit again on all pictures with `edgeseg fit --variants`"
        )
    if artefact.config.geometry.several is not None:
        raise UsageError(
            f"{name} judges several parts in a picture, and its threshold is one of whole "
            "pictures: no images can be added to it, taken out or joined; fit again on all pictures"
        )
    if artefact.moments is None:
        raise ArtefactError(
            f"{name} was saved without its moments and cannot change; fit it again and keep them"
        )
    return artefact.moments


def _collect(
    stack: ExitStack,
    space: FeatureSpace,
    dataset: Dataset,
    options: FitOptions,
    *,
    fitted: bool = True,
    once: frozenset[int] | None = None,
) -> Collected:
    """Go through a folder of images: into moments and store, or only into the store."""
    samples = dataset.train
    image_pass = collect(
        space,
        samples if fitted else (),
        () if fitted else samples,
        shard=Shard(),
        options=options,
        once=once,
    )
    collected = stack.enter_context(image_pass)
    share_facts(collected, options)
    return collected


def _tell_of(seen: Collected, artefact: Artefact, note: Note) -> None:
    """Note what is odd among new images, by themselves and beside those of the model."""
    limits = artefact.calibration.thresholds.appearance
    for sentence in seen.census.sentences(None if limits is None else limits.colour):
        note(sentence)


def _line(action: str, collected: Collected, dataset: Dataset) -> JsonObject:
    images = collected.moments.images
    return entry(action, images=images, source=dataset.name, newest=collected.newest)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
