"""A project's service that does at once what a page asks, for the tests of the page."""

import threading
import time
from types import SimpleNamespace

import cv2
import numpy as np

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Words
from edgeseg.decision.operating_point import guarantee
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.teach.auto_capture import NO_AUTO
from edgeseg.teach.service import TeachService
from edgeseg.vision.images import encode_jpeg
from tests.support.thresholds import made_up_thresholds

WIDTH, HEIGHT = 320, 240
THRESHOLDS = made_up_thresholds(5, pixel=9, requested_rate=0.02, origin=ScoreOrigin(kind="cross"))
RATES = (0.5, 1, 2, 5, 10, 20, 50)
WORD = {"value": 0.8, "word": "good"}


def scene(index: int, *, defect: bool = False) -> np.ndarray:
    """A part on a belt, somewhere else each time."""
    picture = np.full((HEIGHT, WIDTH, 3), 70, np.uint8)
    x = 130 + index % 20
    cv2.rectangle(picture, (x, 70), (x + 90, 170), (190, 185, 180), -1)
    cv2.circle(picture, (x + 45, 120), 18, (90, 95, 100), -1)
    if defect:
        cv2.line(picture, (x + 10, 85), (x + 40, 100), (20, 20, 30), 4)
    return picture


class FakeScreen:
    """The operator's screen over what a test says of the newest part."""

    def __init__(self, fake: "FakeTeach") -> None:
        self._fake, self._told, self.shifts = fake, {}, 0

    def facts(self, source_index=0):
        verdict, score = self._fake.verdict, self._fake.score
        key = f"{len(self._told) + 1:013d}-000001"
        key = self._told.setdefault((verdict, score), key)
        counts = {"parts": 1240, "good": 1231, "defect": 7, "unsure": 2, "begun_s": 1795000000.0}
        part = {"id": key, "when": "2026-11-17T11:00:00Z", "part": "SN 4711", "verdict": verdict}
        part |= {"score": score, "threshold": 6.0, "why": None, "picture": f"/parts/{key}.jpg"}
        held = self._fake.those(self._fake.ids()[-1:])
        return {
            "part": part,
            "held": {**held[0], "why": None} if held else None,
            "shift": counts,
            "total": {**counts, "parts": 20000},
            "trend": [[0, 10], [1, 10], [0, 10], [2, 7]],
        }

    def picture(self, part_id):
        bad = {key for (verdict, _), key in self._told.items() if verdict != "good"}
        return encode_jpeg(scene(3, defect=part_id in bad), quality=80)

    def begin_shift(self):
        self._fake._note("begin_shift")


