"""Moments and embeddings of a sweep on disk, so that an interrupted one can be continued."""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from edgeseg.artefact.artefact import write_tensors
from edgeseg.data.datasets import Sample
from edgeseg.errors import ArtefactError, UsageError
from edgeseg.fitting.feature_space import Network
from edgeseg.fitting.options import Checkpoints, FitOptions, Shard
from edgeseg.model.moments import Moments

if TYPE_CHECKING:
    from edgeseg.fitting.image_pass import Gathered

_KEY = "edgeseg-checkpoint"


class Checkpoint:
    """Of one shard, or none at all (the library's default)."""

    def __init__(
        self, where: Checkpoints | None, *, shard: Shard, sweep: dict[str, Any] | None = None
    ):
        self.where, self.sweep = where, sweep or {}
        name = f"{shard.index}-of-{shard.count}"
        self.path = where.folder / f"{name}.moments" if where else None
        self.spool_path = where.folder / f"{name}.embeddings" if where else None
        self.saved = time.monotonic()

    @classmethod
    def open(
        cls, network: Network, samples: Sequence[Sample], *, shard: Shard, options: FitOptions
    ) -> "Checkpoint":
        """Make the folder, or refuse to write over what an earlier run has left there."""
        where = options.checkpoints
        checkpoint = cls(
            where,
            shard=shard,
            sweep=describe_sweep(network, samples, batch_size=options.batch_size)
            | {"number of shards": shard.count},
        )
        if where is not None and checkpoint.path is not None:
            if checkpoint.path.exists() and not where.resume:
                raise UsageError(
                    f"{where.folder}: an earlier run stopped here and can be continued; "
                    "add --resume, or remove that folder to begin again"
                )
            where.folder.mkdir(parents=True, exist_ok=True)
        return checkpoint

    def tidy(self) -> None:
        """Remove embeddings without moments, which are of no use to anyone.

        With moments they stay, until the result is safe on the disk and `discard` is called.
        """
        if self.path is not None and not self.path.exists():
            self.discard()

    def discard(self) -> None:
        """Remove this shard's files, and the folder if it was the last."""
        for path in (self.path, self.spool_path):
            if path is not None:
                path.unlink(missing_ok=True)
        if self.where is not None:
            with contextlib.suppress(OSError):  # others still have theirs there
                self.where.folder.rmdir()

    def save_if_due(self, found: "Gathered") -> None:
        """Write a checkpoint if the last one is old enough."""
        if self.path is None or self.where is None:
            return
        if time.monotonic() - self.saved < self.where.seconds:
            return
        found.seen.flush()
        header = {
            "sweep": self.sweep,
            "batches": found.batches,
            "bad": sorted(found.bad),
            "newest": found.newest,
            "seen": found.seen.places,
        }
        # Whole scatters, not their upper halves: a continued sweep gives the very same bits.
        tensors = {name: getattr(found.moments, name) for name in ("count", "mean", "scatter")}
        write_tensors(self.path, tensors, {_KEY: json.dumps(header)})
        self.saved = time.monotonic()

    def restore(self, found: "Gathered") -> None:
        """Continue from what an earlier run has left, if it was the same sweep."""
        if self.path is None or self.where is None or not self.where.resume:
            return
        if not self.path.exists():
            self._refuse_other_shares()
            return
        try:
            with safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {})[_KEY])
                _refuse_other(header["sweep"], self.sweep, self.where.folder)
                device = found.moments.mean.device
                found.moments = Moments(
                    count=file.get_tensor("count").to(device),
                    mean=file.get_tensor("mean").to(device),
                    scatter=file.get_tensor("scatter").to(device),
                )
            complete = found.seen.restore(header["seen"])
        except (SafetensorError, LookupError, TypeError, ValueError) as error:
            raise ArtefactError(
                f"{self.path}: not a checkpoint ({error}); remove {self.where.folder}"
            ) from None
        if not complete:
            raise ArtefactError(
                f"{self.spool_path}: shorter than its checkpoint says; remove {self.where.folder}"
            )
        found.batches = header["batches"]
        found.bad = set(header["bad"])
        found.newest = header["newest"]

    def _refuse_other_shares(self) -> None:
        """Checkpoints of another number of processes have other names."""
        if self.where is None:
            return
        for other in self.where.folder.glob("*-of-*.moments"):
            count = other.stem.rpartition("-")[2]
            if count != str(self.sweep["number of shards"]):
                _refuse_other(self.sweep | {"number of shards": count}, self.sweep, other.parent)


def discard(options: FitOptions) -> None:
    """Remove the checkpoints once the result is safe: call it after saving, in every process."""
    group = options.group
    group.gather(None)  # wait for the one that saves
    Checkpoint(options.checkpoints, shard=Shard(index=group.rank, count=group.size)).discard()


def describe_network(network: Network) -> dict[str, Any]:
    """What has to be equal for moments to belong together, by the names that errors use."""
    config = json.loads(json.dumps(network.config.to_dict()))
    return {
        **{f"setting {name}": value for name, value in config.items()},
        "weights": network.origin.sha256,
        "W": hashlib.sha256(network.embedding.contiguous().numpy().tobytes()).hexdigest(),
    }


def describe_sweep(
    network: Network, samples: Sequence[Sample], *, batch_size: int
) -> dict[str, Any]:
    """What has to be equal for sweeps to be parts of one."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(f"{sample.image.name}\0{sample.image_index}\0".encode())
    return describe_network(network) | {
        "number of images": len(samples),
        "names of the images": digest.hexdigest(),
        "batch size": batch_size,
    }


def difference(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """The first thing that differs, in words."""
    for name in [*one, *(name for name in other if name not in one)]:
        if one.get(name) != other.get(name):
            first, second = (_short(values.get(name)) for values in (one, other))
            return f"{name}: {first} and {second}"
    return None


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text  # a hash


def _refuse_other(old: dict[str, Any], new: dict[str, Any], folder: Path) -> None:
    found = difference(old, new)
    if found is not None:
        raise UsageError(
            f"--resume: {folder} is of another fit ({found}); repeat that command, "
            "or remove the folder to begin again"
        )
