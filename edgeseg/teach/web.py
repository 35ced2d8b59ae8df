"""The page's addresses: a table of what may be asked of a project, and by whom.

An operator watches, captures and marks; what changes a decision needs a supervisor.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_object, record
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.routes import (
    Answer,
    LivePictures,
    Refused,
    Request,
    Route,
    health_answer,
    html_answer,
    jpeg_answer,
    json_answer,
)
from edgeseg.runtime.web.site_server import SiteServer
from edgeseg.teach.alarms import KEPT
from edgeseg.teach.camera import Capturing
from edgeseg.teach.feedback import Author, MarkWord, Who, check_name_of_person
from edgeseg.teach.page_files import page_html
from edgeseg.teach.picture_list import PAGE
from edgeseg.teach.pictures import Limits
from edgeseg.teach.project import Kind, check_picture_name
from edgeseg.teach.service import TeachService
from edgeseg.teach.uploads import Uploads

MAX_UPLOAD = Limits.bytes
MAX_REGION = 65_536  # bytes: some thousand corners
MAX_HISTORY = 500  # lines
MAX_WIDTH = 4096  # pixels of a picture that is asked for
_UPLOAD_S = 120.0  # a telephone at the far end of the hall
_STILL_S = 3.0

Reply = Callable[[Request], Answer | LivePictures]


@dataclass(frozen=True, kw_only=True)
class WebOptions:
    """Where the page is served, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = field(default=None, repr=False)
    supervisor_token: str | None = field(default=None, repr=False)


def serve(
    service: TeachService,
    options: WebOptions,
    *,
    on_error: Callable[[str, str], None] = lambda name, text: None,
) -> SiteServer:
    """A server that is running; its `url` is for the browser, its `stop` ends it."""
    access = Access(
        host=options.host, token=options.token, supervisor_token=options.supervisor_token
    )
    server = SiteServer(
        routes_of(service, access),
        access=access,
        port=options.port,
        on_error=on_error,
        refusal=lambda sentence: for_page({"error": sentence}),
    )
    server.start()
    return server


# What the actions take; a record refuses what is more, less or of another type.


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """An action that is its address."""


@dataclass(frozen=True, kw_only=True)
class OfKind:
    """A picture to be taken."""

    kind: Kind = "good"


@dataclass(frozen=True, kw_only=True)
class Mode:
    """When pictures are taken by themselves."""

    mode: Capturing


@dataclass(frozen=True, kw_only=True)
class Named:
    """A picture of the project."""

    name: str


@dataclass(frozen=True, kw_only=True)
class RegionDrawn:
    """Where to look."""

    roi: tuple[int, int, int, int] | None
    ignore: tuple[tuple[tuple[float, float], ...], ...]
    locate: str
    drawn_on: str = ""  # the picture that was shown; empty: as before


@dataclass(frozen=True, kw_only=True)
class FitWish:
    """What is fitted with; None: as the project says."""

    backbone: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The operating point."""

    per_thousand: float
    name: str = ""  # who chooses it


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who acts; the role is that of the request."""

    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """What somebody says of an alarm."""

    alarm: str
    mark: MarkWord
    name: str = ""  # who says it


@dataclass(frozen=True, kw_only=True)
class Withdrawn:
    """Whose mark of an alarm is taken back, and by whom."""

    alarm: str
    name: str
    of_who: Who
    of_name: str


def routes_of(service: TeachService, access: Access) -> tuple[Route, ...]:
    """All that can be asked."""
    return (
        Route(
            method="GET",
            path="/healthz",
            public=True,
            answer=lambda asked: health_answer(True, "ok"),
        ),
        *(Route(method="GET", path=path, answer=reply) for path, reply in _reads(service, access)),
        *(
            Route(method="POST", path=path, answer=reply, max_body=MAX_REGION)
            for path, reply in _operators_actions(service)
        ),
        _upload(service),
        *(
            Route(method="POST", path=path, answer=reply, role="supervisor", max_body=MAX_REGION)
            for path, reply in _supervisors_actions(service)
        ),
    )


