"""Whole files and messages of a line: what a station reads, writes down and is told."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.endurance.fuzz.seeds import Seed
from tests.support import KEPT


def recipes(folder: Path) -> Iterator[Seed]:
    """The settings of a station's recipe."""
    from edgeseg.runtime.recipes.recipe import (
        DecisionSettings,
        RecipeRegion,
        Settings,
        settings_text,
    )

    settings = Settings(
        number=3,
        region=RecipeRegion(roi="1,2,30,20"),
        operating_point=DecisionSettings(threshold=1.5, debounce="2/3"),
    )
    yield Seed(data=settings_text(settings).encode(), name="recipe.toml")


def stations(folder: Path) -> Iterator[Seed]:
    """A small one, and one with an option of every kind."""
    yield Seed(data=b'model = "part.onnx"\nsource = ["0"]\n', name="line3.toml")
    text = """
model = "part.onnx"
source = ["rtsp://camera/1", "synthetic:fps=10"]
backend = "cpu"
threads = 2
threshold = 1.5
stall-timeout = 4
roi = "1,2,30,40"
debounce = "2/3"
trigger = "modbus"
trigger_timeout = 1.5
modbus = "0.0.0.0:1502"
mqtt = "mqtt://broker/line3"
on_verdict = ['defect=true', 'any=true']
events = "events.jsonl"
events_max_mb = 10.0
snapshots = "alarms"
serve = 8080
status_every = 1
"""
    yield Seed(data=text.encode(), name="line4.toml")


def projects(folder: Path) -> Iterator[Seed]:
    """Settings of a project, and its history."""
    from edgeseg.teach.project import ProjectSettings, RegionSettings, settings_text

    region = RegionSettings.told({"roi": [1, 2, 30, 20], "ignore": [[[1, 2], [9, 2], [9, 9]]]})
    settings = ProjectSettings(source="0", region=region)
    yield Seed(data=settings_text(settings).encode(), name="project.toml")
    yield Seed(data=b'{"event": "fit", "when": "2026-01-02T03:04:05Z"}\n', name="history.jsonl")


def approvals(folder: Path) -> Iterator[Seed]:
    """What was approved, and a check of it."""
    from edgeseg.runtime.recipes.approval import Approval, GoldenPicture, MasterScore
    from edgeseg.runtime.recipes.check_record import CheckRecord, MistakeRate, PictureCheck

    when = "2026-01-02T03:04:05Z"
    picture = GoldenPicture(file="good/001.png", sha256="0" * 64, verdict="good", score=0.5)
    expected = Approval(
        approved=when,
        model_sha256="0" * 64,
        precision="fp32",
        arithmetic="fp32",
        backend="onnxruntime cpu",
        threshold=1.5,
        pictures=(picture,),
        master=MasterScore(verdict="good", score=0.5),
    )
    yield Seed(data=json.dumps(asdict(expected)).encode(), name="expected.json")
    checked = PictureCheck(
        file="good/001.png",
        label="good",
        verdict="good",
        score=0.5,
        approved_score=0.5,
        spread=0.0,
        passed=True,
    )
    check = CheckRecord(
        when=when,
        recipe="bottle",
        passed=True,
        problems=(),
        repeats=2,
        pictures=(checked,),
        false_alarms=MistakeRate.of(0, 1),
    )
    yield Seed(data=json.dumps(check.facts()).encode(), name="check-20260102T030405Z-000.json")


def regions(folder: Path) -> Iterator[Seed]:
    """Ours, and as labelme writes them."""
    corners = [[10, 20], [60, 20], [60, 50.5]]
    yield Seed(data=json.dumps({"polygons": [corners]}).encode(), name="ignore.json")
    shapes = [{"label": "logo", "points": corners, "shape_type": "polygon"}]
    yield Seed(data=json.dumps({"version": "5", "shapes": shapes}).encode(), name="labelme.json")


def signatures(folder: Path) -> Iterator[Seed]:
    """A signature and the key that it is held against."""
    from edgeseg.modelfile.signature import sign, signature_path
    from edgeseg.modelfile.signing_keys import make_keys

    model = folder / "part.edgeseg"
    model.write_bytes((KEPT / "part.edgeseg").read_bytes()[:1000])  # any file can be signed
    key, public = folder / "owner.key", folder / "owner.pub"
    if not key.exists():
        make_keys(key)
    sign(model, key, chain={})
    beside = signature_path(model)
    yield Seed(data=beside.read_bytes(), name=beside.name)
    yield Seed(data=public.read_bytes(), name=public.name, has_json=False)


def logs(folder: Path) -> Iterator[Seed]:
    """A chained log of some lines, and its head."""
    from edgeseg.runtime.sinks.event_file import EventFile, Rotation

    log = folder / "events.jsonl"
    file = EventFile(str(log), rotation=Rotation(), chained=True, on_error=lambda text: None)
    for number in range(5):
        event = {"event": "frame", "wall_s": 1000.0 + number, "score": number / 7}
        file.write(json.dumps(event).encode(), durable=False)
    file.close()
    for path in (log, folder / "events.jsonl.head"):
        yield Seed(data=path.read_bytes(), name=path.name)


def counters(folder: Path) -> Iterator[Seed]:
    """This shift, all shifts and one before."""
    from edgeseg.runtime.sinks.counters import Counts, Period

    shift = Period(begun_s=1000.0).plus("good", "bottle").plus("defect", "")
    counts = Counts(shift=shift, total=shift, before=(shift,))
    yield Seed(data=json.dumps(asdict(counts)).encode(), name="counters.json")


def registers(folder: Path) -> Iterator[Seed]:
    """Requests of Modbus, without the header."""
    for data in _REGISTERS:
        yield Seed(data=data, name="request")


_REGISTERS = (b"\3\0\0\0\x10", b"\6\0\0\0\1", b"\x10\0\0\0\2\4\0\1\0\2", b"\4\0\x20\0\x10")


def frames(folder: Path) -> Iterator[Seed]:
    """The same with it, one and three at a time."""
    whole = [b"\0\7\0\0" + (len(one) + 1).to_bytes(2, "big") + b"\1" + one for one in _REGISTERS]
    for data in (*whole, b"".join(whole[:3])):
        yield Seed(data=data, name="frame")


def requests(folder: Path) -> Iterator[Seed]:
    """Whole requests to the page and to the service."""
    host = b"Host: 127.0.0.1\r\n"
    for path in (b"/", b"/state?source=0&after=3", b"/events?after=1", b"/metrics", b"/healthz"):
        yield Seed(data=b"GET %b HTTP/1.1\r\n%b\r\n" % (path, host), name="page")
    for path, name in ((b"/recording", "page"), (b"/trigger", "service"), (b"/job", "service")):
        body = b'{"active": true, "job": 3}'
        head = b"POST %b HTTP/1.1\r\n%bX-Edgeseg: 1\r\nOrigin: http://127.0.0.1\r\n"
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        yield Seed(data=head % (path, host) + length + body, name=name)
    yield Seed(data=b"GET /result?id=7 HTTP/1.1\r\n%b\r\n" % host, name="service")


def triggers(folder: Path) -> Iterator[Seed]:
    """Payloads of MQTT."""
    yield Seed(data=b'{"part_id": "A1", "request": "r-1"}', name="payload")
    yield Seed(data=b"A1", name="payload", has_json=False)
