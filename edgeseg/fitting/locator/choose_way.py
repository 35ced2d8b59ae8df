"""Choose how parts are found: `locate=auto`.

    good images --open_ways, look_everywhere--> ways that work --WayTrial--> what each finds --> one

The simpler way stays unless another one surely finds more; what was learned of the chosen one goes
into the fit as it is. Only good images are asked.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.samples import Sample
from edgeseg.decision.score_origin import percent
from edgeseg.fitting.locator.trial import TrialScores, WayTrial, pick_images, surely_better
from edgeseg.fitting.locator.ways import Way, look_everywhere, open_ways
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.spaces import load_space

_FEWEST = 8  # good images: fewer tell nothing


def choose_way(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, reference: Path | None = None
) -> FitConfig:
    """Return the settings with the way that is best, and with all that was learned of it."""
    if options.group.size > 1:
        raise UsageError(
            Setting("locate", config.geometry.locate),
            ": ways are compared in one process; fit without torchrun, or name one of them",
        )
    ways = open_ways(dataset, config, options, reference=reference)
    opened = [way for way in ways if way.out is None]
    looked, samples = opened, list(dataset.train)
    if len(opened) > 1:
        looked, samples = look_everywhere(opened, dataset, options)
    for way in (*ways, *looked):
        if way.out is not None:
            options.note(Sentence(f"locate {way.name} is out: ", way.out))
    left = [way for way in looked if way.out is None]
    chosen = left[0]
    if len(left) > 1 and len(samples) < _FEWEST:
        options.note(f"{len(samples)} good images are too few to compare ways to find parts")
    elif len(left) > 1:
        chosen = _compare(left, samples, options)
    else:
        options.note(f"locate {chosen.name} is taken: no other way is left")
    for line in chosen.said:
        options.note(line)
    return chosen.config


def _compare(ways: Sequence[Way], samples: Sequence[Sample], options: FitOptions) -> Way:
    """Try every way on some of the images, say what each finds, and return the best."""
    first = load_space(ways[0].config, replace(options, note=ignore))
    spaces = [
        replace(first, config=replace(first.config, geometry=way.config.geometry)) for way in ways
    ]
    picked = pick_images(first, samples)
    with WayTrial(spaces, picked, options) as trial:
        trial.plant()
        if not trial.copies:
            options.note("locate none is taken: no defect can be planted that would tell more")
            return ways[0]
        tried = []
        for number, way in enumerate(ways):
            tried.append(trial.scores(number))
            options.note(_trial_words(way, tried[-1], images=len(picked)))
    best = 0
    for number in range(1, len(ways)):
        if surely_better(tried[number], tried[best], seed=first.config.seed):
            best = number
    options.note(_why(ways, tried, best))
    return ways[best]


def _trial_words(way: Way, scores: TrialScores, *, images: int) -> str:
    where = ""
    if way.config.geometry.locator is not None:
        what = "the part is" if way.config.geometry.several is None else "all parts are"
        where = f"; {what} found in {way.found} of {way.looked} good images"
    return (
        f"locate {way.name}: {scores.count} of {scores.planted.size} planted defects found at "
        f"{percent(scores.rate)} false alarms, by small fits on {images} good images{where}"
    )


def _why(ways: Sequence[Way], tried: Sequence[TrialScores], best: int) -> str:
    others = [number for number in range(len(ways)) if number != best]
    rival = max(others, key=lambda number: tried[number].count)
    more = tried[best].count - tried[rival].count
    name, other = ways[best].name, ways[rival].name
    if more > 0:
        return f"locate {name} is taken: it finds {more} more than {other}"
    tells = "as many" if more == 0 else f"{-more} more, which is no more than luck with the images"
    return f"locate {name} is taken: it is simpler, and {other} finds {tells}"
