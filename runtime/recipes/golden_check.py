"""Check golden pictures: score them in the session that inspects, and compare with the approval.

pictures --the stream's own Scorer, n times--> verdicts, scores, spread --bounds--> a record
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.plain import finite
from edgeseg.base.utc import utc_time
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.recipes.approval import (
    Approval,
    GoldenPicture,
    MasterScore,
    golden_files,
    master_files,
    read_approval,
)
from edgeseg.runtime.recipes.check_record import CheckRecord, MistakeRate, PictureCheck
from edgeseg.runtime.recipes.master_part import MasterLook, compare_master
from edgeseg.runtime.recipes.recipe import Recipe
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer
from edgeseg.vision.images import decode_image

Image = NDArray[np.uint8]


class RecipeJudge:
    """A recipe's session and settings, as the stream uses them, for single pictures."""

    def __init__(
        self, recipe: Recipe, session: Session, *, between: Callable[[], None] = lambda: None
    ) -> None:
        self.recipe, self.session = recipe, session
        self._between = between  # pictures: a loop that checks in its own thread stays alive
        self.scorer = Scorer(
            session, [recipe.name], config=recipe.scorer_config(), meters=StreamMeters(1)
        )

    def score(self, image_hwc: Image, *, name: str) -> FrameResult:
        """Score one picture like a captured frame."""
        self._between()
        self.scorer.check(image_hwc.shape[:2], source=name)
        now_ns = time.monotonic_ns()
        frame = Frame(
            source_index=0,
            frame_index=0,
            image_hwc=image_hwc,
            channels="rgb",
            grabbed_ns=now_ns,
            wall_s=time.time(),
            name=name,
        )
        return self.scorer.score([(frame, now_ns)])[0]


@dataclass(kw_only=True)
class _Finding:
    """The findings of a check so far."""

    problems: list[str] = field(default_factory=list)
    pictures: list[PictureCheck] = field(default_factory=list)
    master: MasterLook | None = None


def approve(judge: RecipeJudge, *, master: Sequence[Image] | None = None) -> Approval:
    """Approve today's verdicts and scores of the golden set; a wrong verdict is refused."""
    pictures = []
    for name, path in golden_files(judge.recipe):
        data = judge.recipe.files.read(path)
        result = judge.score(decode_image(data, name=path), name=name)
        picture = GoldenPicture(
            file=name,
            sha256=hashlib.sha256(data).hexdigest(),
            verdict=result.verdict,
            score=_score(result, name, judge),
            variant=result.prediction.variant,
        )
        if (picture.label == "good") != (picture.verdict == "good"):
            raise RuntimeFailure(
                f"{path}: judged {picture.verdict} ({picture.score:.4g}, threshold "
                f"{judge.scorer.thresholds.score:.4g}), expected {picture.label}; take it out, or "
                "choose another threshold with `edgeseg threshold`"
            )
        pictures.append(picture)
    if not pictures:
        raise UsageError(
            f"{judge.recipe.golden}: no pictures; add some with `edgeseg recipe add-golden`"
        )
    frames = _master_frames(judge.recipe) if master is None else master
    session = judge.session
    return Approval(
        approved=utc_time(),
        model_sha256=session.model_sha256,
        precision=session.metadata.precision,
        arithmetic=session.arithmetic,
        backend=session.backend,
        threshold=judge.scorer.thresholds.score,
        pictures=tuple(pictures),
        master=_master_score(judge, frames) if frames else None,
    )


def check_golden(judge: RecipeJudge, *, live: Sequence[Image] = ()) -> CheckRecord:
    """Score the golden set, and the live master part if there are frames of it."""
    approval, found = read_approval(judge.recipe), _Finding()
    found.problems += _identity(judge, approval)
    for picture in approval.pictures:
        _check_picture(judge, picture, found, same_model=True)
    found.problems += _other_files(judge.recipe, approval)
    if live:
        _check_master(judge, approval, live, found)
    return _record(judge, found)


def prove(judge: RecipeJudge) -> CheckRecord:
    """Check that a new model gives the right verdict on every golden picture.

    Its scores may differ, since it is another model; they are approved with it.
    """
    approval, found = read_approval(judge.recipe), _Finding()
    for picture in approval.pictures:
        _check_picture(judge, picture, found, same_model=False)
    found.problems += _other_files(judge.recipe, approval)
    return _record(judge, found)


