"""The kind of a defect: the nearest known ones by how far its cells are from good parts.

    cells of a region --z = W'x - mean--> one direction --KnownKinds.nearest--> KindGuess

What counts is the direction of z, in units of how much good parts vary: how strong a defect is
says little of its kind. The threshold does not use it.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.base.packed import PackedArray

Severity = Literal["minor", "major"]
UNKNOWN = "unknown"
NEIGHBOURS = 5  # known defects that are asked: of so many a guess says how many are of its kind


@dataclass(frozen=True, kw_only=True)
class KindGuess:
    """The kind that a found region most looks like."""

    name: str | None  # None: unlike all known ones
    number: int = 0  # from 1, in the order of the names; 0: unknown
    like: int = 0  # of the nearest known defects so many are of this kind
    of: int = 0
    severity: Severity | None = None  # None: the region's own decides

    @property
    def words(self) -> Message:
        """The guess in words."""
        if self.name is None:
            return Message("kind_unknown")
        return Message("kind_like", kind=self.name, n=self.like, n_all=self.of)

    def facts(self) -> dict[str, object]:
        """Return plain values, for events and programs."""
        like = [self.like, self.of]
        return {"kind": self.name or UNKNOWN, "kind_number": self.number, "like": like}


@dataclass(frozen=True, kw_only=True)
class KnownKinds:
    """Known defects by kind, as a model keeps them."""

    names: tuple[str, ...]
    severity: tuple[Severity | None, ...]  # of each kind; None: as strong as it is
    kinds: tuple[int, ...]  # (n,): of each known defect
    projection: PackedArray  # (k, m): to units of how much good parts vary
    directions: PackedArray  # (n, m): of each known defect, of length 1
    limit: float  # cosine: what is less like the nearest known one is unknown
    right: int  # of those that were tried: each known one, judged by the others
    tried: int

    def __post_init__(self) -> None:
        count, width = len(self.kinds), self.projection.shape[-1]
        if self.directions.shape != (count, width) or not count:
            raise ValueError(f"directions: {list(self.directions.shape)}, expected one of each")
        if len(self.severity) != len(self.names):
            raise ValueError("severity: expected one of each name")
        if not all(0 <= kind < len(self.names) for kind in self.kinds):
            raise ValueError(f"kinds: expected numbers of {len(self.names)} names")

    def direction(self, z_k: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the direction (m,) of a region's cells; all zero where they do not differ."""
        rows = unit_rows(z_k[None].astype(np.float32) @ self.projection.values)
        return np.asarray(rows[0], np.float32)

    def nearest(self, z_k: NDArray[np.floating]) -> KindGuess:
        """Guess the kind of a region by its cells' mean distance (k,) from good ones."""
        kinds = np.asarray(self.kinds)
        alike = self.directions.values @ self.direction(z_k)
        if not float(alike.max()) >= self.limit:
            return KindGuess(name=None)
        number, like, asked = vote(alike, kinds)
        return KindGuess(
            name=self.names[number],
            number=number + 1,
            like=like,
            of=asked,
            severity=self.severity[number],
        )

    def facts(self) -> dict[str, object]:
        """Return what `edgeseg info` shows."""
        return {
            "names": list(self.names),
            "severity": [each or "-" for each in self.severity],
            "known": [self.kinds.count(number) for number in range(len(self.names))],
            "limit": self.limit,
            "right": self.right,
            "tried": self.tried,
        }


def read_severity(text: str) -> tuple[str, Severity]:
    """Read the severity of a kind, such as scratch=minor."""
    name, sign, severity = text.partition("=")
    for known in get_args(Severity):
        if name and sign and severity == known:
            return name, known
    raise UsageError(
        Setting("severity", text), ": expected a kind and minor or major, such as scratch=minor"
    )


def vote(alike: NDArray[np.floating], kinds: NDArray[np.integer]) -> tuple[int, int, int]:
    """Return the kind of the nearest, how many of the nearest are of it, and how many were asked.

    Each of the nearest counts by how alike it is; of equal kinds the first one is taken.
    """
    asked = min(NEIGHBOURS, len(kinds))
    nearest = np.argsort(-alike, kind="stable")[:asked]
    weights = np.clip(1 + alike[nearest], 0, None) ** 4
    votes = np.bincount(kinds[nearest], weights=weights)
    number = int(votes.argmax())
    return number, int(np.count_nonzero(kinds[nearest] == number)), asked


def unit_rows(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return rows (n, m) of length 1; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12), np.float32)
