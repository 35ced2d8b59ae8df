"""Bodies of requests: to the station's service, to its page, and to the page that teaches it."""

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cv2

from tests.endurance.fuzz.located import camera_picture
from tests.endurance.fuzz.messages import RUNNING, exchange, http_port, note, page_port
from tests.endurance.fuzz.seeds import Seed

_TOKEN = "a-token-of-the-fuzzer"
_MOST_BODY = 4096  # bytes that the service reads; of longer ones it hangs up
_MOST_SENT = 100_000
_UPLOAD = "teach/upload?name=a.png&kind=good"
_REGION = {"roi": [1, 2, 30, 40], "ignore": [[[1, 2], [3, 4], [5, 6]]], "locate": "none"}
_ACTIONS: dict[str, dict[str, Any]] = {
    "service trigger": {"part_id": "A1", "request": "r-1"},
    "service job": {"job": 3},
    "page recording": {"active": True},
    "page recipe": {"recipe": "bottle"},
    "page check": {"check": True},
    "teach capture": {"kind": "bad"},
    "teach auto": {"mode": "parts"},
    "teach mark": {"alarm": "alarm-001", "mark": "good", "name": "Ann"},
    "teach remove": {"name": "good-0001.png"},
    "teach restore": {"name": "good-0002.png"},
    "teach region": _REGION,
    "teach fit": {"backbone": "resnet18"},
    "teach choose": {"per_thousand": 5},
    "teach undo": {},
    "teach rollback": {},
}


def bodies(folder: Path) -> Iterator[Seed]:
    """One for every action, two pictures that are sent, and a token."""
    for name, values in _ACTIONS.items():
        yield Seed(data=json.dumps(values).encode(), name=name)
    yield Seed(data=f"token={_TOKEN}".encode(), name="teach login", has_json=False)
    for suffix in (".png", ".jpg"):
        picture = cv2.imencode(suffix, camera_picture())[1].tobytes()
        yield Seed(data=picture, name="teach upload", has_json=False)


def answer_body(data: bytes, seed: Seed, folder: Path) -> object:
    """The answer is no failure of the server, and JSON where it says so."""
    server, action = seed.name.split()
    body = data[:_MOST_SENT]
    head = (
        f"POST {_path(server, action)} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Edgeseg: 1\r\n"
        f"Authorization: Bearer {_TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = exchange(_PORTS[server](), head.encode() + body)
    if not answer and server == "service" and len(body) > _MOST_BODY:
        return None
    start, _, text = answer.partition(b"\r\n\r\n")
    if int(start.split(b" ", 2)[1]) >= 500:
        raise ValueError(f"{start[:20]!r}: {text[:80]!r}")
    if b"application/json" in start and not isinstance(json.loads(text), dict | list):
        raise ValueError(f"{text[:80]!r}: expected named values")
    if action == "upload":
        _empty()
    return start


def _path(server: str, action: str) -> str:
    if server != "teach" or action == "login":
        return f"/{action}"
    return f"/{_UPLOAD}" if action == "upload" else f"/teach/{action}"


@cache
def _teach() -> tuple[Any, int]:
    """A project without a camera, and the port of its page."""
    from edgeseg.runtime.web import site_server
    from edgeseg.runtime.web.access import Access
    from edgeseg.teach.project import Project
    from edgeseg.teach.service import TeachService
    from edgeseg.teach.web import serve

    site_server.GUESS_S = 0.0
    place = tempfile.TemporaryDirectory(prefix="edgeseg-fuzz-")  # for as long as the process lives
    project = Project.open_or_create(Path(place.name) / "line3")
    service = TeachService(project, child=("true",))  # a fit that comes to nothing
    server = serve(service, Access(host="127.0.0.1", token=_TOKEN), port=0, on_error=note)
    RUNNING.extend((place, server))
    return project, server.server_port


def _empty() -> None:
    """Before there are too many pictures to take one more."""
    project, _ = _teach()
    for path in project.pictures("good").glob("*.png"):
        path.unlink()


_PORTS: dict[str, Callable[[], int]] = {
    "service": http_port,
    "page": page_port,
    "teach": lambda: _teach()[1],
}