def failure_record(recipe: Recipe, error: EdgesegError) -> CheckRecord:
    """Make the record of a check that could not begin, for example without a model."""
    return CheckRecord(
        when=utc_time(), recipe=recipe.name, passed=False, problems=(str(error),), repeats=0
    )


def _identity(judge: RecipeJudge, approval: Approval) -> Iterator[str]:
    """Yield differences of file, precision or threshold; each makes another inspection."""
    session = judge.session
    if session.model_sha256 != approval.model_sha256:
        yield (
            f"model {_short(session.model_sha256)} runs, approved was "
            f"{_short(approval.model_sha256)}"
        )
    if session.metadata.precision != approval.precision:
        yield f"precision {session.metadata.precision}, approved was {approval.precision}"
    if session.arithmetic != approval.arithmetic:
        yield f"computed in {session.arithmetic}, approved was {approval.arithmetic}"
    threshold = judge.scorer.thresholds.score
    if not math.isclose(threshold, approval.threshold, rel_tol=1e-6):
        yield f"threshold {threshold:.6g}, approved was {approval.threshold:.6g}"


def _other_files(recipe: Recipe, approval: Approval) -> Iterator[str]:
    approved = {picture.file for picture in approval.pictures}
    for name, _ in golden_files(recipe):
        if name not in approved:
            yield f"{name}: was never approved; run `edgeseg recipe approve`"


def _picture(recipe: Recipe, picture: GoldenPicture, found: _Finding) -> Image | None:
    """Read a golden picture, if its bytes are those that were approved."""
    path = recipe.golden / picture.file
    if not recipe.files.is_file(path):
        found.problems.append(f"{picture.file}: is gone")
        return None
    try:
        data = recipe.files.read(path)
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            found.problems.append(f"{picture.file}: is not the picture that was approved")
        return decode_image(data, name=path)
    except OSError as error:
        found.problems.append(f"{picture.file}: cannot be read ({error.strerror})")
    except EdgesegError as error:
        found.problems.append(str(error))
    return None


def _master_frames(recipe: Recipe) -> list[Image]:
    return [decode_image(recipe.files.read(path), name=path) for path in master_files(recipe)]


def _check_picture(
    judge: RecipeJudge, picture: GoldenPicture, found: _Finding, *, same_model: bool
) -> None:
    image_hwc = _picture(judge.recipe, picture, found)
    if image_hwc is None:
        return
    repeats = judge.recipe.settings.golden.repeats
    results = [judge.score(image_hwc, name=picture.file) for _ in range(repeats)]
    scores = np.array([result.prediction.score for result in results])
    spread, score = float(scores.max() - scores.min()), float(scores[0])
    verdicts: set[str] = {result.verdict for result in results}
    problems = [
        *_verdict_problems(verdicts, picture, same_model=same_model),
        *_variant_problems(judge, results, picture),
        *_score_problems(judge, score if same_model else None, spread, picture),
    ]
    found.problems += [f"{picture.file}: {text}" for text in problems]
    found.pictures.append(
        PictureCheck(
            file=picture.file,
            label=picture.label,
            verdict=_words(verdicts),
            score=finite(score),
            approved_score=picture.score,
            spread=finite(spread),
            passed=not problems,
        )
    )


def _verdict_problems(
    verdicts: set[str], picture: GoldenPicture, *, same_model: bool
) -> Iterator[str]:
    if same_model and verdicts != {picture.verdict}:
        yield f"judged {_words(verdicts)}, approved was {picture.verdict}"
    elif (verdicts == {"good"}) != (picture.label == "good"):
        yield f"judged {_words(verdicts)}, expected {picture.label}"


def _variant_problems(
    judge: RecipeJudge, results: Sequence[FrameResult], picture: GoldenPicture
) -> Iterator[str]:
    """Yield that a picture is taken for another variant; a model of one product names none."""
    if picture.variant is None or not judge.session.metadata.variants:
        return
    named = {str(result.prediction.variant) for result in results}
    if named != {picture.variant}:
        yield f"named {_words(named)}, approved was {picture.variant}"


