"""Everything that a page or a shell asks of a project: from the first picture to learning.

    page, shell --> TeachService --> project folder, camera, fit (a child process), station

Methods may be called from any thread, return at once, give plain values that JSON can carry, and
refuse with an EdgesegError of one sentence. What takes long goes on elsewhere: ask `state`.
"""

from typing import Any, Literal

from edgeseg.errors import EdgesegError
from edgeseg.progress import Note, ignore
from edgeseg.teach.project import Kind, Project

Facts = dict[str, Any]
Who = Literal["operator", "supervisor"]
Mark = Literal["good", "defect", "ignore"]
Capturing = Literal["off", "trigger", "parts"]


class TeachService:
    """One project at one camera."""

    def __init__(self, project: Project, *, note: Note = ignore) -> None:
        self.project, self._note = project, note

    def close(self) -> None:
        """Stop the camera, the station and a fit that is under way."""

    def state(self) -> Facts:
        """Where the project stands.

        {"step": "collect|region|fit|judge|run",
         "camera": {"ok", "sentence", "width", "height", "fps"},
         "meters": {"focus": {"value": 0..1, "word"}, "light": ..., "motion": ...},
         "capturing": "off|trigger|parts", "good": n, "bad": n, "removed": n,
         "fit": {"state": "none|running|done|failed|cancelled", "share": 0..1, "sentence"},
         "model": null | {"version", "rate_per_thousand", "threshold", "when"},
         "run": {"state": "stopped|starting|running", "verdict", "score", "p_value", "sentence",
                 "counters": {"parts", "good", "defect", ...}, "figures": {...}},
         "feedback": {"waiting": n, "agreed": n},
         "learn": {"state": "none|running|done|failed", "share", "sentence"}}
        """
        raise _unbuilt()

    # Collect

    def live_jpeg(self, timeout_s: float) -> bytes | None:
        """The next frame of the camera, with what is marked while it runs; None: none came."""
        raise _unbuilt()

    def capture(self, *, kind: Kind = "good") -> Facts:
        """Keep the frame of now; the picture as in `pictures`."""
        raise _unbuilt()

    def auto_capture(self, mode: Capturing) -> Facts:
        """Keep the frame of every trigger or of every new part as a good one, or stop that."""
        raise _unbuilt()

    def upload(self, name: str, body: bytes, *, kind: Kind = "good") -> Facts:
        """Keep a picture that somebody sends, within the limits; the picture as in `pictures`."""
        raise _unbuilt()

    def pictures(self, kind: Kind) -> list[Facts]:
        """[{"name", "when", "flags": ["duplicate of X", "odd: ...", "blurred"], "score"}]."""
        raise _unbuilt()

    def picture_jpeg(self, kind: Kind, name: str, *, width: int) -> bytes:
        """A picture, no wider than that."""
        raise _unbuilt()

    def remove(self, name: str) -> Facts:
        """Take a good or bad picture out; {"name", "kind"}."""
        raise _unbuilt()

    def restore(self, name: str) -> Facts:
        """Put it back where it was; {"name", "kind"}."""
        raise _unbuilt()

    def undo(self) -> Facts:
        """Take the last removal or restoring back; {"undone": sentence}."""
        raise _unbuilt()

    # Region

    def region(self) -> Facts:
        """{"roi": [x, y, w, h] | null, "ignore": [[[x, y], ...], ...], "locate": "none|..."}."""
        raise _unbuilt()

    def set_region(self, region: Facts) -> Facts:
        """Another region, which the next fit takes; the region as it is stored."""
        raise _unbuilt()

    # Fit

    def start_fit(self, options: Facts) -> Facts:
        """Begin a fit; {"backbone": ...} may choose. The "fit" of `state`."""
        raise _unbuilt()

    def cancel_fit(self) -> Facts:
        """End it; the model of before stays. The "fit" of `state`."""
        raise _unbuilt()

    # Judge

    def judge(self) -> Facts:
        """What the last fit is worth.

        {"scores": {"edges": [n + 1], "good": [n], "planted": [n], "bad": [n]},
         "table": [{"per_thousand", "threshold", "promise", "kept": bool, "good_alarms",
                    "planted_found": share | null, "bad_found": share | null}],
         "chosen": per_thousand, "worst": [{"name", "score", "p_value", "decides"}],
         "bad": [{"name", "score", "found"}], "sentence"}
        """
        raise _unbuilt()

    def map_jpeg(self, name: str) -> bytes:
        """A picture of `judge` with its map."""
        raise _unbuilt()

    def choose(self, per_thousand: float) -> Facts:
        """Take another rate of false alarms; the row of the table."""
        raise _unbuilt()

    # Run

    def run(self) -> Facts:
        """Write the recipe, check it on its golden pictures and start; the "run" of `state`."""
        raise _unbuilt()

    def stop(self) -> Facts:
        """Stop inspecting; the "run" of `state`."""
        raise _unbuilt()

    def alarms(self, after: str = "") -> list[Facts]:
        """Later than that id, the newest first.

        [{"id", "when", "score", "p_value", "verdict", "box": [x, y, w, h] | null, "width",
          "height", "marks": [{"mark", "who", "name", "when"}]}]
        """
        raise _unbuilt()

    def alarm_jpeg(self, alarm_id: str, *, width: int = 0) -> bytes:
        """The whole picture of the camera, not only the region; 0: as wide as it is."""
        raise _unbuilt()

    # Learn

    def mark(self, alarm_id: str, mark: Mark, *, who: Who, name: str) -> Facts:
        """Say what an alarm was; it waits in feedback/. The alarm as in `alarms`."""
        raise _unbuilt()

    def learn_preview(self) -> Facts:
        """What learning would do now.

        {"would_learn": [{"name", "score", "why"}], "held_back": [{"name", "reason"}],
         "threshold_old", "threshold_new": number | null, "now_passes": [names],
         "still_found": {"found": n, "of": m}, "sentence"}
        """
        raise _unbuilt()

    def learn(self, *, who: Who) -> Facts:
        """Begin the next version from what was marked; the "learn" of `state`."""
        raise _unbuilt()

    def rollback(self, *, who: Who) -> Facts:
        """Let the version of before run again; {"version", "threshold"}."""
        raise _unbuilt()

    def history(self) -> list[Facts]:
        """Fits, thresholds, learnings and rollbacks, the newest first."""
        raise _unbuilt()


def _unbuilt() -> EdgesegError:
    return EdgesegError("this is not built yet")