def _reads(service: TeachService, access: Access) -> Iterator[tuple[str, Reply]]:
    def state(asked: Request) -> Answer:
        person = {"role": asked.role, "roles": access.supervisor_token is not None}
        about = {"project": service.project.name, "max_upload": MAX_UPLOAD}
        return _told({**about, **person, **service.state()})

    def picture(asked: Request) -> Answer:
        (kind, name), width = asked.caught, _width(asked)
        return jpeg_answer(service.picture_jpeg(_kind(kind), check_picture_name(name), width=width))

    def alarms(asked: Request) -> Answer:
        most = min(asked.whole("most") or KEPT, KEPT)
        return _told(service.alarms(asked.query.get("after", ""), most=most))

    def history(asked: Request) -> Answer:
        most = min(asked.whole("most") or MAX_HISTORY, MAX_HISTORY)
        return _told(service.history(most=most))

    def alarm(asked: Request) -> Answer:
        name = check_picture_name(asked.caught[0])
        return jpeg_answer(service.alarm_jpeg(name, width=_width(asked)))

    yield "/", lambda asked: html_answer(page_html())
    yield "/teach/state", state
    yield r"/teach/live\.mjpg", lambda asked: LivePictures(nullcontext(service.live_jpeg))
    yield r"/teach/live\.jpg", lambda asked: jpeg_answer(service.live_jpeg(_STILL_S))
    yield r"/teach/pictures/([a-z]+)", lambda asked: _pictures(service, asked)
    yield r"/teach/pictures/([a-z]+)/([^/]+)", picture
    yield "/teach/region", lambda asked: _told({**service.region(), "view": service.view()})
    yield "/teach/judge", lambda asked: _told(service.judge())
    yield (
        r"/teach/maps/([^/]+)",
        lambda asked: jpeg_answer(service.map_jpeg(check_picture_name(asked.caught[0]))),
    )
    yield "/teach/alarms", alarms
    yield r"/teach/alarms/([^/]+)", alarm
    yield "/teach/marks", lambda asked: _told(service.marks())
    yield "/teach/history", history


def _operators_actions(service: TeachService) -> Iterator[tuple[str, Reply]]:
    def capture(asked: Request) -> Answer:
        kind = asked.values(OfKind, '{"kind": "good" or "bad"}').kind
        return _told(service.capture(kind=_taken(kind)))

    def auto(asked: Request) -> Answer:
        expected = '{"mode": "off", "trigger" or "parts"}'
        return _told(service.auto_capture(asked.values(Mode, expected).mode))

    def mark(asked: Request) -> Answer:
        expected = '{"alarm": "ID", "mark": "good", "defect" or "ignore", "name": "WHO"}'
        said = asked.values(Marked, expected)
        alarm = check_picture_name(said.alarm)
        return _told(service.mark(alarm, said.mark, who=asked.role, name=said.name))

    def withdraw(asked: Request) -> Answer:
        expected = '{"alarm": "ID", "name": "WHO", "of_who": "ROLE", "of_name": "WHOSE"}'
        said = asked.values(Withdrawn, expected)
        by = Author(who=asked.role, name=check_name_of_person(said.name))
        of = Author(who=said.of_who, name=said.of_name)
        return _told(service.withdraw(check_picture_name(said.alarm), by=by, of=of))

    yield "/teach/capture", capture
    yield "/teach/auto", auto
    yield "/teach/mark", mark
    yield "/teach/withdraw", withdraw


