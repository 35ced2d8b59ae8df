"""A stream with every sink: what it is told, and what a kill may leave of it.

OPC UA is left out: its server writes nothing, and takes longer to start than all the rest to run.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeseg.runtime.adapters import outbox

_NOBODY = "127.0.0.1:9"  # where nobody listens: what goes out waits, is tried again, and given up
_HURRY_S = 0.05


def stream_arguments(bench: Path, folder: Path, camera: str) -> tuple[object, ...]:
    """Half of its frames are alarms; its log is rotated some times a run."""
    return (
        "stream", "--model", bench / "old.onnx", "--source", camera, "--allow-random-weights",
        "--threads", 1, "--backend", "cpu", "--status-every", 0,
        "--threshold", (bench / "median.txt").read_text(encoding="utf-8"),
        "--events", folder / "events.jsonl", "--events-chain", "--events-sync", "every",
        "--events-max-mb", 0.004, "--events-keep", 3,
        "--counters", folder / "counters.json", "--snapshots", folder / "snapshots",
        "--snapshot-count", 5, "--save", folder / "video.avi", "--report", folder / "report.json",
        "--serve", 0, "--modbus", 0, "--http", 0,
        "--mqtt", f"mqtt://{_NOBODY}/line", "--webhook", f"http://{_NOBODY}/results",
        "--on-verdict", "defect=true",
    )  # fmt: skip


@contextlib.contextmanager
def hurried(folder: Path) -> Iterator[None]:
    """Whoever does not answer is not waited for, in this process."""
    outbox.FLUSH_S = _HURRY_S
    yield


def stream_facts(folder: Path) -> list[Any]:
    """Whole events, pictures, video and counters; the last line may be torn until the next run."""
    import cv2

    from edgeseg.runtime.sinks.hash_chain import parts_of

    parts = [path.read_bytes().split(b"\n") for path in parts_of(folder / "events.jsonl")]
    for lines in parts:
        for line in lines[:-1]:
            json.loads(line)
    if not parts or any(lines[-1] for lines in parts[:-1]):
        raise ValueError("a part of the log is torn, or all of it is gone")
    for told in (folder / "snapshots").glob("alarm-*.json"):
        json.loads(told.read_text(encoding="utf-8"))
        for suffix in (".jpg", ".raw.png"):
            picture = cv2.imread(str(told.with_name(told.name.removesuffix(".json") + suffix)))
            if picture is None:
                raise ValueError(f"{told.name}: its {suffix} cannot be read")
    video = cv2.VideoCapture(str(folder / "video.avi"))
    if not video.read()[0]:
        raise ValueError("video.avi does not play")
    json.loads((folder / "counters.json").read_text(encoding="utf-8"))
    json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return ["whole"]


def is_whole_log(log: Path) -> None:
    """After the next run every line is an event, and the chain holds."""
    from edgeseg.runtime.sinks.hash_chain import head_path, parts_of, read_head
    from edgeseg.runtime.sinks.log_check import check_log

    for part in parts_of(log):
        for line in part.read_text(encoding="utf-8").splitlines():
            json.loads(line)
    check = check_log(parts_of(log), read_head(head_path(log)))
    if not check.whole:
        raise ValueError(str(check.problems[0]))
