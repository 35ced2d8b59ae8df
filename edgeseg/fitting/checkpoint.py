"""Checkpoints of a pass over the images, from which an interrupted pass is continued."""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import safe_open

from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.leftovers import sweep
from edgeseg.base.messages import Setting
from edgeseg.base.plain import JsonObject, Malformed, record
from edgeseg.data.datasets import Sample
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.odd_inputs import Census
from edgeseg.fitting.options import Checkpoints, FitOptions, Shard
from edgeseg.fitting.planting import PlantedPictures
from edgeseg.model.artefact import WRONG_VALUES, write_tensors
from edgeseg.model.moments import Moments
from edgeseg.modelfile.container import read_container
from edgeseg.modelfile.header import UNNAMED, unless_memory
from edgeseg.modelfile.tensor_checks import check_values
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.part_groups import GreyCopies

_KEY = "edgeseg-checkpoint"
SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class CheckpointHeader:
    """The header of a checkpoint."""

    sweep: JsonObject
    batches: int
    bad: tuple[str, ...]
    newest: float
    seen: tuple[int, ...]  # places of the images whose embeddings are beside it
    seen_sha256: str  # of these embeddings
    appearance: GoodAppearance
    prints: tuple[int, ...]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema: {self.schema}, expected {SCHEMA}")
        if self.batches < 0 or len(set(self.seen)) < len(self.seen):
            raise ValueError(f"batches: {self.batches}, expected some, and no image twice")


@dataclass(kw_only=True)
class Collected:
    """The moments and embeddings that a pass has collected so far, also as a checkpoint."""

    moments: Moments
    seen: EmbeddingStore  # of images behind the moments
    unseen: EmbeddingStore  # of images kept for calibration alone
    batches: int = 0  # done, of those to fit on
    bad: set[str] = field(default_factory=set)  # images that could not be read
    newest: float = 0.0  # seconds since 1970: when the newest image was last changed
    appearance: GoodAppearance = field(default_factory=GoodAppearance)  # of all images
    prints: set[int] = field(default_factory=set)  # of the images behind the moments
    census: Census = field(default_factory=Census)  # of what this process has decoded
    planted: PlantedPictures | None = None  # None: none were asked for
    spots: PlantedPictures | None = None  # of the smallest size that matters; None: not said


def parts_of(out: Path) -> Path:
    """Return the folder of the checkpoints of a result."""
    return out.with_name(f"{out.name}.parts")


class Checkpoint:
    """The checkpoint of one shard, or none at all (the library's default)."""

    def __init__(
        self, where: Checkpoints | None, *, shard: Shard, identity: JsonObject | None = None
    ):
        self.where, self.identity = where, identity or {}
        name = f"{shard.index}-of-{shard.count}"
        self.path = where.folder / f"{name}.moments" if where else None
        self.store_path = where.folder / f"{name}.embeddings" if where else None
        self.saved = time.monotonic()

    @classmethod
    def of_pass(
        cls, space: FeatureSpace, samples: Sequence[Sample], *, shard: Shard, options: FitOptions
    ) -> "Checkpoint":
        """Return the checkpoint of one shard of a pass over images."""
        identity = describe_pass(space, samples, batch_size=options.batch_size)
        return cls(
            options.checkpoints,
            shard=shard,
            identity=identity | {"number of shards": shard.count},
        )

    def open(self) -> None:
        """Make the folder, or refuse to overwrite what an earlier run has left there.

        Ctrl-C may come as soon as the folder is there: make sure before that `tidy` is called.
        """
        if self.where is None or self.path is None:
            return
        if self.path.exists() and not self.where.resume:
            raise UsageError(
                f"{self.where.folder}: an earlier run stopped here and can be continued; add ",
                Setting("resume", True),
                ", or remove that folder to begin again",
            )
        self.where.folder.mkdir(parents=True, exist_ok=True)
        sweep(self.where.folder)  # of a run that was killed while it wrote one

    def tidy(self) -> None:
        """Remove embeddings without moments, which nobody can use.

        With moments they stay, until the result is safe on the disk and `discard` is called.
        """
        if self.path is not None and not self.path.exists():
            self.discard()

    def discard(self) -> None:
        """Remove this shard's files, and the folder if it was the last."""
        for path in (self.path, self.store_path):
            if path is not None:
                path.unlink(missing_ok=True)
        if self.where is not None:
            with contextlib.suppress(OSError):  # others still have theirs there
                self.where.folder.rmdir()

    def save_if_due(self, collected: Collected) -> None:
        """Write a checkpoint if the last one is old enough."""
        if self.path is None or self.where is None:
            return
        if time.monotonic() - self.saved < self.where.seconds:
            return
        collected.seen.flush()
        header = CheckpointHeader(
            sweep=self.identity,
            batches=collected.batches,
            bad=tuple(sorted(collected.bad)),
            newest=collected.newest,
            seen=tuple(collected.seen.places),
            seen_sha256=collected.seen.sha256,
            appearance=collected.appearance,
            prints=tuple(sorted(collected.prints)),
        )
        # Whole scatters, not their upper halves: a continued pass gives the very same bits.
        tensors: dict[str, NDArray[Any]] = dict(vars(collected.moments))
        looks = collected.seen.grey_copies.tensors()
        tensors |= {f"looks.{kind}": values for kind, values in looks.items()}
        write_tensors(self.path, tensors, key=_KEY, header=asdict(header))
        self.saved = time.monotonic()

    def restore(self, collected: Collected) -> None:
        """Continue from an earlier run's checkpoint, if it was the same pass."""
        if self.path is None or self.where is None or not self.where.resume:
            return
        if not self.path.exists():
            self._refuse_other_shares()
            return
        if self.identity.get("setting geometry", {}).get("locate"):
            raise UsageError(
                Setting("resume", True),
                ": a fit that looks for its parts cannot be continued; remove "
                f"{self.where.folder} to begin again",
            )
        try:
            header = record(CheckpointHeader, read_container(self.path, _KEY).header)
            _refuse_other(header.sweep, self.identity, self.where.folder)
            collected.moments = _moments(self.path, like=collected.moments)
            collected.seen.grey_copies = _grey_copies(self.path)
        except UsageError:
            raise
        except WRONG_VALUES as error:
            none = ArtefactError(
                f"{self.path}: not a checkpoint ({error}); remove {self.where.folder}"
            )
            raise unless_memory(error, none) from None
        if not collected.seen.restore(header.seen):
            raise ArtefactError(
                f"{self.store_path}: shorter than its checkpoint says; remove {self.where.folder}"
            )
        if header.seen_sha256 != collected.seen.sha256:
            raise ArtefactError(
                f"{self.store_path}: damaged, its hash is not that of its checkpoint; remove "
                f"{self.where.folder}"
            )
        collected.batches = header.batches
        collected.bad = set(header.bad)
        collected.newest = header.newest
        collected.appearance = header.appearance
        collected.prints = set(header.prints)

    def _refuse_other_shares(self) -> None:
        """Refuse checkpoints of another number of processes, which have other names."""
        if self.where is None:
            return
        for other in self.where.folder.glob("[0-9]*-of-*.moments"):
            count = other.stem.rpartition("-")[2]
            if count != str(self.identity["number of shards"]):
                _refuse_other(
                    self.identity | {"number of shards": count}, self.identity, other.parent
                )


