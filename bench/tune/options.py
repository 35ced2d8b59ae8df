"""What `edgeseg tune` tries; light, for the command line to take its defaults from."""

from dataclasses import dataclass, field
from pathlib import Path

from edgeseg.bench.latency.turns import Schedule
from edgeseg.config import FitConfig
from edgeseg.errors import UsageError
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions

GLANCE = Schedule(rounds=5, turn=5, warmup=5, streamed=2)


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The budget, and what may be tried; an empty list is all that this computer has."""

    data: Path
    budget_ms: float
    backbones: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("auto",)
    config: FitConfig = field(default_factory=FitConfig)
    planted: int = 96  # defects on copies of good images, to judge by; each is a percent of recall
    weights: str | None = None
    session: SessionOptions = DEFAULTS
    schedule: Schedule = field(default_factory=Schedule)
    glance: Schedule = GLANCE

    def __post_init__(self) -> None:
        if not self.budget_ms > 0:
            raise UsageError(f"budget_ms={self.budget_ms:g}: expected milliseconds above 0")
        if self.planted < 1:
            raise UsageError(
                f"planted={self.planted}: expected at least 1; models are judged by what they find"
            )
