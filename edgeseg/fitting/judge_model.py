"""Gaussians and their thresholds, from embeddings that a pass has collected."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.messages import Message, Setting
from edgeseg.data.datasets import Sample, load_batches
from edgeseg.decision.calibration import Calibration, GoodImageScores, calibrate
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.fitting.checkpoint import Collected
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.group_sums import group_expected_d2, group_factors
from edgeseg.fitting.held_out import HeldOutScorer, Visitor
from edgeseg.fitting.known_learning import KnownLearner
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.part_evidence import evidence_apart, evidence_by_folds
from edgeseg.fitting.planting import PlantedPictures
from edgeseg.model.factors import Factors
from edgeseg.model.gaussian_head import GaussianHead, Insides, Maps
from edgeseg.model.moments import Moments
from edgeseg.model.predictor import VariantPredictor, frame_predictor, variant_scores
from edgeseg.vision.part_groups import Grouping


@dataclass(frozen=True, kw_only=True)
class JudgedModel:
    """Gaussians and their thresholds."""

    factors: Factors
    calibration: Calibration
    planted: PlantedScores | None


def held_out_scorer(space: FeatureSpace, options: FitOptions) -> HeldOutScorer:
    return HeldOutScorer(
        space=space, group=options.group, batch_size=options.batch_size, steps=options.steps
    )


def judge_model(
    scorer: HeldOutScorer,
    pooled: Moments,
    collected: Collected,
    options: FitOptions,
    *,
    learner: KnownLearner | None = None,
) -> JudgedModel:
    """Make factors, and thresholds from good images that are judged without themselves."""
    space, group, moments = scorer.space, options.group, collected.moments
    config = space.config
    factors = group_factors(config, pooled, group, known=space.known, whitened=scorer.whitened)
    head = space.head(factors)
    expected = group_expected_d2(config, factors, moments, group)
    measured = scorer.mean_d2(head, collected.seen)
    seen = sum(group.gather(len(collected.seen)))
    _check_d2(expected, measured, whole=seen == moments.images, ridge=factors.ridge)
    found = _good_images(scorer, head, pooled, collected, options=options, learner=learner)
    planted = collected.planted.result() if collected.planted else None
    calibration = calibrate(
        found.good,
        false_alarm_rate=config.false_alarm_rate,
        promise=config.promise,
        origin=found.origin,
        expected_d2=expected,
        measured_d2=measured,
        unseen=found.unseen,
        anomaly_scores=_anomaly_scores(space, head, options),
        planted_floors=() if planted is None else planted.floors,
        appearance=collected.appearance,
        grouping=found.grouping,
    )
    return JudgedModel(factors=factors, calibration=calibration, planted=planted)


@dataclass(frozen=True, kw_only=True)
class _GoodImages:
    """Scores of the good images that count, and what is known of them."""

    good: GoodImageScores
    origin: ScoreOrigin
    grouping: Grouping
    unseen: bool = True  # False: the model knows what it judges, and nothing is promised


def _good_images(
    scorer: HeldOutScorer,
    head: GaussianHead,
    pooled: Moments,
    collected: Collected,
    *,
    options: FitOptions,
    learner: KnownLearner | None,
) -> _GoodImages:
    config, planted = scorer.space.config, collected.planted
    seen, unseen = collected.seen, collected.unseen
    apart = sum(options.group.gather(len(unseen))) > 0
    if apart:
        evidence = evidence_apart(seen, unseen, options.group)
    else:
        evidence = evidence_by_folds(seen, options.group)
    for sentence in evidence.sentences():
        options.note(sentence)
    if apart and evidence.count:
        for copies in (planted, collected.spots):
            if copies is not None:
                copies.score(head, unseen.places)
        good = scorer.scores_by_model(head, unseen, evidence)
        origin = ScoreOrigin(kind="split")
        return _GoodImages(good=good, origin=origin, grouping=evidence.grouping)
    if evidence.count < 2 and (apart or evidence.images + evidence.left_out < 2):
        good = scorer.scores_by_model(head, unseen if apart else seen)
        origin = ScoreOrigin(kind="copies" if apart else "fitted")
        return _GoodImages(good=good, origin=origin, grouping=evidence.grouping, unseen=False)
    whole, evidence = evidence, evidence.by_images() if evidence.count < 2 else evidence
    good = scorer.cross_fold_scores(
        pooled,
        seen,
        evidence=evidence,
        seed=config.seed,
        visit=_visit_all((planted, collected.spots), learner),
    )
    folds = min(config.folds, evidence.count)
    if evidence is not whole:
        # Images of one part judge each other: a threshold, and no promise for another part.
        good = replace(good, groups=np.zeros(good.count, np.float32))
    origin = ScoreOrigin(kind="cross", folds=folds)
    # So do the parts of one picture, where it is the only one.
    of_others, grouping = evidence is whole or good.count > 1, evidence.grouping
    if config.geometry.several is not None and not options.group_by.knows:
        grouping = "pictures"  # parts were known by theirs, and near-copies of these by looking
    return _GoodImages(good=good, origin=origin, grouping=grouping, unseen=of_others)


def _visit_all(
    pictures: Sequence[PlantedPictures | None], learner: KnownLearner | None
) -> Visitor | None:
    visitors: list[Visitor] = [copies.score for copies in pictures if copies is not None]
    visitors += [] if learner is None else [learner.visit]
    if not visitors:
        return None

    def visit(head: GaussianHead, places: Sequence[int]) -> None:
        for each in visitors:
            each(head, places)

    return visit


def _check_d2(expected: float, measured: float, *, whole: bool, ridge: float) -> None:
    # Two ways to the same number: the moments in float64, the images through the model in
    # float32. They part only if the numerics failed.
    if whole and abs(measured - expected) > 0.01 * max(expected, 1e-3):
        raise EdgesegError(
            f"the fit is numerically unsound: mean d^2 is {measured:.4g} on the fitted "
            f"images, expected {expected:.4g} from their moments, with ",
            Setting("ridge", f"{ridge:g}"),
            "; try a larger one",
        )


def _anomaly_scores(space: FeatureSpace, head: GaussianHead, options: FitOptions) -> list[float]:
    config = space.config
    share: Sequence[Sample] = options.anomalies[options.group.rank :: options.group.size]
    size = options.for_images(config.image_hw).batch_size
    batches = load_batches(
        share,
        size_hw=config.image_hw,
        geometry=config.geometry,
        batch_size=size,
        max_bad=options.max_bad,
        max_pixels=options.max_pixels,
    )
    predict = head_predictor(space, head)
    scores: list[float] = []
    for batch in options.steps(
        batches, length=-(-len(share) // size), label=Message("work_scoring")
    ):
        scores += variant_scores(predict(batch.frames)).scores.tolist()
    return [score for part in options.group.gather(scores) for score in part]


def head_predictor(space: FeatureSpace, head: GaussianHead) -> VariantPredictor:
    """Return a predictor of frames by way of the embeddings that the model was fitted on."""
    embed = space.input_embedder()

    def predict(frames: NDArray[np.uint8], insides: Insides = ()) -> tuple[Maps, Maps]:
        return head.judge(space.inputs(embed(frames)), insides)

    return frame_predictor(predict, space.config)
