"""The record of the known defects that a model has learned from."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class KnownKind:
    """One kind of known defects: its pictures, and how many of them were and would be found."""

    kind: str
    pictures: int
    found_before: int  # by the model without known defects
    found: int  # by the model of all other known defects; of a single one, by this model

    def __post_init__(self) -> None:
        if not (self.pictures > 0 and min(self.found_before, self.found) >= 0):
            raise ValueError(f"{self.kind}: {self.pictures} pictures, expected some")
        if max(self.found_before, self.found) > self.pictures:
            raise ValueError(f"{self.kind}: more found than its {self.pictures} pictures")


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """What a header tells of known defects."""

    share: float  # of every distance that is theirs
    threshold_before: float  # of the model without them
    kinds: tuple[KnownKind, ...]

    @property
    def pictures(self) -> int:
        """How many there are."""
        return sum(each.pictures for each in self.kinds)

    @property
    def found_before(self) -> int:
        """How many the model without them finds."""
        return sum(each.found_before for each in self.kinds)

    @property
    def found(self) -> int:
        """How many are found by a model of all others."""
        return sum(each.found for each in self.kinds)
