"""A simulated clock, a camera whose truth is known, and the ways on which its frames come here.

    exposed --delay, stall, loss, repeat--> a buffer --read, which waits--> a capture of the product

Time passes only where somebody waits: in a read, in a back-off, in a stopped process. Whatever is
due meanwhile (triggers, parts, verdicts) happens in order, in one thread.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

START_S = 1000.0


class Sim:
    """The clock: stands in for the module `time` in whatever reads it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._now_s, self._busy_s = START_S, 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """As `time` has it; the wall clock shows the same."""
        return self._now_s

    time = monotonic

    def monotonic_ns(self) -> int:
        """As `time` has it."""
        return int(self._now_s * 1e9)

    def thread_time(self) -> float:
        """Of the processor, for decoding."""
        return self._busy_s

    def at(self, moment_s: float, what: Callable[[], None]) -> None:
        """Have something done then."""
        heapq.heappush(self._due, (moment_s, next(self._order), what))

    def advance(self, moment_s: float) -> None:
        """Sleep until then; what is due is done on the way."""
        while self._due and self._due[0][0] <= moment_s:
            due_s, _, what = heapq.heappop(self._due)
            self._now_s = max(self._now_s, due_s)
            what()
        self._now_s = max(self._now_s, moment_s)

    def work(self, seconds: float) -> None:
        """Use the processor so long."""
        self._busy_s += seconds
        self.advance(self._now_s + seconds)


class Shot(NamedTuple):
    """One frame on its way."""

    number: int  # what its pixels show
    exposed_s: float
    arrives_s: float  # at the buffer of this computer


@dataclass(frozen=True, kw_only=True)
class Troubles:
    """What goes wrong, and how often: each is a chance at every frame."""

    link: float = 0.0  # it stands still for a while; what was sent meanwhile comes in a burst
    dropping: float = 0.5  # share of those in which the camera throws away what it cannot send
    lost: float = 0.0  # a single frame
    repeated: float = 0.0  # a frame comes twice
    reordered: float = 0.0  # a frame comes after the next
    frozen: float = 0.0  # the camera goes on, and its picture does not
    process: float = 0.0  # this process is stopped (SIGSTOP) for a while
    longest_s: float = 4.0  # mostly below the stall time-out


CALM = Troubles()
ROUGH = Troubles(
    link=0.004, lost=0.003, repeated=0.003, reordered=0.003, frozen=0.001, process=0.002
)


@dataclass
class Wire:
    """Frames of a camera as they arrive, the oldest first; `exposed` is the truth."""

    sim: Sim
    fps: float
    delay_s: float
    jitter_s: float
    troubles: Troubles
    room: int = 10**6  # frames that wait here; the newest find none
    decode_s: float = 0.002
    exposed: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._held: list[Shot] = []
        self._next_s = self._free_s = self._last_s = 0.0
        self._gap_s, self._dropping, self._frozen = 0.001, False, 0

    def connect(self) -> None:
        """From here on frames are sent; none of them is from before."""
        sim = self.sim
        sim.advance(sim.monotonic() + sim.random.uniform(0.01, 0.1))
        self._held.clear()
        self._free_s = self._last_s = 0.0
        self._next_s = sim.monotonic() + sim.random.uniform(0, 1 / self.fps)
        # Opening a stream looks at its first frames, and keeps them.
        sim.advance(sim.monotonic() + sim.random.choice((0.0, 0.1, 0.5)))

    def take(self) -> Shot:
        """The oldest frame here; waits until there is one."""
        sim = self.sim
        if sim.random.random() < self.troubles.process:
            sim.advance(sim.monotonic() + sim.random.uniform(0.1, self.troubles.longest_s))
        while len(self._held) < 3 or self._next_s <= sim.monotonic():
            self._expose()
        shot = self._held.pop(0)
        sim.advance(max(sim.monotonic(), shot.arrives_s))
        here = sum(each.arrives_s <= sim.monotonic() for each in self._held)
        del self._held[self.room : max(self.room, here)]
        sim.work(self.decode_s)
        return shot

    def _expose(self) -> None:
        sim, chance, troubles = self.sim, self.sim.random.random, self.troubles
        exposed_s, self._next_s = self._next_s, self._next_s + 1 / self.fps
        number = self._frozen if self._frozen and chance() > 0.02 else next(self._numbers)
        self._frozen = number if number == self._frozen or chance() < troubles.frozen else 0
        self.exposed.setdefault(number, exposed_s)
        if chance() < troubles.link:
            self._free_s = exposed_s + sim.random.uniform(0.1, troubles.longest_s)
            self._dropping = chance() < troubles.dropping
            # How fast a burst comes: as fast as it is read, or as the link allows.
            self._gap_s = sim.random.choice((0.001, 0.3, 0.7)) / self.fps
        away = exposed_s < self._free_s and self._dropping and chance() < 0.8
        if away or chance() < troubles.lost:
            return
        way_s = self.delay_s + abs(sim.random.gauss(0, self.jitter_s))
        arrives_s = max(exposed_s + way_s, self._free_s, self._last_s + self._gap_s)
        self._last_s = arrives_s
        self._held.append(Shot(number, exposed_s, arrives_s))
        if chance() < troubles.repeated:
            self._held.append(self._held[-1])
        if chance() < troubles.reordered and len(self._held) > 1:
            older, newer = self._held[-2:]
            late_s = max(older.arrives_s, newer.arrives_s)
            self._held[-2:] = [newer, older._replace(arrives_s=late_s)]