def _moments(path: Path, *, like: Moments) -> Moments:
    """Read the moments of a checkpoint, which must have the shapes of `like`."""
    names = [item.name for item in fields(like)]
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in names}
    check_values({f"moments.{name}": tensors[name] for name in ("count", "mean")} | tensors)
    for name in names:
        expected = getattr(like, name)
        found = tensors[name]
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise Malformed(f"{name} is {found.dtype} {found.shape}, expected {expected.shape}")
    return type(like)(**tensors)


def _grey_copies(path: Path) -> GreyCopies:
    """Read the grey copies of the images."""
    with safe_open(path, framework="numpy") as file:
        names = [name for name in file.keys() if name.startswith("looks.")]  # noqa: SIM118
        looks = {name.removeprefix("looks."): file.get_tensor(name) for name in names}
    return GreyCopies.of_tensors(looks)


def discard(options: FitOptions) -> None:
    """Remove the checkpoints once the result is safe: call it after saving, in every process."""
    group = options.group
    group.gather(None)  # wait for the one that saves
    Checkpoint(options.checkpoints, shard=Shard(index=group.rank, count=group.size)).discard()


def describe_space(space: FeatureSpace) -> JsonObject:
    """Describe what has to be equal for moments to belong together, by the names in errors."""
    config = json.loads(json.dumps(space.config.to_dict()))
    return {
        **{f"setting {name}": value for name, value in config.items()},
        "weights": space.origin.sha256,
        "W": hashlib.sha256(space.embedding.tobytes()).hexdigest(),
    }


def describe_pass(space: FeatureSpace, samples: Sequence[Sample], *, batch_size: int) -> JsonObject:
    """Describe what has to be equal for shards to be parts of one pass."""
    digest = hashlib.sha256()
    for sample in samples:
        variant = "" if sample.variant is None else f"{sample.variant}\0"
        digest.update(f"{variant}{sample.image.name}\0{sample.image_index}\0".encode())
    return describe_space(space) | {
        "number of images": len(samples),
        "names of the images": digest.hexdigest(),
        "batch size": batch_size,
    }


def difference(first: JsonObject, second: JsonObject) -> str | None:
    """Describe the first difference, or return None."""
    first, second = _name_all(first), _name_all(second)
    for name in [*first, *(name for name in second if name not in first)]:
        if first.get(name) != second.get(name):
            values = (_short(facts.get(name)) for facts in (first, second))
            return f"{name}: {' and '.join(values)}"
    return None


def _name_all(facts: JsonObject) -> JsonObject:
    """Add the settings that files of 0.2.0 do not name."""
    return facts | {
        place: value for name, value in UNNAMED.items() if (place := f"setting {name}") not in facts
    }


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text  # a hash


def _refuse_other(old: JsonObject, new: JsonObject, folder: Path) -> None:
    changed = difference(old, new)
    if changed is not None:
        raise UsageError(
            Setting("resume", True),
            f": {folder} is of another fit ({changed}); repeat that command, or remove the "
            "folder to begin again",
        )
