"""What fitting, learning and swapping cost a station that runs.

    python -m edgeseg.bench.studies.teach.station_load mvtec_ad/bottle/train/good --out load

A project is fitted on good pictures and runs at a camera that shows them at a fixed rate, with an
odd one among them. Then it is fitted again, the odd one is marked as good, learned, swapped in and
rolled back, by the calls of the page. A phase ends at a moment when no frame is under way: what
came in then was inspected or counted as dropped, or is unaccounted for.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.scratch import scratch
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.contract.images import images_in, read_image, write_image
from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.options import FOLDER, note
from edgeseg.runtime.backends.session_options import available_cores
from edgeseg.runtime.capture.captures import Grab, Pace, Wait
from edgeseg.runtime.capture.image_files import ImageFiles
from edgeseg.runtime.capture.sources import SOURCES, Source
from edgeseg.runtime.records import FrameResult, SourceEvent
from edgeseg.runtime.sink_kinds import SINKS, SinkKind
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.teach.service import TeachService
from edgeseg.teach.work import CHILD

Image = NDArray[np.uint8]
ODD = "odd.png"  # the picture that is marked and learned
_SHOWN = 24  # pictures that the camera has in memory
_LONGEST_S = 900.0
_SETTLE_S = 10.0
_POLL_S = 0.05


class PacedPictures:
    """Decoded pictures at a fixed rate, again and again: `paced:FPS:FOLDER`."""

    def __init__(self, text: str, *, wait: Wait) -> None:
        _, fps, folder = text.split(":", 2)
        self.fps = float(fps)
        files = ImageFiles(images_in(Path(folder)))
        self._grabs = list(iter(files.read, None))
        self._pace, self._next = Pace(self.fps, wait=wait), 0

    def read(self) -> Grab | None:
        """The next one; None when the run is ending."""
        if self._pace.ending():
            return None
        grab = self._grabs[self._next % len(self._grabs)]
        self._next += 1
        return grab._replace(grabbed_ns=time.monotonic_ns(), wall_s=time.time())

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One inspected frame."""

    score_ms: float
    verdict_ms: float  # from the grab on
    model: tuple[str | None, float]  # its hash and threshold


class Timekeeper:
    """The sink that keeps every frame's own times."""

    name = "timekeeper"

    def __init__(self) -> None:
        self.scored: list[Scored] = []

    def on_frame(self, result: FrameResult) -> None:
        """From the scoring thread."""
        times, trace = result.times, result.trace
        scored = Scored(
            score_ms=times.pre + times.infer + times.post,
            verdict_ms=times.end_to_end,
            model=(None if trace is None else trace.model_sha256, result.threshold_score),
        )
        self.scored.append(scored)

    def on_source(self, event: SourceEvent) -> None:
        """The counters have it."""

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class _NoOptions:
    """The sink is told nothing."""


@contextmanager
def attached(keeper: Timekeeper) -> Iterator[None]:
    """Let stations have the paced source, and this sink behind their own."""
    SOURCES["paced"] = Source(
        expects="paced:FPS:FOLDER",
        recognise=lambda text: text.startswith("paced:"),
        live=lambda text, realtime: True,
        open=lambda text, opening: PacedPictures(text, wait=opening.wait),
    )
    SINKS[keeper.name] = SinkKind(record=_NoOptions, options=(), make=lambda run, options: keeper)
    try:
        yield
    finally:
        del SOURCES["paced"], SINKS[keeper.name]


@dataclass(frozen=True, kw_only=True)
class Account:
    """Frames of the station so far, when none was under way."""

    at_s: float
    frames: int
    inspected: int
    dropped: int

    @property
    def unaccounted(self) -> int:
        """Neither inspected nor counted as dropped."""
        return self.frames - self.inspected - self.dropped


@dataclass(frozen=True, kw_only=True)
class Row:
    """One phase."""

    phase: str = field(metadata=column("phase"))
    seconds: float = field(metadata=column("seconds", digits=1))
    frames: int = field(metadata=column("frames in"))
    inspected: int = field(metadata=column("inspected"))
    dropped: int = field(metadata=column("dropped"))
    unaccounted: int = field(metadata=column("unaccounted"))
    p50_ms: float | None = field(metadata=column("scoring p50 ms", digits=1))
    p99_ms: float | None = field(metadata=column("p99 ms", digits=1))
    ratio: float | None = field(metadata=column("p99 / alone", digits=2))
    verdict_ms: float | None = field(metadata=column("grab to verdict p99 ms", digits=1))


