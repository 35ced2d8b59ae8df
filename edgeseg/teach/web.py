"""The addresses of the page: a table of requests, and who may make them.

An operator watches, captures and marks; what changes a decision needs a supervisor.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from http import HTTPStatus

from edgeseg.base.plain import Malformed, parse_object, record
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.routes import (
    Answer,
    LivePictures,
    Refused,
    Request,
    Route,
    for_page,
    health_answer,
    html_answer,
    jpeg_answer,
    page_answer,
)
from edgeseg.runtime.web.screen_routes import screen_routes
from edgeseg.runtime.web.site_server import SiteServer
from edgeseg.teach.auto_capture import Capturing
from edgeseg.teach.feedback import Author, MarkWord, Who, check_name_of_person
from edgeseg.teach.marks import SeenCard
from edgeseg.teach.missed_routes import missed_routes
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


def serve(
    service: TeachService,
    access: Access,
    *,
    port: int,
    on_error: Callable[[str, str], None] = lambda name, text: None,
) -> SiteServer:
    """Start a server; its `url` is for the browser, its `stop` ends it."""
    server = SiteServer(
        routes_of(service, access),
        access=access,
        port=port,
        on_error=on_error,
        refusal=lambda sentence: for_page({"error": sentence}),
    )
    server.start()
    return server


# What the actions take; a record refuses what is more, less or of another type.


@dataclass(frozen=True, kw_only=True)
class EmptyRequest:
    """A request without values."""


@dataclass(frozen=True, kw_only=True)
class KindRequest:
    """The kind of a picture to be taken."""

    kind: Kind = "good"


@dataclass(frozen=True, kw_only=True)
class ModeRequest:
    """The frames that become pictures by themselves."""

    mode: Capturing


@dataclass(frozen=True, kw_only=True)
class PictureRequest:
    """The name of a picture of the project."""

    name: str


@dataclass(frozen=True, kw_only=True)
class GoldenRequest:
    """A golden picture to be taken out, and who says so."""

    file: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RegionRequest:
    """The region to look at."""

    roi: tuple[int, int, int, int] | None
    ignore: tuple[tuple[tuple[float, float], ...], ...]
    locate: str
    drawn_on: str = ""  # the picture that was shown; empty: as before
    smallest: int = 0  # side of the smallest defect that matters; 0: not said


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """Options of a fit; None stands for the project's own."""

    backbone: str | None = None


@dataclass(frozen=True, kw_only=True)
class RateRequest:
    """The false-alarm rate to choose."""

    per_thousand: float
    name: str = ""  # who chooses it


@dataclass(frozen=True, kw_only=True)
class PersonRequest:
    """The name of the person who acts; the role is that of the request."""

    name: str = ""


@dataclass(frozen=True, kw_only=True)
class LearnRequest:
    """The preview that is to be installed, and who says so."""

    of: str
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class MarkRequest:
    """A mark on an alarm."""

    alarm: str
    mark: MarkWord
    name: str = ""  # who says it
    card: SeenCard | None = None  # None: a program, which has pressed no card


@dataclass(frozen=True, kw_only=True)
class WithdrawRequest:
    """A mark to take back: whose it is, and who takes it back; without a name all marks."""

    alarm: str
    name: str
    of_who: Who = "operator"
    of_name: str = ""


def routes_of(service: TeachService, access: Access) -> tuple[Route, ...]:
    """List the routes of the page."""
    return (
        Route(
            method="GET",
            path="/healthz",
            public=True,
            answer=lambda asked: health_answer(True, "ok"),
        ),
        *screen_routes(service.screen, service.rejects),
        *(Route(method="GET", path=path, answer=reply) for path, reply in _reads(service, access)),
        *(
            Route(method="POST", path=path, answer=reply, max_body=MAX_REGION)
            for path, reply in _operators_actions(service)
        ),
        _upload(service),
        *missed_routes(service),
        *(
            Route(method="POST", path=path, answer=reply, role="supervisor", max_body=MAX_REGION)
            for path, reply in _supervisors_actions(service)
        ),
    )


