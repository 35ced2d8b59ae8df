"""Learning on site: models that take images in, let images go, fade, and join. All are sums."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from edgeseg.artefact.artefact import Artefact
from edgeseg.artefact.history import entry
from edgeseg.data.datasets import Dataset
from edgeseg.errors import UsageError
from edgeseg.fitting.checkpoint import describe_network, difference
from edgeseg.fitting.feature_space import Network
from edgeseg.fitting.image_pass import Gathered
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.refresh import gathered, moments_of, refreshed
from edgeseg.model.factors import in_parallel
from edgeseg.model.moments import Moments

# Of a scatter's trace: embeddings of the same image differ in their seventh digit from one
# machine to another, and a direction that no other image has then comes out just below zero.
INDEFINITE = 1e-6
CONSTANT = 1e-20  # of a squared mean: a constant pixel has no trace, only float64's rounding


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is to happen to a model."""

    more: Dataset | None = None  # good images to add
    forget: Dataset | None = None  # images that were fitted and turned out to be bad
    decay: float = 1.0  # what the earlier images count for afterwards
    calibrate: Dataset | None = None  # good images that are judged and not fitted

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise UsageError(f"--decay {self.decay:g}: expected above 0, up to 1")
        if self.more is None and self.forget is None:
            raise UsageError("nothing to do: give a folder of good images, or --forget FOLDER")
        if self.more is None and self.decay < 1:
            raise UsageError(
                "--decay: without new images it changes nothing; give a folder of them"
            )


def update(artefact: Artefact, changes: Changes, options: FitOptions) -> Artefact:
    """The model of the images it had, without some of them and with others."""
    network, moments = Network.of(artefact), moments_of(artefact, "this model")
    history = list(artefact.history)
    bad: set[str] = set()
    with ExitStack() as stack, torch.no_grad():
        if changes.forget is not None:
            gone = gathered(stack, network, changes.forget, options)
            moments = forgotten(moments, gone.moments, name=changes.forget.name)
            history.append(_line("forget", gone, changes.forget))
        seen: Gathered | None = None
        if changes.more is not None:
            seen = gathered(stack, network, changes.more, options)
            bad = seen.bad
            if changes.decay < 1:
                line = _line("decay", seen, changes.more) | {"factor": changes.decay}
                history.append(line | {"images": moments.images})
                moments = moments.scaled(changes.decay)
            moments = moments.merge(seen.moments)
            history.append(_line("update", seen, changes.more))
        changed = replace(
            artefact,
            moments=moments,
            history=history,
            data=artefact.data
            | {
                "fitted": moments.images,
                "unreadable": sorted({*artefact.data["unreadable"], *(_name(one) for one in bad)}),
            },
        )
        return refreshed(changed, [artefact], seen=seen, apart=changes.calibrate, options=options)


def merge_models(
    models: dict[str, Artefact], *, apart: Dataset | None, options: FitOptions
) -> Artefact:
    """One model of the images of several, which must have the same settings, W and weights."""
    (first_name, first), *rest = models.items()
    moments = moments_of(first, first_name)
    for name, model in rest:
        found = difference(*(describe_network(Network.of(one)) for one in (first, model)))
        if found is not None:
            raise UsageError(
                f"{first_name} and {name} cannot be joined ({found}); fit both with the same "
                "settings and --seed"
            )
        moments = moments.merge(moments_of(model, name))
    parts = list(models.values())
    history = [line for model in parts for line in model.history]
    when = max((line["when"] for line in history), default="")
    joined = {"action": "merge", "images": moments.images, "from": " + ".join(models)}
    changed = replace(
        first,
        moments=moments,
        history=[*history, joined | {"when": when}],
        data={
            "name": " + ".join(dict.fromkeys(model.data["name"] for model in parts)),
            "layout": " + ".join(dict.fromkeys(model.data["layout"] for model in parts)),
            "fitted": moments.images,
            "held_out": sum(model.data["held_out"] for model in parts),
            "unreadable": sorted({name for model in parts for name in model.data["unreadable"]}),
        },
    )
    return refreshed(changed, parts, seen=None, apart=apart, options=options)


def forgotten(moments: Moments, gone: Moments, *, name: str) -> Moments:
    """Moments without these images; refused if they cannot have been among them."""
    about = "about " if moments.decayed else ""
    if bool((moments.count - gone.count < 1 - 1e-9).any()):
        raise UsageError(
            f"--forget {name}: {gone.images} images of a model of {about}{moments.images}: none "
            "would be left; fit a new model"
        )
    rest = moments.remove(gone)
    locations, k = rest.mean.shape
    failed = torch.zeros(locations, dtype=torch.bool)
    identity = torch.eye(k, dtype=torch.float64)

    def check(start: int, stop: int) -> None:
        trace = moments.scatter[start:stop].diagonal(dim1=1, dim2=2).sum(dim=1)
        size = moments.mean[start:stop].square().sum(dim=1)
        jitter = INDEFINITE * trace + CONSTANT * (1 + size)
        raised = rest.scatter[start:stop] + jitter[:, None, None] * identity
        failed[start:stop] = torch.linalg.cholesky_ex(raised).info > 0

    in_parallel(check, locations, k)
    if bool(failed.any()):
        raise UsageError(
            f"--forget {name}: without these {gone.images} images {int(failed.sum())} of "
            f"{locations} covariances would be negative, so not all of them are part of this "
            "model, or they count less since --decay; expected images that it was fitted on"
        )
    return rest


def _line(action: str, found: Gathered, dataset: Dataset) -> dict[str, Any]:
    images = found.moments.images
    return entry(action, images=images, source=dataset.name, newest=found.newest)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
