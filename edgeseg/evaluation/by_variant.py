"""The figures of each variant, of a model that was fitted on several."""

from collections.abc import Iterator, Sequence

import numpy as np

from edgeseg.base.tables import align_columns
from edgeseg.decision.judgement import is_alarming
from edgeseg.decision.metrics import auroc
from edgeseg.evaluation.evaluate import Evaluation

HEAD = ("variant", "images", "named rightly", "image AUROC", "good flagged", "defects found")


def variant_lines(result: Evaluation) -> Iterator[str]:
    """Yield a table of the variants, by the folders of the test images or by what was named."""
    if not result.named:
        return
    known = [folder or named for folder, named in zip(result.variants, result.named, strict=True)]
    rows = [HEAD, *(_row(result, known, name) for name in sorted(set(known)))]
    yield from align_columns(rows)


def _row(result: Evaluation, known: Sequence[str], name: str) -> tuple[str, ...]:
    places = [place for place, variant in enumerate(known) if variant == name]
    named = sum(result.named[place] == name for place in places)
    # Only folders tell what an image shows.
    told = all(result.variants[place] for place in places)
    ranks = np.array([result.ranks[place] for place in places], np.float32)
    labels = np.array([result.labels[place] for place in places], np.int64)
    alarms = np.array([is_alarming(result.verdicts[place]) for place in places])
    area = auroc(ranks, labels)
    good, defects = labels == 0, labels == 1
    return (
        name,
        f"{len(places)}",
        f"{named} of {len(places)}" if told else "-",
        "-" if area is None else f"{area:.4f}",
        f"{int(alarms[good].sum())} of {int(good.sum())}",
        f"{int(alarms[defects].sum())} of {int(defects.sum())}",
    )
