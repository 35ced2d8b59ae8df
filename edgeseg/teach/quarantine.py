"""Select the marked pictures to learn and the places to ignore, with reasons for the rest.

agreed good   --below every guarded defect--> within the quota --> learned
agreed ignore --a place on the picture------> within the quota --> ignored
              the new model still finds all that the old one found, or the place that hides most of
              it, or the boldest picture, is left out

One wrong mark at the top of the scores lifts the threshold to its own score: so no picture is
learned that looks as bad to the model as something that is known to be a defect.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgeseg.base.messages import Message
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import AGREED, MarkedAlarm, MarkWord
from edgeseg.teach.project import corners
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.ignored import polygon_mask

MOST_SHARE = 0.1  # of the fitted pictures, and of the picture that is ignored, in one learning
LEAST_QUOTA = 2
_WORDS: Mapping[MarkWord, Message] = {
    "good": Message("word_good"),
    "defect": Message("word_defect"),
    "ignore": Message("word_ignore"),
}


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """A picture that stays in quarantine."""

    name: str
    reason: Message
    guards: tuple[str, ...] = ()  # known defects for whose sake it is held back


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The pictures of one learning: to learn, to ignore, and held back."""

    learn: tuple[str, ...]
    held_back: tuple[HeldBack, ...]
    ignore: tuple[str, ...] = ()  # whose place is left out

    @property
    def empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.learn or self.ignore)


def quota(fitted: int) -> int:
    """Return the number of pictures that one learning may take."""
    return max(LEAST_QUOTA, math.floor(MOST_SHARE * fitted))


def sort_out(
    items: Sequence[MarkedAlarm],
    scores: Mapping[str, float],
    guards: Mapping[str, float],
    *,
    fitted: int,
    located: bool = False,
) -> Selection:
    """Select pictures by the running model's scores of them and of known defects.

    A picture without a score could not be read.

    `located`: parts lie anywhere in the picture, and the model finds them.
    """
    learn: list[str] = []
    ignore: dict[str, Polygon] = {}
    held: list[HeldBack] = []
    lowest = min(guards, key=lambda name: guards[name], default=None)
    most = quota(fitted)
    for item in items:
        name, reason = item.alarm.id, _reason(item)
        guarding: tuple[str, ...] = ()
        if name not in scores:
            reason = Message("held_gone")
        if reason is None and not math.isfinite(scores[name]):
            reason = Message("held_no_score")
        if reason is None and item.said == "ignore":
            reason = _not_ignored(item.alarm, list(ignore.values()), located=located)
            if reason is None and item.alarm.box is not None:
                ignore[name] = corners(item.alarm.box)
                continue
        if reason is None and lowest is not None and scores[name] >= guards[lowest]:
            low, score = guards[lowest], scores[name]
            reason = Message("held_like_defect", n=score, name=lowest, n_low=low)
            guarding = tuple(each for each in guards if guards[each] <= score)
        if reason is None and len(learn) == most:
            reason = Message("held_quota", n=most)
        if reason is None:
            learn.append(name)
        else:
            held.append(HeldBack(name=name, reason=reason, guards=guarding))
    return Selection(learn=tuple(learn), held_back=tuple(held), ignore=tuple(ignore))


def _not_ignored(alarm: Alarm, others: Sequence[Polygon], *, located: bool) -> Message | None:
    """Say why the place of an alarm cannot be ignored; None if it can."""
    if alarm.box is None:
        return Message("held_ignored")  # no place was found on it
    if located:
        return Message("held_anywhere")
    share = polygon_mask((*others, corners(alarm.box)), (alarm.height, alarm.width)).mean()
    if share > MOST_SHARE:
        most = round(100 * MOST_SHARE)
        return Message("held_too_much", n=round(100 * float(share)), n_most=most)
    return None


def without_worst(
    chosen: Selection, scores: Mapping[str, float], hidden: Mapping[str, float], lost: Sequence[str]
) -> Selection:
    """Hold back the place that hides most of the lost defects.

    Where no place hides any, hold back the picture that scores highest.
    """
    names = ", ".join(lost[:3])
    if any(hidden.values()) or not chosen.learn:
        worst = max(chosen.ignore, key=lambda name: hidden[name])
        reason = Message("held_hides", names=names)
    else:
        worst = max(chosen.learn, key=lambda name: scores[name])
        reason = Message("held_lost", names=names)
    return Selection(
        learn=tuple(name for name in chosen.learn if name != worst),
        ignore=tuple(name for name in chosen.ignore if name != worst),
        held_back=(
            *chosen.held_back,
            HeldBack(name=worst, reason=reason, guards=tuple(lost)),
        ),
    )


def _reason(item: MarkedAlarm) -> Message | None:
    """Say why the marks are not enough to learn from; None if they are."""
    said = item.said
    if said in ("good", "ignore"):
        return None
    if said == "waiting":
        word = _WORDS[item.marks[-1].mark] if item.marks else "nothing"
        return Message("held_waiting", word=word, n=AGREED)
    if said == "defect":
        return Message("held_defect")
    return Message("held_supervisors") if item.decided_above else Message("held_contested")