def _supervisors_actions(service: TeachService) -> Iterator[tuple[str, Reply]]:
    def named(act: Callable[[str], object]) -> Reply:
        def reply(asked: Request) -> Answer:
            name = asked.values(Named, '{"name": "PICTURE"}').name
            return _told(act(check_picture_name(name)))

        return reply

    def plain(act: Callable[[], object]) -> Reply:
        def reply(asked: Request) -> Answer:
            asked.values(Nothing, "{}")
            return _told(act())

        return reply

    def region(asked: Request) -> Answer:
        expected = '{"roi": [x, y, w, h] or null, "ignore": [[[x, y], ...]], "locate": "none"}'
        asked.values(RegionDrawn, expected)
        return _told({**service.set_region(parse_object(asked.body)), "view": service.view()})

    def fit(asked: Request) -> Answer:
        wish = asked.values(FitWish, '{"backbone": "NAME"} or {}')
        return _told(service.start_fit({} if wish.backbone is None else asdict(wish)))

    def choose(asked: Request) -> Answer:
        wish = asked.values(Rate, '{"per_thousand": NUMBER, "name": "WHO"}')
        return _told(service.choose(float(wish.per_thousand), name=wish.name))

    def learn(asked: Request) -> Answer:
        name = asked.values(Person, '{"name": "WHO"}').name
        return _told(service.learn(who=asked.role, name=name))

    def confirm(asked: Request) -> Answer:
        name = asked.values(Person, '{"name": "WHO"}').name
        return _told(service.confirm(who=asked.role, name=name))

    def rollback(asked: Request) -> Answer:
        asked.values(Nothing, "{}")
        return _told(service.rollback(who=asked.role))

    yield "/teach/remove", named(service.remove)
    yield "/teach/restore", named(service.restore)
    yield "/teach/undo", plain(service.undo)
    yield "/teach/region", region
    yield "/teach/fit", fit
    yield "/teach/fit/cancel", plain(service.cancel_fit)
    yield "/teach/choose", choose
    yield "/teach/run", plain(service.run)
    yield "/teach/stop", plain(service.stop)
    yield "/teach/preview", plain(service.learn_preview)  # it begins to find out
    yield "/teach/learn", learn
    yield "/teach/confirm", confirm
    yield "/teach/rollback", rollback


def _upload(service: TeachService) -> Route:
    uploads = Uploads(largest=MAX_UPLOAD)

    def upload(asked: Request) -> Answer:
        kind = _taken(_kind(asked.query.get("kind", "good")))
        name = check_picture_name(asked.query.get("name", ""))
        with uploads.turn():
            return _told(service.upload(name, asked.body, kind=kind))

    return Route(
        method="POST",
        path="/teach/upload",
        answer=upload,
        max_body=MAX_UPLOAD,
        body_s=_UPLOAD_S,
        hold=uploads.place,
    )


def _pictures(service: TeachService, asked: Request) -> Answer:
    """A part of a list, and no more than that of any list."""
    return _told(
        service.pictures(
            _kind(asked.caught[0]),
            offset=asked.whole("offset"),
            most=asked.whole("most") or PAGE,
            revision=asked.query.get("revision", ""),
        )
    )


def _told(value: object) -> Answer:
    """Answer with the keys of sentences, for a page in another language."""
    return json_answer(for_page(value))


def for_page(value: Any) -> Any:
    """Plain values: messages in words, with their keys and values as `NAME_said` beside them."""
    if isinstance(value, Message):
        return str(value)
    if isinstance(value, list | tuple):
        return [for_page(item) for item in value]
    if not isinstance(value, dict):
        return value
    said = {f"{name}_said": _keys(item) for name, item in value.items()}
    return {
        **{name: for_page(item) for name, item in value.items()},
        **{name: keys for name, keys in said.items() if keys},
    }


def _keys(value: object) -> Any:
    """What is said by a message or by a list of them; None: neither."""
    if isinstance(value, Message):
        return value.to_json()
    messages = value if isinstance(value, list) else []
    return [item.to_json() for item in messages if isinstance(item, Message)] or None


def _kind(text: str) -> Kind:
    try:
        return record(OfKind, {"kind": text}).kind
    except Malformed:
        raise Refused(HTTPStatus.NOT_FOUND, "expected good, bad or removed") from None


def _taken(kind: Kind) -> Kind:
    """The kinds that new pictures may be of."""
    if kind == "removed":
        raise Refused(HTTPStatus.BAD_REQUEST, "expected good or bad")
    return kind


def _width(asked: Request) -> int:
    return min(asked.whole("width"), MAX_WIDTH) or MAX_WIDTH
