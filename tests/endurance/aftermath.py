"""What a disturbed command left, as the next command finds it: old or new, never half."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.endurance.forked import answer_forked, run_forked
from tests.endurance.jobs import Job, close_enough, names_in


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A run that nobody disturbed."""

    old: Any  # facts before it
    new: Any  # facts after it
    names: set[str]


@dataclass(kw_only=True)
class Aftermath:
    """What disturbed runs left; a list has what was lost."""

    old: int = 0
    new: int = 0
    damaged: list[str] = field(default_factory=list)
    left_after_next_run: list[str] = field(default_factory=list)
    not_repeatable: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Runs after which something was not as it should be."""
        return sum(len(value) for value in vars(self).values() if isinstance(value, list))

    def inspect(self, job: Job, whole: Whole, folder: Path, where: str, *, place: Path) -> None:
        """Read the outputs, run the command again, and read them again; `place` is for logs."""
        self._read(job, whole, folder, where, place)
        again = run_forked(lambda: job.run(folder, *job.again), folder=place)
        if not job.ended_well(again):
            self.not_repeatable.append(f"{where}: {again.said[-500:]}")
            return
        try:
            answer_forked(lambda: job.after(folder), folder=place)
            facts = answer_forked(lambda: job.facts(folder), folder=place)
            if not close_enough(facts, whole.new):
                self.not_repeatable.append(f"{where}: another result than an undisturbed run")
        except RuntimeError as error:
            self.not_repeatable.append(f"{where}: {error}")
        left = sorted(names_in(folder) - whole.names)
        self.left_after_next_run += [f"{where}: {path}" for path in left]

    def _read(self, job: Job, whole: Whole, folder: Path, where: str, place: Path) -> None:
        try:
            facts = answer_forked(lambda: job.facts(folder), folder=place)
        except RuntimeError as error:
            self.damaged.append(f"{where}: {error}")
            return
        is_new = close_enough(facts, whole.new)
        self.new += is_new
        self.old += not is_new
        if not is_new and not close_enough(facts, whole.old):
            self.damaged.append(f"{where}: neither old nor new: {facts}")
