"""Rules of `--group-by`: which pictures show the same part.

auto         no rule: near-copies are found by comparing the pictures
none         every picture shows another part
folder       pictures in one folder show one part
name:SIGN    pictures whose names are alike before the last SIGN: part7_1.png, part7_2.png by name:_
match:REGEX  pictures in whose names a regular expression finds the same text
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting

AUTO = "auto"
EXPECTED = "auto, none, folder, name:SIGN such as name:_, or match:REGEX"


@dataclass(frozen=True, kw_only=True)
class GroupBy:
    """A rule that tells parts by the paths of their pictures; AUTO has none."""

    text: str = AUTO

    def __post_init__(self) -> None:
        kind, _, value = self.text.partition(":")
        if kind not in ("auto", "none", "folder", "name", "match") or (
            bool(value) != (kind in ("name", "match"))
        ):
            raise UsageError(Setting("group_by", self.text), f": expected {EXPECTED}")
        if kind == "match":
            try:
                re.compile(value)
            except re.error as error:
                raise UsageError(
                    Setting("group_by", self.text),
                    f": no regular expression ({error}); try match:part[0-9]+",
                ) from None

    @property
    def knows(self) -> bool:
        """Whether there is a rule; if not, pictures are compared."""
        return self.text != AUTO

    def part(self, path: PurePath, *, place: int) -> int:
        """Return the number of a picture's part, the same in every process."""
        text = self._key()(path, place)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")

    def _key(self) -> Callable[[PurePath, int], str]:
        kind, _, value = self.text.partition(":")
        if kind == "folder":
            return lambda path, place: path.parent.as_posix()
        if kind == "name":
            return lambda path, place: path.stem.rpartition(value)[0] or path.stem
        if kind == "match":
            return lambda path, place: _matching_text(re.search(value, path.name), path)
        return lambda path, place: f"{path.as_posix()} {place}"


def _matching_text(match: re.Match[str] | None, path: PurePath) -> str:
    if match is None:
        raise UsageError(
            Setting("group_by", "match"),
            f": nothing in the name {path.name} matches; expected a regular expression that "
            "finds the part's own number or name in every file name",
        )
    return match.group(match.lastindex or 0)