class FakeTeach(TeachService):
    """Every method notes its call in `calls`; `refusal` makes actions fail with a sentence."""

    def __init__(self) -> None:
        self.project = SimpleNamespace(name="line3")
        self.calls: list[tuple] = []
        self.refusal: Words = ""
        self.lists: list[tuple] = []  # which were asked for, and whether nothing had changed
        self.asked = self.loss = None
        self.camera_ok, self.frames = True, 0
        self.kept = {"good": [], "bad": [], "removed": []}
        self.drawn = {"roi": None, "ignore": [], "locate": "none", "drawn_on": "", "smallest": 0}
        self.reference: tuple[str, str] | None = None
        self.fit = {"state": "none", "share": 0.0, "sentence": ""}
        self.model, self.capturing, self.chosen = None, "off", 2.0
        self.running, self.verdict, self.score = "stopped", "good", 3.2
        self._screen = FakeScreen(self)
        self.marks_made: dict[str, list] = {}
        self.alarm_ids = [f"alarm-{number:03d}" for number in (3, 2, 1)]
        self.learning = {"state": "none", "share": 0.0, "sentence": ""}
        self.from_where: dict[str, str] = {}
        self.lock = threading.Lock()
        self.previews = self.fitted = 0
        self.before: str | None = "3fa9c1d20b77"  # the version of before
        self.kept_names: set[str] = set()  # pictures that were looked at
        self.fitted_names: list[str] = []
        self.different: int | None = None  # parts; None: as many as pictures
        self.auto = dict(NO_AUTO)
        self.warning: Message | None = None
        self.passing: list[dict] = []  # parts that are shown
        self.waiting_missed: list[dict] = []
        self.blockers: dict[str, list] = {"guards": [], "golden": [], "problems": []}

    def _note(self, *call) -> None:
        self.calls.append(call)
        if self.refusal:
            raise UsageError(self.refusal)

    def state(self):
        step = "run" if self.running == "running" else "judge" if self.model else "collect"
        camera = {"ok": self.camera_ok, "sentence": "" if self.camera_ok else "the camera is gone"}
        counters = {"parts": 1240, "good": 1231, "defect": 7, "unsure": 2}
        return {
            "step": step,
            "camera": {**camera, "width": WIDTH, "height": HEIGHT, "fps": 12.5},
            "meters": {
                "focus": {"value": 0.8, "word": "sharp"},
                "light": WORD,
                "motion": {"value": 0.2, "word": "still"},
            },
            "capturing": self.capturing,
            "auto": self.auto,
            **{kind: len(names) for kind, names in self.kept.items()},
            "parts": {
                "different": self._different(),
                "pictures": None if self._different() is None else len(self.kept["good"]),
                "needed": 49,
                "per_thousand": 20.0,
            },
            "look": self._waiting(),
            "fit": self.fit,
            "model": self.model and {**self.model, "before": self.before},
            "run": {
                "state": self.running,
                "verdict": self.verdict if self.running == "running" else None,
                "score": self.score,
                "threshold": 6.0,
                "p_value": 0.2,
                "sentence": "",
                "counters": counters if self.running == "running" else {},
                "figures": {
                    "stages_ms": {"infer": {"p50": 8.1, "p95": 9.0, "p99": 12.4, "max": 20.0}},
                    "drift": {"0": {"level": "ok", "brightness": None}},
                },
            },
            "feedback": {"waiting": len(self.marks_made), "agreed": 0},
            "missed": len(self.waiting_missed),
            "learn": self.learning,
            "asked": self.asked,
        }

    def _different(self):
        return len(self.kept["good"]) if self.different is None else self.different

    def _asked(self):
        """The two oddest set the threshold."""
        return [name for name in self.fitted_names[:2] if name in self.kept["good"]]

    def _waiting(self):
        return len(set(self._asked()) - self.kept_names)

    def live_jpeg(self, timeout_s):
        time.sleep(0.08)
        if not self.camera_ok:
            return None
        self.frames += 1
        return encode_jpeg(scene(self.frames), quality=80)

    def _keep(self, kind, name):
        self.kept[kind].append(name)
        return self._facts(kind, name)

    def _facts(self, kind, name):
        at = self.kept[kind].index(name)
        flags = {
            2: [Message("flag_duplicate", name="good-0001.png")],
            4: [Message("flag_darker"), Message("flag_blurred")],
        }.get(at, [])
        return {"name": name, "when": "2026-11-17T10:00:00Z", "flags": flags, "score": 1.0}

    def capture(self, *, kind="good"):
        self._note("capture", kind)
        with self.lock:
            return self._keep(kind, f"{kind}-{len(self.kept[kind]) + 1:04d}.png")

    def auto_capture(self, mode):
        self._note("auto_capture", mode)
        self.capturing = mode
        return {"capturing": mode}

    def empty_jpeg(self):
        return encode_jpeg(scene(0), quality=80)

    def keep(self, name, *, who):
        self._note("keep", name, who)
        self.kept_names.add(name)
        return {"name": name}

    def upload(self, name, body, *, kind="good"):
        self._note("upload", name, len(body), kind)
        return self._keep(kind, name)

    def pictures(self, kind, *, offset=0, most=60, revision=""):
        items = [self._facts(kind, name) for name in self.kept[kind]][::-1]
        now = f"{kind}-{len(items)}-{'-'.join(self.kept[kind][-1:])}"
        self.lists.append((kind, offset, revision == now))
        if revision == now:
            return {"revision": now, "unchanged": True}
        shown = items[offset : offset + most]
        return {"revision": now, "total": len(items), "offset": offset, "items": shown}

    def picture_jpeg(self, kind, name, *, width):
        if name not in self.kept[kind]:
            raise UsageError(f"{name}: no such picture in {kind}/")
        return encode_jpeg(scene(self.kept[kind].index(name), defect=kind == "bad"), quality=80)

    def remove(self, name):
        self._note("remove", name)
        kind = next(kind for kind in ("good", "bad") if name in self.kept[kind])
        self.kept[kind].remove(name)
        self.kept["removed"].append(name)
        self.from_where[name] = kind
        return {"name": name, "kind": kind}

    def restore(self, name):
        self._note("restore", name)
        self.kept["removed"].remove(name)
        self.kept[self.from_where[name]].append(name)
        return {"name": name, "kind": self.from_where[name]}

    def undo(self):
        self._note("undo")
        return {"undone": "nothing"}

    def region(self):
        return self.drawn

    def view(self):
        if not self.kept["good"]:
            return None
        kind, name = self.reference or ("good", self.kept["good"][0])
        reference = {"name": name, "size": [WIDTH, HEIGHT], "kind": kind}
        return {"name": self.kept["good"][-1], "size": [640, 480], "reference": reference}

    def set_region(self, region):
        self._note("set_region", region)
        followed = region["locate"] != "none"
        self.drawn = {
            "smallest": 0,
            **region,
            "drawn_on": region.get("drawn_on", "") if followed else "",
        }
        return self.drawn

    def start_fit(self, options):
        self._note("start_fit", options)
        self.fit = {"state": "running", "share": 0.4, "sentence": "24 of 60 pictures"}
        return self.fit

    def end_fit(self):
        self.fitted, self.fitted_names = len(self.kept["good"]), list(self.kept["good"])
        self.fit = {"state": "done", "share": 1.0, "sentence": "60 pictures in 20 s"}
        when = "2026-11-17T10:05:00Z"
        self.model = {"version": 1, "rate_per_thousand": 2.0, "threshold": 6.0, "when": when}

    def cancel_fit(self):
        self._note("cancel_fit")
        self.fit = {"state": "cancelled", "share": 0.4, "sentence": ""}
        return self.fit

    def judge(self):
        rng = np.random.default_rng(0)
        edges = np.linspace(0, 20, 41)
        series = {"good": (3, 1, 60), "planted": (11, 3, 80), "bad": (14, 2, len(self.kept["bad"]))}
        scores = {
            name: np.histogram(rng.normal(mean, spread, count), edges)[0].tolist()
            for name, (mean, spread, count) in series.items()
        }
        asked, present = self._asked(), self.kept["good"]
        good = [
            {
                "name": name,
                "score": 5.5 - 0.2 * at,
                "p_value": (at + 1) / 60,
                "threshold_without": 5.4 - 0.2 * at if name in asked else None,
                "foreign": at == 0,
                "oddest": at == 0,
                "asks": name in asked,
                "kept": name in self.kept_names,
            }
            for at, name in enumerate(self.fitted_names[:8])
            if name in present
        ]
        gone = len([name for name in self.fitted_names if name not in present])
        return {
            "scores": {"edges": edges.tolist(), **scores},
            "table": [self._row(rate) for rate in RATES],
            "chosen": self.chosen,
            "worst": good,
            "bad": [{"name": n, "score": 13.0, "found": True} for n in self.kept["bad"]],
            "images": self.fitted,
            "parts": self.fitted,
            "asks": asked,
            "waiting": self._waiting(),
            "gone": gone,
            "new": len(present) - (self.fitted - gone),
            "guarantee": guarantee(THRESHOLDS),
        }

    def _row(self, rate):
        return {
            "per_thousand": rate,
            "threshold": 7.5 - np.log(rate) / 1.5,
            "promise": f"At most {rate:g} of 1,000 good parts are stopped.",
            "kept": rate >= 2,
            "good_alarms": 0,
            "planted_found": min(1.0, 0.9 + rate / 500),
            "bad_found": 1.0 if self.kept["bad"] else None,
            "warning": self.warning,
        }

    def map_jpeg(self, name):
        known = [*self.kept["good"], *self.kept["bad"]]
        if name not in known:
            raise UsageError(f"{name}: no map")
        return encode_jpeg(scene(known.index(name), defect=name.startswith("bad")), quality=80)

    def choose(self, per_thousand, *, name=""):
        self._note("choose", per_thousand, name)
        self.chosen = per_thousand
        return self._row(per_thousand)

    def run(self):
        self._note("run")
        self.running = "running"
        return self.state()["run"]

    def stop(self):
        self._note("stop")
        self.running = "stopped"
        return self.state()["run"]

    def screen(self):
        return self._screen if self.running == "running" else None

    @property
    def rejects(self):
        return self

    def ids(self):
        return sorted(self.alarm_ids) if self.running == "running" else []

    def those(self, ids):
        return [self._alarm(name) for name in ids if name in self.alarm_ids]

    def _alarm(self, name):
        return {
            "id": name,
            "when": "2026-11-17T11:00:00Z",
            "score": 9.1,
            "p_value": 0.01,
            "verdict": "defect",
            "box": [140, 85, 40, 20],
            "width": WIDTH,
            "height": HEIGHT,
            "part": f"SN {name[-3:]}",
            "picture": f"/teach/alarms/{name}?width=640",
            "large": f"/teach/alarms/{name}",
            "marks": self.marks_made.get(name, []),
        }

    def alarm_jpeg(self, alarm_id, *, width=0):
        if alarm_id not in self.alarm_ids:
            raise UsageError(f"{alarm_id}: no such alarm")
        return encode_jpeg(scene(3, defect=True), quality=80)

    def mark(self, alarm_id, mark, *, who, name, card=None):
        self._note("mark", alarm_id, mark, who, name)
        self.card = card
        said = {"mark": mark, "who": who, "name": name, "when": "2026-11-17T11:01:00Z"}
        self.marks_made.setdefault(alarm_id, []).append({**said, "counts": True})
        return self._alarm(alarm_id)

    def marks(self):
        return [{**self._alarm(name), "said": "waiting"} for name in self.marks_made]

    def withdraw(self, alarm_id, *, by, of):
        self._note("withdraw", alarm_id, by.who, by.name, of.who, of.name)
        self.marks_made.pop(alarm_id, None)
        return {"alarm": alarm_id, "marks": []}

    def passed_parts(self):
        return {"items": self.passing, "kinds": ["scratch"]}

    def look_at_parts(self):
        self._note("look_at_parts")
        address = "/teach/parts/part-001"
        self.passing = [
            {
                "id": "part-001",
                "when": "2026-11-17T11:00:00Z",
                "part": "SN 001",
                "verdict": "good",
                "score": 3.1,
                "threshold": 6.0,
                "width": WIDTH,
                "height": HEIGHT,
                "picture": f"{address}?width=320",
                "large": address,
            }
        ]
        return self.passed_parts()

    def part_jpeg(self, part_id, *, width=0):
        if part_id != "part-001":
            raise UsageError(f"{part_id}: no such part")
        return encode_jpeg(scene(3, defect=True), quality=80)

    missed_jpeg = part_jpeg

    def mark_missed(self, card, outlines, *, kind, who, name):
        self._note("mark_missed", card.id, card.part, outlines, kind, who, name)
        told = {"id": card.id, "part": card.part, "kind": kind, "file": f"{kind}/{card.id}.png"}
        told |= {"who": who, "name": name, "known": True}
        address = f"/teach/missed/{card.id}"
        told |= {"picture": f"{address}?width=320", "large": address}
        self.waiting_missed.append(told)
        return told

    def missed_defects(self):
        return self.waiting_missed

    def withdraw_missed(self, part_id, *, by):
        self._note("withdraw_missed", part_id, by.who, by.name)
        self.waiting_missed = []
        return {"id": part_id, "kind": "scratch"}

    def learn_preview(self):
        self._note("learn_preview")
        self.previews += 1  # the first is asked for while it is being made
        marked = list(self.marks_made)
        return {
            "state": "running" if self.previews == 1 else "ready",
            "would_learn": [
                {"name": name, "score": 9.1, "why": "marked"} for name in self.marks_made
            ],
            "held_back": [{"name": "alarm-001", "reason": "one mark, expected two"}],
            "threshold_old": 6.0,
            "threshold_new": 6.4,
            "now_passes": marked,
            "still_found": {"found": 4, "of": 4},
            "loss": self.loss,
            "of": "shown",
            **self.blockers,
            "sentence": "The threshold rises a little.",
        }

    def cancel_learn(self, *, who):
        self._note("cancel_learn", who)
        self.learning = {"state": "cancelled", "share": 0.4, "sentence": ""}
        return self.learning

    def learn(self, *, who, of, name="", force=False):
        self._note("learn", who, name, of)
        self.learning = {"state": "done", "share": 1.0, "sentence": "Version 2 runs."}
        return self.learning

    def confirm(self, *, who, name):
        self._note("confirm", who, name)
        self.asked = None
        return self.learning

    def withdraw_asked(self, *, by):
        self._note("withdraw_asked", by.who, by.name)
        self.asked = None
        return {"what": "learn"}

    def withdraw_golden(self, file, *, by):
        self._note("withdraw_golden", file, by.who, by.name)
        return {"name": file.rpartition("/")[2]}

    def golden_jpeg(self, file, *, width=0):
        return encode_jpeg(scene(4, defect=file.startswith("bad/")), quality=80)

    def rollback(self, *, who):
        self._note("rollback", who)
        return {"version": 1, "threshold": 6.0}

    def history(self, *, most=None):
        return [{"event": "fit", "when": "2026-11-17T10:05:00Z", "version": 1, "threshold": 6.0}]
