"""The service behind the page and the shell: everything from the first picture to learning.

    page, shell --> TeachService --> project folder, camera, fit (a child process), station

Methods may be called from any thread, return at once, give plain values and messages, and refuse
with an EdgesegError of one sentence. What takes long goes on elsewhere: ask `state`.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.base.errors import EdgesegError, UsageError, words_of
from edgeseg.base.messages import Message, Words, read_words
from edgeseg.base.progress import Note, ignore
from edgeseg.decision.operating_point import needed_images
from edgeseg.teach.alarms import Alarms
from edgeseg.teach.auto_capture import NO_AUTO, Capturing, Image, rgb
from edgeseg.teach.background_job import CHILD, BackgroundJob
from edgeseg.teach.camera import NO_CAMERA, Camera
from edgeseg.teach.feedback import Who
from edgeseg.teach.fit_log import FitLog
from edgeseg.teach.last_parts import LastParts
from edgeseg.teach.learn_service import Facts, LearnService, Mark
from edgeseg.teach.picture_list import PAGE
from edgeseg.teach.pictures import Limits, Pictures, stem_of_now
from edgeseg.teach.project import KINDS, Kind, Project, RegionSettings, check_picture_name
from edgeseg.teach.reference import smallest_is_seen, store_region, view
from edgeseg.teach.second_person import clear_pending, pending_facts
from edgeseg.teach.thumbnails import shrunk_jpeg
from edgeseg.teach.versions import Versions

if TYPE_CHECKING:
    from edgeseg.runtime.web.screen_routes import Screen
    from edgeseg.teach.station import TeachStation

__all__ = ["Capturing", "Facts", "Kind", "Mark", "TeachService", "Who"]

_LIVE_WIDTH = 960
_STOPPED: dict[str, Any] = {
    "state": "stopped",
    "sentence": Message("run_ended"),
    **dict.fromkeys(("verdict", "score", "p_value", "threshold")),
    "counters": {},
    "figures": {},
}


class TeachService(LearnService):
    """One project at one camera."""

    def __init__(
        self,
        project: Project,
        *,
        note: Note = ignore,
        limits: Limits | None = None,
        trust: tuple[Path, ...] = (),  # of what runs; what is taught here is signed before it does
        child: Sequence[str] = CHILD,
    ) -> None:
        self._note, self._trust = note, trust
        self._lock = threading.RLock()  # of the camera and the station
        self._pictures = Pictures(project, limits=limits)
        self._versions = Versions(project, note=note, trust=trust)
        self._alarms = Alarms(project.alarms, note=note)
        self._fit, self._fits = (
            BackgroundJob(project, command=child),
            FitLog(project, self._versions),
        )
        super().__init__(
            project,
            versions=self._versions,
            pictures=self._pictures,
            alarms=self._alarms,
            parts=LastParts(note=note),
            child=child,
        )
        self._camera: Camera | None = None
        self._camera_fault: Words | None = None
        self._station: TeachStation | None = None

    def open_camera(self) -> None:
        """Begin to look through the project's source; a fault is told by `state`."""
        with self._lock:
            self._close_camera()
            source = self.project.settings().source
            self._camera_fault = None if source else Message("camera_none")
            if not source:
                return
            try:
                self._camera = Camera(source, keep=self._keep)
            except EdgesegError as error:
                self._camera_fault = words_of(error)
                return
            self._camera.start()

    def close(self) -> None:
        """Stop the camera, the station and what is under way."""
        for work in (self._fit, self._learner.work):
            work.close()
        if self._station is not None:
            self._station.stop()
        with self._lock:
            self._close_camera()
        self._alarms.close()
        self._parts.close()

    def state(self) -> Facts:
        """Tell the state of the project.

        {"step": "collect|region|fit|judge|run",
         "camera": {"ok", "sentence", "width", "height", "fps"},
         "meters": {"focus": {"value": 0..1, "word"}, "light": ..., "motion": ...},
         "capturing": "off|trigger|parts",
         "auto": {"taken": n since then, "sentence": what it waits for, "empty": "" | a name of the
                  view that counts as empty}, "good": n, "bad": n, "removed": n,
         "parts": {"different": n of parts on the good pictures | null while they are counted,
                   "pictures": n that were counted | null, "needed": n for the rate,
                   "per_thousand"}, "look": n pictures of the fit that nobody has looked at,
         "fit": {"state": "none|running|done|failed|cancelled", "share": 0..1, "sentence",
                 "setting": null | {"name", "value"} that a failure is about,
                 "left_s": seconds it will still take | null, "core": share of one | null},
         "model": null | {"version", "rate_per_thousand", "threshold", "when"},
         "run": {"state": "stopped|starting|running", "verdict", "score", "p_value", "sentence",
                 "counters": {"parts", "good", "defect", ...}, "figures": {...}},
         "feedback": {"waiting": n, "agreed": n}, "missed": n defects that wait,
         "learn": {"state": "none|running|done|failed", "share", "sentence"},
         "asked": null | {"what": "learn|choose", "name", "when", "sentence"}: another supervisor
                  has to confirm it,
         "alarms_lost": n that came too fast to be kept as pictures}
        """
        with self._lock:
            station, camera = self._station, self._camera
        running = station is not None and station.alive
        if running and station is not None:
            seen = station.camera()
        elif camera is not None:
            seen = camera.facts()
        else:
            seen = {**NO_CAMERA, "sentence": self._camera_fault or Message("camera_no")}
        model = self._versions.facts()
        counts = {str(kind): self.count(kind) for kind in KINDS}
        return {
            "step": self._step(running=running, model=model is not None, good=counts["good"]),
            "camera": seen,
            "meters": {} if camera is None or running else camera.meters(),
            "capturing": "off" if camera is None else camera.mode,
            "auto": NO_AUTO if camera is None else camera.auto_facts(),
            **counts,
            "parts": self._parts_facts(),
            "look": self._review.waiting(None if model is None else model["threshold"]),
            "fit": self._fit.facts(),
            "model": model,
            "run": dict(_STOPPED) if station is None else station.facts(),
            "feedback": self._feedback.counts(),
            "missed": self._missed.count(),
            "learn": self._learner.work.facts(),
            "asked": pending_facts(self.project),
            "alarms_lost": self._alarms.lost,
        }

    # Collect

    def live_jpeg(self, timeout_s: float) -> bytes | None:
        """Wait for the next frame as JPEG, with what is marked while it runs; None if none came."""
        with self._lock:
            station, camera = self._station, self._camera
        if station is not None and station.alive:
            return station.watch.live_jpeg(timeout_s)
        if camera is None:
            time.sleep(min(timeout_s, 0.2))  # whoever asks again and again must not spin
            return None
        newest = camera.newest_index
        frame = camera.next(after=newest, timeout_s=timeout_s)
        return None if frame is None else shrunk_jpeg(rgb(frame), width=_LIVE_WIDTH)

    def capture(self, *, kind: Kind = "good") -> Facts:
        """Store the present frame; returns the picture as in `pictures`."""
        with self._lock:
            station, camera = self._station, self._camera
        image_hwc = None
        if station is not None and station.alive:
            image_hwc = station.picture()
        elif camera is not None:
            image_hwc = camera.capture()
        if image_hwc is None:
            raise UsageError(self._camera_fault or Message("camera_wait"))
        return self._picture_facts(
            self._pictures.add(image_hwc, kind=kind, stem=stem_of_now()), kind
        )

    def auto_capture(self, mode: Capturing) -> Facts:
        """Store the frame of every trigger or every new part as a good one, or stop that."""
        if mode not in ("off", "trigger", "parts"):
            raise UsageError(f"mode={mode!r}: expected off, trigger or parts")
        with self._lock:
            if self._camera is None:
                raise UsageError(self._camera_fault or Message("camera_in_use"))
            self._camera.set_mode(mode)
        return {"capturing": mode}

    def empty_jpeg(self) -> bytes | None:
        """Encode the view that counts as empty while new parts are kept; None if there is none."""
        with self._lock:
            camera = self._camera
        empty_hwc = None if camera is None else camera.empty_view()
        return None if empty_hwc is None else shrunk_jpeg(empty_hwc, width=_LIVE_WIDTH)

    def upload(self, name: str, body: bytes, *, kind: Kind = "good", again: bool = True) -> Facts:
        """Store a picture that somebody sends; returns the picture as in `pictures`.

        Without `again`, one that was removed before is refused by StaysOutError.
        """
        return self._picture_facts(self._pictures.take(name, body, kind=kind, again=again), kind)

    def count(self, kind: Kind) -> int:
        """Count the pictures of a kind."""
        return self._pictures.count(kind)

    def pictures(
        self, kind: Kind, *, offset: int = 0, most: int = PAGE, revision: str = ""
    ) -> Facts:
        """List a part of the pictures, the newest first; nothing is decoded for it.

        {"revision", "total", "offset",
         "items": [{"name", "when", "flags": ["duplicate of X", "odd: ...", "blurred"], "score"}]},
        or {"revision", "unchanged": true} where that is the revision of now.
        """
        return self._pictures.list.page(kind, offset=offset, most=most, revision=revision)

    def every_picture(self, kind: Kind) -> list[Facts]:
        """List all items by name, however long it takes to look at them."""
        return self._pictures.list.every(kind)

    def picture_jpeg(self, kind: Kind, name: str, *, width: int) -> bytes:
        """Encode a picture as JPEG, no wider than `width`."""
        return self._pictures.jpeg(kind, name, width=width)

    def remove(self, name: str) -> Facts:
        """Remove a good or bad picture; returns {"name", "kind"}."""
        return {"name": name, "kind": self._pictures.remove(name)}

    def restore(self, name: str) -> Facts:
        """Restore a removed picture; returns {"name", "kind"}."""
        return {"name": name, "kind": self._pictures.restore(name)}

    def undo(self) -> Facts:
        """Undo the last removal or restoring; returns {"undone": sentence}."""
        return {"undone": self._pictures.undo()}

    # Region

    def region(self) -> Facts:
        """{"roi": [x, y, w, h] | null, "ignore": [[[x, y], ...], ...], "locate": "none|...",
        "drawn_on": name of the picture whose part they go with, or "",
        "smallest": pixels or 0, "seen": whether the model can see such a defect, or null}.
        """
        facts = self.project.settings().region.facts()
        return {**facts, "seen": smallest_is_seen(self.project)}

    def view(self) -> Facts | None:
        """Find whole pictures to draw on: {"name": of the newest good one, "size": [w, h],
        "reference": {"name", "size", "kind"} of the one that shapes go from with the part}.
        """
        return view(self.project)

    def set_region(self, region: Facts) -> Facts:
        """Store the region of the next fit; returns the region as it is stored."""
        store_region(self.project, RegionSettings.from_page(region))
        self.project.log("region", **self.project.settings().region.facts())
        return self.region()

    # Fit

    def start_fit(self, options: Facts) -> Facts:
        """Begin a fit; options may have "backbone". Returns the "fit" of `state`."""
        backbone = options.get("backbone")
        if backbone is not None:
            self._change(backbone=str(backbone))
        store_region(self.project, self.project.settings().region)  # which may have been edited
        around = self._fits.track()
        self._fit.start("fit", finish=self._end_fit, sentence=Message("starting"), around=around)
        return self._fit.facts()

    def cancel_fit(self) -> Facts:
        """Cancel the fit; the model before stays. Returns the "fit" of `state`."""
        self._fit.cancel()
        return self._fit.facts()

    # Judge

    def map_jpeg(self, name: str) -> bytes:
        """Read a picture of `judge` with its map, as JPEG."""
        path = self.project.fit / "maps" / f"{Path(check_picture_name(name)).stem}.jpg"
        if not path.is_file():
            raise UsageError(Message("map_missing", name=name))
        return path.read_bytes()

    # Run

    def install(self) -> Facts:
        """Write the recipe and check it on its golden pictures; returns {"recipe", "golden"}."""
        self._versions.install()
        return {"recipe": str(self.project.recipe), "golden": self._versions.check()}

    def run(self) -> Facts:
        """Write the recipe, check its golden pictures and start; returns the "run" of `state`."""
        from edgeseg.teach.station import TeachStation  # with all that a stream needs

        with self._lock:
            station = self._station
            running = station is not None and station.alive
            if station is None or not running:
                station = TeachStation(
                    self.project,
                    alarms=self._alarms,
                    parts=self._parts,
                    prepare=self._versions.install,
                    on_end=self.open_camera,
                    note=self._note,
                    trust=self._trust,
                )
                self._close_camera()
                self._station = station
                station.start()
        if running:
            self._versions.install()  # the station proves it again, and swaps it in
        self.project.log("run", version=(self._versions.facts() or {}).get("version"))
        return station.facts()

    def screen(self) -> "Screen | None":
        """Return what tells of the parts that are inspected; None while nothing is."""
        with self._lock:
            station = self._station
        return None if station is None else station.screen

    def stop(self) -> Facts:
        """Stop inspecting; returns the "run" of `state`."""
        with self._lock:
            station = self._station
        if station is None or not station.alive:
            raise UsageError(Message("run_not"))
        station.stop()
        self.project.log("stop")
        self.open_camera()
        return station.facts()

    def history(self, *, most: int | None = None) -> list[Facts]:
        """List fits, thresholds, learnings and rollbacks, the newest first."""
        return [_with_words(line) for line in self.project.history()[::-1][:most]]

    def _step(self, *, running: bool, model: bool, good: int) -> str:
        if running:
            return "run"
        if self._fit.running:
            return "fit"
        return "judge" if model else "collect"

    def _parts_facts(self) -> Facts:
        """Facts of the different parts, and how many of them the chosen rate needs."""
        counted, rate = self._pictures.list.parts(), self.project.settings().rate
        return {
            "different": None if counted is None else counted.count,
            "pictures": None if counted is None else len(counted.first),
            "needed": needed_images(rate),
            "per_thousand": round(1000 * rate, 3),
        }

    def _keep(self, image_hwc: Image) -> None:
        """Store a picture from the camera's thread."""
        self._pictures.add(image_hwc, kind="good", stem=stem_of_now())

    def _picture_facts(self, name: str, kind: Kind) -> Facts:
        return self._pictures.list.item(kind, name)

    def _change(self, **values: Any) -> None:
        """Change settings of the project."""
        self.project.change(lambda settings: replace(settings, **values))

    def _close_camera(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None

    def _end_fit(self, folder: Path, done: Facts) -> Words:
        self._versions.take_in(folder)
        clear_pending(self.project)
        model = self._versions.facts() or {}
        self.project.log("fit", images=done.get("images"), **model)
        return Message("fit_ended", n=done.get("images"))


def _with_words(line: Facts) -> Facts:
    """Return a line of the history with its sentences as messages."""
    said = {name: read_words(line[name]) for name in ("why", "lost") if line.get(name)}
    return {**line, **said}
