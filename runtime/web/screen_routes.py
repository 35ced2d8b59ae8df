"""The addresses of the operator's screen, the same on both pages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.runtime.web.rejects import PAGE, RejectList, newer_rejects, reject_page
from edgeseg.runtime.web.routes import Answer, Request, Route, jpeg_answer, page_answer

KEY = r"[0-9-]{1,40}"  # of a part
NOTHING: dict[str, Any] = {"part": None, "held": None, "shift": None, "total": None, "trend": []}


class Screen(Protocol):
    """What tells of parts; OperatorScreen is one."""

    def facts(self, source_index: int = 0) -> dict[str, Any]:
        """Tell of the newest part, the last reject, the shift and the trend of a source."""

    def picture(self, part_id: str) -> bytes | None:
        """Return the JPEG of a part that was told of."""

    def begin_shift(self) -> None:
        """Count a new shift from now on."""


@dataclass(frozen=True, kw_only=True)
class ShiftRequest:
    """The body of /shift."""

    begin: bool


def screen_routes(
    screen: Callable[[], Screen | None],
    rejects: RejectList,
    *,
    halt: Callable[[], dict[str, Any] | None] = lambda: None,
) -> Iterator[Route]:
    """List the routes; `screen` gives None and `halt` a reason while nothing is inspected."""

    def tell(asked: Request) -> Answer:
        now = screen()
        facts = NOTHING if now is None else now.facts(asked.whole("source"))
        new = newer_rejects(rejects, asked.query.get("seen", ""))
        return page_answer({**facts, "halt": halt(), "new": new})

    def picture(asked: Request) -> Answer:
        now = screen()
        return jpeg_answer(None if now is None else now.picture(asked.caught[0]))

    def list_rejects(asked: Request) -> Answer:
        most = min(asked.whole("most") or PAGE, 4 * PAGE)
        return page_answer(reject_page(rejects, head=asked.query.get("head", ""), most=most))

    def begin_shift(asked: Request) -> Answer:
        asked.values(ShiftRequest, '{"begin": true}')
        now = screen()
        if now is None:
            raise UsageError(Message("run_not"))
        now.begin_shift()
        return page_answer({"begun": True})

    yield Route(method="GET", path="/screen", answer=tell)
    yield Route(method="GET", path=rf"/parts/({KEY})\.jpg", answer=picture)
    yield Route(method="GET", path="/rejects", answer=list_rejects)
    yield Route(method="POST", path="/shift", answer=begin_shift)