def _reads(service: TeachService, access: Access) -> Iterator[tuple[str, Reply]]:
    def state(asked: Request) -> Answer:
        person = {"role": asked.role, "roles": access.supervisor_token is not None}
        about = {"project": service.project.name, "max_upload": MAX_UPLOAD}
        return page_answer({**about, **person, **service.state()})

    def picture(asked: Request) -> Answer:
        (kind, name), width = asked.caught, _width(asked)
        return jpeg_answer(service.picture_jpeg(_kind(kind), check_picture_name(name), width=width))

    def history(asked: Request) -> Answer:
        most = min(asked.whole("most") or MAX_HISTORY, MAX_HISTORY)
        return page_answer(service.history(most=most))

    def alarm(asked: Request) -> Answer:
        name = check_picture_name(asked.caught[0])
        return jpeg_answer(service.alarm_jpeg(name, width=_width(asked)))

    yield "/", lambda asked: html_answer(page_html())
    yield "/teach/state", state
    yield r"/teach/live\.mjpg", lambda asked: LivePictures(nullcontext(service.live_jpeg))
    yield r"/teach/live\.jpg", lambda asked: jpeg_answer(service.live_jpeg(_STILL_S))
    yield r"/teach/empty\.jpg", lambda asked: jpeg_answer(service.empty_jpeg())
    yield r"/teach/pictures/([a-z]+)", lambda asked: _pictures(service, asked)
    yield r"/teach/pictures/([a-z]+)/([^/]+)", picture
    yield "/teach/region", lambda asked: page_answer({**service.region(), "view": service.view()})
    yield "/teach/judge", lambda asked: page_answer(service.judge())
    yield (
        r"/teach/maps/([^/]+)",
        lambda asked: jpeg_answer(service.map_jpeg(check_picture_name(asked.caught[0]))),
    )
    yield r"/teach/alarms/([^/]+)", alarm
    yield (
        r"/teach/golden/(good/[^/]+|bad/[^/]+)",
        lambda asked: jpeg_answer(service.golden_jpeg(asked.caught[0], width=_width(asked))),
    )
    yield "/teach/marks", lambda asked: page_answer(service.marks())
    yield "/teach/history", history


def _operators_actions(service: TeachService) -> Iterator[tuple[str, Reply]]:
    def capture(asked: Request) -> Answer:
        kind = asked.values(KindRequest, '{"kind": "good" or "bad"}').kind
        return page_answer(service.capture(kind=_check_new_kind(kind)))

    def auto(asked: Request) -> Answer:
        expected = '{"mode": "off", "trigger" or "parts"}'
        return page_answer(service.auto_capture(asked.values(ModeRequest, expected).mode))

    def mark(asked: Request) -> Answer:
        expected = '{"alarm": "ID", "mark": "good", "defect" or "ignore", "name": "WHO"}'
        said = asked.values(MarkRequest, expected)
        return page_answer(
            service.mark(
                check_picture_name(said.alarm),
                said.mark,
                who=asked.role,
                name=said.name,
                card=said.card,
            )
        )

    def withdraw(asked: Request) -> Answer:
        expected = '{"alarm": "ID", "name": "WHO", "of_who": "ROLE", "of_name": "WHOSE"}'
        said = asked.values(WithdrawRequest, expected)
        by = Author(who=asked.role, name=check_name_of_person(said.name))
        of = Author(who=said.of_who, name=said.of_name) if said.of_name else None
        return page_answer(service.withdraw(check_picture_name(said.alarm), by=by, of=of))

    yield "/teach/capture", capture
    yield "/teach/auto", auto
    yield "/teach/mark", mark
    yield "/teach/withdraw", withdraw


