"""Store the results of golden checks: one file a check, the newest last."""

from dataclasses import asdict, dataclass
from pathlib import Path

from edgeseg.base.files import write_json
from edgeseg.base.plain import Malformed, parse_object, read_bounded
from edgeseg.decision.binomial import exact_interval
from edgeseg.modelfile.versions import keep_newest
from edgeseg.runtime.recipes.recipe import Recipe

CONFIDENCE = 0.95
_KEPT = 400  # checks: a year of mornings


@dataclass(frozen=True, kw_only=True)
class PictureCheck:
    """The result for one golden picture."""

    file: str
    label: str
    verdict: str
    score: float | None  # None: no finite number
    approved_score: float
    spread: float | None  # between the repeats
    passed: bool


@dataclass(frozen=True, kw_only=True)
class MistakeRate:
    """Mistakes in a sample, and the interval of rates at CONFIDENCE.

    The interval holds for the line only if the pictures are a fair sample of its parts.
    """

    mistakes: int
    pictures: int
    low: float
    high: float

    @classmethod
    def of(cls, mistakes: int, pictures: int) -> "MistakeRate":
        """Compute Clopper and Pearson's exact interval."""
        low, high = exact_interval(mistakes, pictures, confidence=CONFIDENCE)
        return cls(mistakes=mistakes, pictures=pictures, low=low, high=high)

    def __str__(self) -> str:
        if not self.pictures:
            return "no pictures, so nothing is known"
        return (
            f"{self.mistakes} of {self.pictures}, so the rate is between {self.low:.1%} and "
            f"{self.high:.1%}"
        )


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """The result of one check."""

    when: str  # UTC
    recipe: str
    passed: bool
    problems: tuple[str, ...]
    repeats: int
    model_sha256: str | None = None
    precision: str | None = None
    backend: str | None = None
    threshold: float | None = None
    pictures: tuple[PictureCheck, ...] = ()
    largest_spread: float | None = None  # of a picture's scores between repeats
    false_alarms: MistakeRate | None = None
    misses: MistakeRate | None = None
    master: dict[str, float] | None = None  # changes of light and focus as factors, movement
    schema: int = 1

    @property
    def summary(self) -> str:
        """The result in one sentence, for a PLC's operator."""
        if self.passed:
            return f"{len(self.pictures)} golden pictures as approved"
        more = len(self.problems) - 1
        return self.problems[0] + (f", and {more} more" if more else "")

    def facts(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"confidence": CONFIDENCE, **asdict(self)}


def records_of(recipe: Recipe) -> list[Path]:
    """List the stored records, the newest last."""
    return sorted((recipe.folder / "checks").glob("check-*.json"))


def last_check(recipe: Recipe) -> str:
    """Describe the newest record in two words and a time."""
    records = records_of(recipe)
    if not records:
        return "never"
    try:
        values = parse_object(read_bounded(records[-1]))
        return f"{'passed' if values['passed'] is True else 'FAILED'} {values['when']}"
    except (OSError, Malformed, KeyError):
        return f"unknown: {records[-1].name} is damaged"


def write_record(recipe: Recipe, record: CheckRecord) -> Path:
    """Store a record; the oldest are deleted when there are very many."""
    stamp = record.when.replace(":", "").replace("-", "")
    # Several in one second stay in their order, also when the first of them is gone.
    same = [path.stem for path in records_of(recipe) if path.stem.startswith(f"check-{stamp}-")]
    number = 1 + int(same[-1].rpartition("-")[2]) if same else 0
    path = recipe.folder / "checks" / f"check-{stamp}-{number:03d}.json"
    write_json(path, record.facts())
    keep_newest(records_of(recipe), _KEPT)
    return path
