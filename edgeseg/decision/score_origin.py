"""The origin of a threshold: how its good scores were obtained, and what was chosen since.

Programs decide on these records, and files keep them; people read their words.
"""

from dataclasses import dataclass
from typing import Literal

# How a rate becomes a threshold: by a law of the tail of good scores, or by their ranks alone.
Promise = Literal["tail", "conformal"]
OriginKind = Literal["split", "cross", "earlier", "copies", "fitted", "best_f1"]


@dataclass(frozen=True, kw_only=True)
class ScoreOrigin:
    """How the scores of good images were obtained.

    split: by the final model, which was not fitted on them. cross: each by a model that was fitted
    without it. earlier: by the models before an update. copies: by the final model, which was
    fitted on near-copies of them. fitted: by the final model, which was fitted on them. best_f1: in
    any of these ways, and the threshold was chosen with the help of anomalies.
    """

    kind: OriginKind
    folds: int | None = None  # of cross; None: not known
    new_images: int | None = None  # of cross after an update: so many were judged, the added ones
    earlier_models: int = 0  # whose scores count too
    anomalies: int | None = None  # of best_f1
    backend: str | None = None  # whose numbers they are, by its name; None: the reference's
    precision: str | None = None  # of the graph that they were taken through again

    def __post_init__(self) -> None:
        for name in ("folds", "new_images", "earlier_models", "anomalies"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise ValueError(f"{name}: {count}, expected from 0")

    def words(self, *, images: int, parts: int) -> str:
        """Describe it for people, with the number of good images and of parts."""
        text = f"{self._way}, {good_words(images, parts)}"
        if self.anomalies:
            text += f" and {self.anomalies} anomalies"
        if self.precision is not None:
            text += f", through the {self.precision} graph in {self.backend}"
        return text

    @property
    def _way(self) -> str:
        earlier = "scores of the earlier model" + "s" * (self.earlier_models > 1)
        if self.kind == "cross":
            way = "cross-conformal"
            if self.folds is not None:
                way += f", {self.folds} folds"
            if self.new_images is not None:
                way += f" on {self.new_images} new images"
            return f"{way} and {earlier}" if self.earlier_models else way
        if self.kind == "split" and self.backend is not None and self.precision is None:
            return f"split-conformal on {self.backend}"
        return {
            "split": "split-conformal",
            "earlier": earlier,
            "copies": "near-copies of fitted images",
            "fitted": "the fitted image itself (no other was given)",
            "best_f1": "best F1",
        }[self.kind]


@dataclass(frozen=True, kw_only=True)
class ThresholdChoice:
    """What somebody chose since: a rate of false alarms, or the value of the threshold itself."""

    by: Literal["rate", "value"]
    number: float

    @property
    def words(self) -> str:
        """The choice as people read it."""
        if self.by == "rate":
            return f"chosen for {percent(self.number)} false alarms"
        return f"the value {self.number:g} chosen by hand"


def good_words(images: int | None, parts: int) -> str:
    """Say how many good images there are, and how many parts where these are fewer."""
    if images is None or images == parts:
        return f"{parts} good images"
    return f"{images} good images of {parts} different part{'s' * (parts != 1)}"


def percent(rate: float) -> str:
    """Write a rate as people do: 0.5 %, 1 %, 12 %."""
    return f"{100 * rate:.3g} %"