def _supervisors_actions(service: TeachService) -> Iterator[tuple[str, Reply]]:
    def by_name(act: Callable[[str], object]) -> Reply:
        def reply(asked: Request) -> Answer:
            name = asked.values(PictureRequest, '{"name": "PICTURE"}').name
            return page_answer(act(check_picture_name(name)))

        return reply

    def plain(act: Callable[[], object]) -> Reply:
        def reply(asked: Request) -> Answer:
            asked.values(EmptyRequest, "{}")
            return page_answer(act())

        return reply

    def region(asked: Request) -> Answer:
        expected = '{"roi": [x, y, w, h] or null, "ignore": [[[x, y], ...]], "locate": "none"}'
        asked.values(RegionRequest, expected)
        return page_answer({**service.set_region(parse_object(asked.body)), "view": service.view()})

    def fit(asked: Request) -> Answer:
        wish = asked.values(FitRequest, '{"backbone": "NAME"} or {}')
        return page_answer(service.start_fit({} if wish.backbone is None else asdict(wish)))

    def choose(asked: Request) -> Answer:
        wish = asked.values(RateRequest, '{"per_thousand": NUMBER, "name": "WHO"}')
        return page_answer(service.choose(float(wish.per_thousand), name=wish.name))

    def learn(asked: Request) -> Answer:
        wish = asked.values(LearnRequest, '{"of": "PREVIEW", "name": "WHO"}')
        return page_answer(service.learn(who=asked.role, of=wish.of, name=wish.name))

    def cancel_learn(asked: Request) -> Answer:
        asked.values(EmptyRequest, "{}")
        return page_answer(service.cancel_learn(who=asked.role))

    def confirm(asked: Request) -> Answer:
        name = asked.values(PersonRequest, '{"name": "WHO"}').name
        return page_answer(service.confirm(who=asked.role, name=name))

    def rollback(asked: Request) -> Answer:
        asked.values(EmptyRequest, "{}")
        return page_answer(service.rollback(who=asked.role))

    def keep(asked: Request) -> Answer:
        name = asked.values(PictureRequest, '{"name": "PICTURE"}').name
        return page_answer(service.keep(check_picture_name(name), who=asked.role))

    def withdraw_golden(asked: Request) -> Answer:
        said = asked.values(GoldenRequest, '{"file": "good/PICTURE", "name": "WHO"}')
        by = Author(who=asked.role, name=check_name_of_person(said.name))
        return page_answer(service.withdraw_golden(said.file, by=by))

    def withdraw_asked(asked: Request) -> Answer:
        name = asked.values(PersonRequest, '{"name": "WHO"}').name
        by = Author(who=asked.role, name=check_name_of_person(name))
        return page_answer(service.withdraw_asked(by=by))

    yield "/teach/keep", keep
    yield "/teach/remove", by_name(service.remove)
    yield "/teach/restore", by_name(service.restore)
    yield "/teach/undo", plain(service.undo)
    yield "/teach/region", region
    yield "/teach/fit", fit
    yield "/teach/fit/cancel", plain(service.cancel_fit)
    yield "/teach/choose", choose
    yield "/teach/run", plain(service.run)
    yield "/teach/stop", plain(service.stop)
    yield "/teach/preview", plain(service.learn_preview)  # it begins to find out
    yield "/teach/learn", learn
    yield "/teach/learn/cancel", cancel_learn
    yield "/teach/confirm", confirm
    yield "/teach/confirm/withdraw", withdraw_asked
    yield "/teach/golden/withdraw", withdraw_golden
    yield "/teach/rollback", rollback


def _upload(service: TeachService) -> Route:
    uploads = Uploads(largest=MAX_UPLOAD)

    def upload(asked: Request) -> Answer:
        kind = _check_new_kind(_kind(asked.query.get("kind", "good")))
        name = check_picture_name(asked.query.get("name", ""))
        with uploads.turn():
            return page_answer(service.upload(name, asked.body, kind=kind))

    return Route(
        method="POST",
        path="/teach/upload",
        answer=upload,
        max_body=MAX_UPLOAD,
        body_s=_UPLOAD_S,
        hold=uploads.place,
    )


def _pictures(service: TeachService, asked: Request) -> Answer:
    """Answer with a part of a list of pictures."""
    return page_answer(
        service.pictures(
            _kind(asked.caught[0]),
            offset=asked.whole("offset"),
            most=asked.whole("most") or PAGE,
            revision=asked.query.get("revision", ""),
        )
    )


def _kind(text: str) -> Kind:
    try:
        return record(KindRequest, {"kind": text}).kind
    except Malformed:
        raise Refused(HTTPStatus.NOT_FOUND, "expected good, bad or removed") from None


def _check_new_kind(kind: Kind) -> Kind:
    """Refuse a kind that new pictures cannot have."""
    if kind == "removed":
        raise Refused(HTTPStatus.BAD_REQUEST, "expected good or bad")
    return kind


def _width(asked: Request) -> int:
    return min(asked.whole("width"), MAX_WIDTH) or MAX_WIDTH
