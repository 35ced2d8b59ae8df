"""The addresses of the live page; what there is to show comes from a `Page`."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from edgeseg.runtime.web.routes import (
    Answer,
    Asked,
    LivePictures,
    Refused,
    Route,
    health_answer,
    html_answer,
    jpeg_answer,
    json_answer,
)


class Page(Protocol):
    """What the server shows."""

    def html(self) -> bytes:
        """The page itself."""

    def state(self, *, source_index: int, after: int) -> Mapping[str, object]:
        """Live numbers; scores of one source from a bucket on."""

    def events(self, *, after: int) -> list[dict[str, object]]:
        """Events with a higher number."""

    def metrics(self) -> tuple[str, bytes]:
        """Content type and body for Prometheus."""

    def health(self) -> tuple[bool, str]:
        """Whether frames are being scored, and a sentence."""

    def alarm_picture(self, number: int) -> bytes | None:
        """JPEG of a recent alarm."""

    def drift_picture(self, source_index: int) -> bytes | None:
        """JPEG of where a source has drifted."""

    def source_count(self) -> int:
        """How many sources there are."""

    def watch(self, source_index: int) -> AbstractContextManager[Callable[[float], bytes | None]]:
        """The next JPEG of the live view, again and again."""

    def record(self, *, active: bool) -> bool:
        """Start or stop recording; returns whether a video is being written now."""

    def load_recipe(self, name: str) -> bool:
        """Ask for a recipe; false: there is none of that name, and none is inspected with."""

    def check_now(self) -> bool:
        """Ask for the golden check; false: nothing can be checked now."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What /recording takes."""

    active: bool


@dataclass(frozen=True, kw_only=True)
class RecipeWish:
    """What /recipe takes."""

    recipe: str


@dataclass(frozen=True, kw_only=True)
class CheckWish:
    """What /check takes."""

    check: bool


def routes_of(page: Page) -> tuple[Route, ...]:
    """All that can be asked of the page."""

    def stream(asked: Asked) -> LivePictures:
        if asked.whole("source") >= page.source_count():
            raise Refused(HTTPStatus.NOT_FOUND, "no such source")
        return LivePictures(page.watch(asked.whole("source")))

    def state(asked: Asked) -> Answer:
        source, after = asked.whole("source"), asked.whole("after")
        return json_answer(page.state(source_index=source, after=after))

    def metrics(asked: Asked) -> Answer:
        content_type, body = page.metrics()
        return Answer(content_type=content_type, body=body)

    def picture(asked: Asked) -> Answer:
        kind, number = asked.caught
        return jpeg_answer(
            (page.alarm_picture if kind == "alarms" else page.drift_picture)(int(number))
        )

    def record(asked: Asked) -> Answer:
        active = asked.values(Recording, '{"active": true or false}').active
        return json_answer({"active": page.record(active=active)})

    def load(asked: Asked) -> Answer:
        name = asked.values(RecipeWish, '{"recipe": "NAME"}').recipe
        return json_answer({"accepted": page.load_recipe(name)})

    def check(asked: Asked) -> Answer:
        asked.values(CheckWish, '{"check": true}')
        return json_answer({"accepted": page.check_now()})

    reads: dict[str, Callable[[Asked], Answer | LivePictures]] = {
        "/": lambda asked: html_answer(page.html()),
        "/state": state,
        "/events": lambda asked: json_answer(page.events(after=asked.whole("after"))),
        "/metrics": metrics,
        r"/stream\.mjpg": stream,
        r"/(alarms|drift)/(\d{1,9})\.jpg": picture,
    }
    actions = {"/recording": record, "/recipe": load, "/check": check}
    return (
        # Open without the token: it says little.
        Route(
            method="GET",
            path="/healthz",
            public=True,
            answer=lambda asked: health_answer(*page.health()),
        ),
        *(Route(method="GET", path=path, answer=answer) for path, answer in reads.items()),
        *(Route(method="POST", path=path, answer=answer) for path, answer in actions.items()),
    )