class Load:
    """A running service and its phases."""

    def __init__(self, service: TeachService, keeper: Timekeeper) -> None:
        self._service, self._keeper = service, keeper
        self.rows: list[Row] = []
        self._before = self.settled()

    def settled(self) -> Account:
        """The account of a moment without a frame under way; at the latest after some seconds."""
        until_s = time.monotonic() + _SETTLE_S
        while True:
            counted = self._service.state()["run"]["counters"]
            account = self._account(counted)
            if not account.unaccounted or time.monotonic() > until_s:
                return account
            time.sleep(_POLL_S / 10)

    def stay(self, seconds: float) -> None:
        """Let it run for a frame at least, looked at as often as at other times."""
        until_s, scored = time.monotonic() + seconds, len(self._keeper.scored)
        _until(
            lambda: (
                self._service.state()
                and time.monotonic() > until_s
                and len(self._keeper.scored) > scored
            ),
            what="stay",
        )

    def skip(self) -> None:
        """What has come since the last phase belongs to none."""
        self._before = self.settled()

    def phase(self, name: str) -> None:
        """What has come since the last phase was this one."""
        now, before = self.settled(), self._before
        scored = self._keeper.scored[before.inspected : now.inspected]
        scoring = [item.score_ms for item in scored]
        alone = self.rows[0].p99_ms if self.rows else _share(scoring, 99)
        p99 = _share(scoring, 99)
        self._before = now
        self.rows.append(
            Row(
                phase=name,
                seconds=now.at_s - before.at_s,
                frames=now.frames - before.frames,
                inspected=now.inspected - before.inspected,
                dropped=now.dropped - before.dropped,
                unaccounted=now.unaccounted - before.unaccounted,
                p50_ms=_share(scoring, 50),
                p99_ms=p99,
                ratio=None if p99 is None or not alone else p99 / alone,
                verdict_ms=_share([item.verdict_ms for item in scored], 99),
            )
        )
        note(f"{name}: {self.rows[-1].inspected} frames inspected")

    def end(self) -> Account:
        """Stop the station; the account of all its frames."""
        return self._account(self._service.stop()["counters"])

    def _account(self, counted: dict[str, Any]) -> Account:
        return Account(
            at_s=time.monotonic(),
            frames=counted["frames"],
            inspected=len(self._keeper.scored),
            dropped=sum(counted["dropped"].values()),
        )


