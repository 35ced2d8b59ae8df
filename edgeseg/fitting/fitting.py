"""Good images to an artefact: one pass through the backbone, then linear algebra.

locate=auto, images -> how parts are found, by small fits                     locator/choose_way
settings, images -> where parts lie, backbone and W: the feature space        spaces
images -> backbone -> W'x: embeddings; all go into moments, some are kept     image_pass
moments -> windows of cells -> covariances, inverted: factors -> the model    model/windows
kept embeddings -> scores by models without them -> threshold                 held_out
settings, weights, W, factors, moments, threshold -> artefact                 model/artefact
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from edgeseg import __version__
from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.extras import versions as installed_versions
from edgeseg.base.messages import Message, Setting
from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import Sample, sample_size
from edgeseg.decision.calibration import Calibration
from edgeseg.decision.operating_point import needed_images
from edgeseg.decision.planted_scores import spots_found
from edgeseg.decision.score_origin import good_words, percent
from edgeseg.fitting.checkpoint import Collected
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.group_sums import sum_moments_
from edgeseg.fitting.image_pass import collect, split
from edgeseg.fitting.judge_model import JudgedModel, held_out_scorer, judge_model
from edgeseg.fitting.known_kinds import learn_kinds
from edgeseg.fitting.known_learning import KnownLearner, check_folds
from edgeseg.fitting.known_pictures import check_known, embed_known
from edgeseg.fitting.known_report import declined_sentence, known_sentences
from edgeseg.fitting.locator.choose_way import choose_way
from edgeseg.fitting.locator.wish import asks_to_choose
from edgeseg.fitting.odd_inputs import foreign_sentence
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.fitting.pooling import resolve_pool
from edgeseg.fitting.reasons import look_of_good, reasons_of
from edgeseg.fitting.smallest import smallest_facts, what_is_seen
from edgeseg.fitting.spaces import open_space
from edgeseg.fitting.variants import check_means, settle_variants, variant_table
from edgeseg.model.artefact import Artefact, sorted_prints
from edgeseg.model.known_directions import KnownDefects
from edgeseg.model.moments import Moments
from edgeseg.model.predictor import Embedder
from edgeseg.modelfile.history import FittedData, entry, highest
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.unreadable import unreadable_error

Screen = Callable[[FeatureSpace, Dataset], Dataset]

__all__ = ["FitOptions", "finish", "fit", "fit_in"]


def fit(
    dataset: Dataset,
    config: FitConfig,
    options: FitOptions | None = None,
    *,
    reference: Path | None = None,
    screen: Screen | None = None,
) -> Artefact:
    """Fit the Gaussian of every location on the good images of a dataset.

    With a group of processes each goes through its share, and all return the same artefact.
    Where parts are followed, places are named at the part of `reference`, by default the first
    image. `screen` chooses among the images before they are fitted on.
    """
    options = options or FitOptions()
    config = settle_variants(config, dataset)
    if asks_to_choose(config.geometry.locate):
        config = choose_way(dataset, config, options, reference=reference)
    space = open_space(dataset, config, options, reference=reference)
    if options.smallest is not None:
        camera_hw = sample_size(dataset.train[0], max_pixels=options.max_pixels)
        options.tell(what_is_seen(space.config, camera_hw, options.smallest))
    chosen = dataset if screen is None else screen(space, dataset)
    return fit_in(space, chosen, options)


def fit_in(space: FeatureSpace, dataset: Dataset, options: FitOptions) -> Artefact:
    """Fit in a space that is already open, whose embeddings may come from elsewhere."""
    if space.config.geometry.several is not None and options.anomalies:
        raise UsageError(
            Setting("anomalies"),
            ": which of several parts in a picture is defective is not known; leave it out, or "
            "choose a rate with `edgeseg threshold`",
        )
    if options.known:
        check_known(space, options)
    train, held_out = split(dataset, space.config, options.group_by)
    options.tell(Message("fit_images", n=len(train), name=dataset.name))
    shard = Shard(index=options.group.rank, count=options.group.size)
    planted = _most_planted(options)
    with collect(
        space, train, held_out, shard=shard, options=options, planted=planted
    ) as collected:
        share_facts(collected, options)
        for sentence in collected.census.sentences():
            options.note(sentence)
        collected.moments = sum_moments_(collected.moments, options.group)
        data = describe_data(
            dataset,
            held_out=len(held_out),
            max_pixels=options.max_pixels,
            by=options.group_by,
        )
        artefact = finish(space, collected, data=data, options=options)
    artefact = _with_look(artefact, train, options)
    screened = space.config.geometry.several is None
    if foreign := foreign_sentence(artefact.calibration.good, screened=screened):
        options.note(foreign)
    return artefact


def _with_look(artefact: Artefact, train: Sequence[Sample], options: FitOptions) -> Artefact:
    """Add the look of good images to the reasons of a model."""
    look = look_of_good(train, artefact.config, max_pixels=options.max_pixels)
    if artefact.reasons is None or look is None:
        return artefact
    return replace(artefact, reasons=replace(artefact.reasons, look=look))


def _most_planted(options: FitOptions) -> int:
    """Return how many planted defects to judge by; they need all images in one process."""
    if options.planted and options.group.size > 1:
        options.note("no planted defects: they are made by one process; fit without torchrun")
        return 0
    return options.planted


def describe_data(
    dataset: Dataset,
    *,
    held_out: int,
    max_pixels: int = FitOptions.max_pixels,
    by: GroupBy | None = None,
) -> FittedData:
    """Return what the header says of a dataset."""
    return FittedData(
        name=dataset.name,
        layout=dataset.layout,
        held_out=held_out,
        camera_hw=None if dataset.resized else _first_size(dataset, max_pixels),
        group_by=by.text if by is not None and by.knows else None,
    )


def _first_size(dataset: Dataset, max_pixels: int) -> tuple[int, int] | None:
    try:
        return sample_size(dataset.train[0], max_pixels=max_pixels)
    except DatasetError:  # the pass says so
        return None


def share_facts(collected: Collected, options: FitOptions) -> None:
    """Tell every process what all of them skipped."""
    used = collected.moments.images + len(collected.unseen)
    parts = options.group.gather((collected.bad, collected.newest, used))
    collected.bad = set().union(*(bad for bad, _, _ in parts))
    collected.newest = max(newest for _, newest, _ in parts)
    looks = options.group.gather((collected.appearance, collected.prints))
    collected.appearance = reduce(GoodAppearance.merge, (look for look, _ in looks))
    collected.prints = set().union(*(prints for _, prints in looks))
    unreadable = sorted(collected.bad)
    if len(unreadable) == 1:
        unreadable = [f"{unreadable[0]}: cannot be read"]
    count = len(unreadable) + sum(used for _, _, used in parts)
    if len(unreadable) > options.max_bad:
        advice = [
            "; more than ",
            Setting("max_bad", options.max_bad),
            ": repair them or allow more",
        ]
        raise unreadable_error(unreadable, of=count, advice=advice)
    if unreadable and len(unreadable) == count:
        raise unreadable_error(unreadable, of=count)


def finish(
    space: FeatureSpace, collected: Collected, *, data: FittedData, options: FitOptions
) -> Artefact:
    """Make factors, thresholds and the artefact from the moments and the kept embeddings."""
    group, moments = options.group, collected.moments
    seen_here = collected.seen if len(collected.seen) else collected.unseen
    space = resolve_pool(space, moments, seen_here, alone=group.size == 1, note=options.note)
    config = space.config
    check_means(config, moments)
    pooled = space.windows.pool_moments(moments)
    known = None
    if options.known:
        judged, known = _judge_known(space, pooled, collected, options)
    else:
        judged = judge_model(held_out_scorer(space, options), pooled, collected, options)
    warn_about(judged.calibration, options)
    smallest = _smallest(config, data, collected, options)
    if smallest:
        threshold = judged.calibration.score_threshold
        options.tell(spots_found(smallest["smallest"], threshold))
    for line in variant_table(config, judged.calibration, _planted_variants(collected)):
        options.note(line)
    good = judged.calibration.good
    return Artefact(
        config=config,
        weights=space.weights,
        origin=space.origin,
        embedding=space.embedding,
        factors=replace(judged.factors, whitening=None),
        # Nothing goes on from those of variants: see moments_of in update.py.
        moments=moments if options.keep_moments and not config.variants else None,
        calibration=judged.calibration,
        known=known,
        planted=judged.planted,
        reasons=reasons_of(
            config, embedding=space.embedding, factors=judged.factors, pooled=pooled, look=None
        ),
        kinds=learn_kinds(space, space.head(judged.factors), pooled, options),
        prints=sorted_prints(collected.prints),
        data={
            **data.facts(images=moments.images, bad=collected.bad),
            "highest": highest(good),
            **smallest,
        },
        versions=versions(space.through),
        history=[entry("fit", images=moments.images, source=data.name, newest=collected.newest)],
    )


def _judge_known(
    space: FeatureSpace, pooled: Moments, collected: Collected, options: FitOptions
) -> tuple[JudgedModel, KnownDefects | None]:
    """Judge by the model of good parts alone, learn known defects by it, and judge by both.

    Where fewer of them would be found than before, they teach nothing, and the first model stays.
    """
    pictures = embed_known(space, options, collected.prints)
    learner = KnownLearner(store=collected.seen, pictures=pictures)
    scorer = replace(held_out_scorer(space, options), whitened=True)
    plain = judge_model(scorer, pooled, collected, options, learner=learner)
    check_folds(learner)
    head = space.head(plain.factors)
    learned, by_fold = learner.learn(head), learner.by_fold()
    scorer = replace(scorer, space=replace(space, known=learned), whitened=False, by_fold=by_fold)
    judged = judge_model(scorer, pooled, collected, replace(options, note=ignore, listener=None))
    facts = learner.facts(
        head,
        space.head(judged.factors),
        before=plain.calibration.score_threshold,
        after=judged.calibration.score_threshold,
    )
    if facts.found < facts.found_before:
        options.tell(declined_sentence(facts))
        return plain, None
    for sentence in known_sentences(facts, plain.planted, judged.planted, judged.calibration):
        options.tell(sentence)
    return judged, KnownDefects(learned=learned, facts=facts)


def _smallest(
    config: FitConfig, data: FittedData, collected: Collected, options: FitOptions
) -> JsonObject:
    """Return what the header says of the smallest defect that matters, where it was said."""
    if options.smallest is None or data.camera_hw is None:
        return {}
    spots = None if collected.spots is None else collected.spots.result()
    facts = smallest_facts(options.smallest, config, data.camera_hw, spots)
    return {"smallest": facts}


def _planted_variants(collected: Collected) -> list[tuple[int, float]]:
    """Return the variant that each planted defect is on, and its score."""
    if collected.planted is None:
        return []
    apart = collected.unseen if len(collected.unseen) else collected.seen
    variants, judged = apart.variants, collected.planted.by_place()
    return [(variants[place], score) for place, score in judged if place in variants]


def warn_about(calibration: Calibration, options: FitOptions) -> None:
    """Warn if there were too few good images for the requested rate."""
    wish, answer = calibration.requested_rate, calibration.answered_rate
    good = calibration.good
    words, copies = good_words(good.count, good.parts), good.parts < good.count
    if copies and calibration.grouping == "pictures":
        options.note(
            f"{words}: near-copies count once, and {needed_images(wish)} different parts promise "
            f"{percent(wish)}; if they all are different, say so with --group-by none"
        )
    if answer > wish and not options.anomalies:
        options.note(
            f"{words} answer for a false-alarm rate of {answer:.1%}, not {wish:.1%}; "
            f"{needed_images(wish)}{' different parts' * copies} would do"
        )


def versions(through: Embedder | None) -> dict[str, str]:
    """Return the versions of what made the artefact: numpy, and what embedded the images."""
    embedding = ("torch", "torchvision") if through is None else ("onnxruntime", "openvino")
    python = {"python": platform.python_version()}
    return {"edgeseg": __version__} | installed_versions((*embedding, "numpy")) | python
