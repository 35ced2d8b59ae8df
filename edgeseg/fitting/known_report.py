"""What a fit says of its known defects."""

from collections.abc import Iterator

import numpy as np

from edgeseg.base.messages import Message
from edgeseg.decision.calibration import Calibration
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.decision.prediction import above
from edgeseg.modelfile.known_kinds import KnownFacts


def known_sentences(
    facts: KnownFacts,
    before: PlantedScores | None,
    after: PlantedScores | None,
    calibration: Calibration,
) -> Iterator[Message]:
    """Yield what was found before and would be found now, and what it costs."""
    yield Message(
        "known_learned",
        n=facts.pictures,
        n_kinds=len(facts.kinds),
        n_before=facts.found_before,
        n_after=facts.found,
    )
    yield Message(
        "known_promise",
        n=1000 * calibration.answered_rate,
        n_old=facts.threshold_before,
        n_new=calibration.score_threshold,
    )
    if before is not None and after is not None:
        yield Message(
            "known_planted",
            n=after.count,
            n_before=_count_found(before, facts.threshold_before),
            n_after=_count_found(after, calibration.score_threshold),
        )


def declined_sentence(facts: KnownFacts) -> Message:
    """Say that known defects were not learned, since fewer of them would be found."""
    return Message(
        "known_declined", n=facts.pictures, n_before=facts.found_before, n_after=facts.found
    )


def _count_found(planted: PlantedScores, threshold: float) -> int:
    return int(np.count_nonzero(above(planted.scores.astype(np.float64), threshold)))