def _share(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _until(met: Callable[[], object], *, what: str) -> None:
    until_s = time.monotonic() + _LONGEST_S
    while not met():
        if time.monotonic() > until_s:
            raise RuntimeFailure(f"{what}: not within {_LONGEST_S:.0f} s")
        time.sleep(_POLL_S)


def _done(service: TeachService, work: str) -> None:
    """Wait for a fit or a learning that must end well."""
    _until(lambda: service.state()[work]["state"] != "running", what=work)
    ended = service.state()[work]
    if ended["state"] != "done":
        raise RuntimeFailure(f"{work}: {ended['sentence']}")


def make_project(folder: Path, pictures: Sequence[Image], *, fps: float, backbone: str) -> Project:
    """Good pictures in the project, and some of them with the odd one before the camera."""
    project, camera = Project.begun(folder / "load"), folder / "camera"
    for index, image_hwc in enumerate(pictures):
        write_image(project.pictures("good") / f"{index:03d}.png", image_hwc)
    for index, image_hwc in enumerate(pictures[: _SHOWN - 1]):
        write_image(camera / f"{index:03d}.png", image_hwc)
    odd_hwc = pictures[0].copy()
    height, width = odd_hwc.shape[:2]
    odd_hwc[height // 4 : height // 3, width // 3 : width // 2] = 255
    write_image(camera / ODD, odd_hwc)
    project.store(ProjectSettings(source=f"paced:{fps}:{camera}", backbone=backbone))
    return project


def pictures_of(data: Path | None, count: int) -> list[Image]:
    """The first ones of a folder, or synthetic ones."""
    if data is None:
        scene = SceneGenerator()
        return [scene.good(index) for index in range(count)]
    paths = images_in(data)[:count]
    if len(paths) < 2:
        raise UsageError(f"{data}: {len(paths)} pictures, expected a folder of good ones")
    return [read_image(path) for path in paths]


def measure(
    project: Project, *, seconds: float, rounds: int = 1, child: Sequence[str] = CHILD
) -> tuple[list[Row], Account]:
    """Every phase of every round, and the account of the whole run."""
    keeper = Timekeeper()
    service = TeachService(project, child=child)
    try:
        with attached(keeper):
            note("the first fit, before anything runs")
            service.start_fit({})
            _done(service, "fit")
            service.run()
            _until(lambda: keeper.scored or not _alive(service), what="run")
            if not keeper.scored:
                raise RuntimeFailure(f"run: {service.state()['run']['sentence']}")
            load = Load(service, keeper)
            load.stay(seconds)
            load.phase("alone")
            for _ in range(rounds):
                _round(service, keeper, load, seconds=seconds)
            return load.rows, load.end()
    finally:
        service.close()


def _round(service: TeachService, keeper: Timekeeper, load: Load, *, seconds: float) -> None:
    """Fit, learn, swap and go back, while the station runs."""
    service.start_fit({})
    _done(service, "fit")
    load.phase("fitting")
    service.run()  # where the same fit gives the same bytes, there is nothing to install
    _until(lambda: service.state()["model"]["installed"], what="install")
    _until(lambda: _odd_alarms(service), what=f"alarm of {ODD}")
    service.mark(_odd_alarms(service)[0], "good", who="supervisor", name="bench")
    load.skip()
    _until(lambda: service.learn_preview()["state"] != "running", what="preview")
    load.phase("learning")
    swap = partial(service.learn, force=True)  # the odd one is far above the threshold
    for name, act in (("swap", swap), ("rollback", service.rollback)):
        before = keeper.scored[-1].model
        act(who="supervisor")
        if name == "swap":
            _done(service, "learn")
        _until(lambda then=before: keeper.scored[-1].model != then, what=name)  # type: ignore[misc]
        load.phase(name)
    load.stay(seconds)
    load.phase("after rollback")


def _alive(service: TeachService) -> bool:
    return bool(service.state()["run"]["state"] != "stopped")


def _odd_alarms(service: TeachService) -> list[str]:
    return [alarm["id"] for alarm in service.alarms() if alarm["part"] == ODD]


def report_of(rows: Sequence[Row], whole: Account, *, images: int, busy: str | None) -> Report:
    """The phases, and whether every frame is accounted for."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return Report(
        name="station-load",
        title="What fitting, learning and swapping cost a running station",
        findings=(
            f"Of {whole.frames} frames {whole.inspected} were inspected, {whole.dropped} counted "
            f"as dropped and {whole.unaccounted} are unaccounted for.",
            f"The p99 of scoring is at most {max(ratios):.2f} times that of the station alone.",
        ),
        tables=(
            table_of(
                f"Phases of a station, {images} good pictures",
                rows,
                note="Scoring is preparation, inference and decision of one frame. The p99 of "
                "fewer than 100 frames is close to their longest.",
            ),
        ),
        figures=(),
        facts=describe(threads=available_cores()),
        notes=() if busy is None else (busy,),
        raw={"rows": [asdict(row) for row in rows], "whole": asdict(whole)},
    )


@click.command(context_settings={"show_default": True})
@click.argument("data", required=False, type=FOLDER)
@click.option("--count", type=click.IntRange(2), default=60, help="Good pictures.")
@click.option("--fps", type=click.FloatRange(0.1), default=10.0, help="Of the camera.")
@click.option("--seconds", type=float, default=30.0, help="Of the phases without work.")
@click.option("--rounds", type=click.IntRange(1), default=1, help="Of fit, learn, swap and back.")
@click.option("--backbone", default="efficientnet_lite0")
@click.option("--out", type=FOLDER, required=True)
def main(
    data: Path | None,
    count: int,
    fps: float,
    seconds: float,
    rounds: int,
    backbone: str,
    out: Path,
) -> None:
    """Run a station on DATA, a folder of good pictures, or on synthetic ones, and load it."""
    busy = busy_warning()
    pictures = pictures_of(data, count)
    with scratch("load") as place:
        project = make_project(place, pictures, fps=fps, backbone=backbone)
        rows, whole = measure(project, seconds=seconds, rounds=rounds)
    out.mkdir(parents=True, exist_ok=True)
    write_report(report_of(rows, whole, images=len(pictures), busy=busy), out)
    note(f"wrote {out / 'report.md'}")


if __name__ == "__main__":
    main()