def _score_problems(
    judge: RecipeJudge, score: float | None, spread: float, picture: GoldenPicture
) -> Iterator[str]:
    bounds, threshold = judge.recipe.settings.golden, abs(judge.scorer.thresholds.score)
    limit = bounds.score_tolerance * threshold
    if score is not None and not abs(score - picture.score) <= limit:
        yield f"score {score:.4g}, approved was {picture.score:.4g} +- {limit:.2g}"
    if not spread <= bounds.repeat_tolerance * threshold:
        yield f"scores of {bounds.repeats} repeats differ by {spread:.4g}"


def _check_master(
    judge: RecipeJudge, approval: Approval, live: Sequence[Image], found: _Finding
) -> None:
    frames = _master_frames(judge.recipe)
    if not frames or approval.master is None:
        raise UsageError(
            f"{judge.recipe.folder}: no master part is approved; put it before the camera and run "
            "`edgeseg recipe add-master`"
        )
    before = [judge.score(frame_hwc, name="approved").frame_hwc for frame_hwc in frames]
    results = [judge.score(image_hwc, name="the master part") for image_hwc in live]
    bounds = judge.recipe.settings.golden
    found.master = compare_master(before, [result.frame_hwc for result in results], bounds)
    problems = list(found.master.problems)
    verdicts: set[str] = {result.verdict for result in results}
    if verdicts != {approval.master.verdict}:
        problems.append(f"judged {_words(verdicts)}, approved was {approval.master.verdict}")
    score = float(np.mean([result.prediction.score for result in results]))
    limit = bounds.master_tolerance * abs(judge.scorer.thresholds.score)
    if not abs(score - approval.master.score) <= limit:
        problems.append(f"score {score:.4g}, approved was {approval.master.score:.4g}")
    found.problems += [f"master part: {text}" for text in problems]


def _master_score(judge: RecipeJudge, frames: Sequence[Image]) -> MasterScore:
    results = [judge.score(image_hwc, name="the master part") for image_hwc in frames]
    verdicts: set[str] = {result.verdict for result in results}
    if len(verdicts) > 1:
        raise RuntimeFailure(
            f"{judge.recipe.folder}: the frames of the master part were judged "
            f"{_words(verdicts)}, expected one verdict; is it at rest, and the light steady?"
        )
    scores = [_score(result, "the master part", judge) for result in results]
    return MasterScore(verdict=verdicts.pop(), score=float(np.mean(scores)))


def _record(judge: RecipeJudge, found: _Finding) -> CheckRecord:
    session, good = judge.session, [item for item in found.pictures if item.label == "good"]
    bad = [item for item in found.pictures if item.label == "bad"]
    spreads = [item.spread for item in found.pictures if item.spread is not None]
    return CheckRecord(
        when=utc_time(),
        recipe=judge.recipe.name,
        passed=not found.problems,
        problems=tuple(found.problems),
        model_sha256=session.model_sha256,
        precision=session.metadata.precision,
        backend=session.backend,
        threshold=judge.scorer.thresholds.score,
        pictures=tuple(found.pictures),
        repeats=judge.recipe.settings.golden.repeats,
        largest_spread=max(spreads, default=None),
        false_alarms=MistakeRate.of(sum(item.verdict != "good" for item in good), len(good)),
        misses=MistakeRate.of(sum(item.verdict == "good" for item in bad), len(bad)),
        master=None if found.master is None else _plain(found.master),
    )


def _plain(master: MasterLook) -> dict[str, float]:
    return {
        "brightness": master.brightness,
        "sharpness": master.sharpness,
        **vars(master.movement),
    }


def _score(result: FrameResult, name: str | Path, judge: RecipeJudge) -> float:
    score = result.prediction.score
    if not math.isfinite(score):
        raise RuntimeFailure(
            f"{name}: {judge.session.backend} gives no finite score for it; this file cannot be "
            "trusted here, try another backend or precision"
        )
    return score


def _words(verdicts: set[str]) -> str:
    return " and ".join(sorted(verdicts))


def _short(sha256: str | None) -> str:
    return "of no file" if sha256 is None else f"{sha256[:12]}..."
