"""One damaged file after another, each reproducible by its number, in bounded time and memory."""

import json
import random
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from edgeseg.base.errors import EdgesegError
from tests.endurance.fuzz.format import Format
from tests.endurance.fuzz.formats import FORMATS
from tests.endurance.fuzz.mutators import BLIND, change_json, sealed_again
from tests.endurance.fuzz.seeds import Seed
from tests.endurance.scratch import scratch

LONGEST_S = 5.0  # of the processor, for one case
_WAITING = 20.0  # times as long by the clock
MOST_BYTES = 2_000_000_000  # of address space above what the process has after its first loads


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A case that ended as none may."""

    case: int
    seed_file: str
    how: str
    what: str


@dataclass(kw_only=True)
class Tally:
    """What became of the cases."""

    cases: int = 0
    refused: int = 0
    loaded: int = 0
    by_mutator: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest_s: float = 0.0

    def add(self, other: "Tally") -> None:
        """Take another's cases in."""
        self.cases += other.cases
        self.refused += other.refused
        self.loaded += other.loaded
        self.by_mutator += other.by_mutator
        self.findings += other.findings
        self.slowest_s = max(self.slowest_s, other.slowest_s)

    def facts(self) -> dict[str, object]:
        """Plain JSON values."""
        plain = {"by_mutator": dict(self.by_mutator), "findings": list(map(asdict, self.findings))}
        return {
            "cases": self.cases,
            "refused": self.refused,
            "loaded": self.loaded,
            "slowest_s": round(self.slowest_s, 3),
            **plain,
        }


class TooSlow(BaseException):
    """Passes by every `except Exception` on its way out."""


def run_cases(
    name: str,
    cases: range,
    *,
    seed: int,
    keep: Path | None = None,
    at: Callable[[int], None] = lambda case: None,
) -> Tally:
    """Try some cases of a format; files that end as none may are kept in a folder."""
    kind, tally = FORMATS[name], Tally()
    with scratch("fuzz") as folder:
        whole = list(kind.seeds(folder))
        for one in whole:
            _check_whole(kind, one, folder)
        for case in cases:
            at(case)
            _try(kind, whole, folder, name=name, case=case, seed=seed, tally=tally, keep=keep)
    return tally


def _check_whole(kind: Format, seed: Seed, folder: Path) -> None:
    try:
        kind.load(seed.data, seed, folder)
    except EdgesegError as error:
        # A plan needs a GPU's library, a lone shard its sister: what matters is what is damaged.
        if "not installed" not in str(error) and "is installed" not in str(error):
            raise


def damaged(
    kind: Format, whole: list[Seed], *, name: str, case: int, seed: int
) -> tuple[Seed, str, bytes, bool]:
    """The file of a case: its seed, how it was damaged, its bytes, and if it must be refused."""
    dice = random.Random(f"{seed}:{name}:{case}")
    source, other = dice.choice(whole), dice.choice(whole)
    if kind.json is not None and source.has_json and dice.random() < 0.5:
        data = _with_json(dice, kind, source)
        if kind.json == "onnx":
            return source, "json, sealed again", data, False
        if source.sealed and dice.random() < 0.7:
            return source, "json, sealed again", sealed_again(data, text=kind.json == "text"), False
        return source, "json", data, source.sealed and data.strip() != source.data.strip()
    data, names = source.data, []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        mutator = dice.choice(BLIND)
        data = mutator(dice, data, other.data)
        names.append(mutator.__name__)
    if kind.json == "safetensors" and source.has_json and dice.random() < 0.5:
        return source, "+".join([*names, "sealed again"]), sealed_again(data, text=False), False
    sealed = source.sealed and data.strip() != source.data.strip()
    return source, "+".join(names), data, sealed and data not in [one.data for one in whole]


def _with_json(dice: random.Random, kind: Format, seed: Seed) -> bytes:
    if kind.json == "text":
        return change_json(dice, seed.data.decode(errors="replace")).encode()
    if kind.json == "safetensors":
        return _with_header(dice, seed.data)
    import onnx

    proto = onnx.load_from_string(seed.data)
    for item in proto.metadata_props:
        text = change_json(dice, item.value)
        if seed.sealed:
            text = sealed_again(text.encode(), text=True).decode()
        item.value = text.encode(errors="replace").decode(errors="replace")
    return bytes(proto.SerializeToString(deterministic=True))


def _with_header(dice: random.Random, data: bytes) -> bytes:
    """Our header changed, or the list of tensors around it."""
    length = int.from_bytes(data[:8], "little")
    whole = json.loads(data[8 : 8 + length])
    if dice.random() < 0.7:
        (key,) = whole["__metadata__"]
        whole["__metadata__"][key] = change_json(dice, whole["__metadata__"][key])
        text = json.dumps(whole).encode()
    else:
        text = change_json(dice, json.dumps(whole)).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def _try(
    kind: Format,
    whole: list[Seed],
    folder: Path,
    *,
    name: str,
    case: int,
    seed: int,
    tally: Tally,
    keep: Path | None,
) -> None:
    source, how, data, must_refuse = damaged(kind, whole, name=name, case=case, seed=seed)
    tally.cases += 1
    tally.by_mutator[how.partition("+")[0]] += 1
    what, started = None, time.monotonic()
    refusals: tuple[type[Exception], ...] = (EdgesegError, *kind.refusals)
    try:
        with _time_limit(LONGEST_S):
            kind.load(data, source, folder)
        tally.loaded += 1
        if must_refuse:
            what = "loaded, though it is not what was written"
    except refusals:
        tally.refused += 1
    except TooSlow:
        what = f"took over {LONGEST_S:g} s"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        file = "/".join(Path(where.filename).parts[-2:])
        what = f"{type(error).__name__}: {str(error)[:200]} ({file}:{where.lineno})"
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - started)
    if what is not None:
        tally.findings.append(Finding(case=case, seed_file=source.name, how=how, what=what))
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}-{seed}-{case}-{source.name}").write_bytes(data)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def expired(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    # Of the processor, so that a busy machine finds nothing; and of the clock, for what waits.
    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, _WAITING * seconds),
    }
    before = {number: signal.signal(number, expired) for number in clocks}
    for clock, limit in clocks.values():
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for number, (clock, _) in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


def limit_memory() -> None:
    """Bound this process from here on: a bomb is a MemoryError, not a slow machine."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
