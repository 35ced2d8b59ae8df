"""Addresses for missed defects: an operator looks at parts that passed, marks, and takes back."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgeseg.runtime.web.routes import Answer, Request, Route, jpeg_answer, page_answer
from edgeseg.teach.feedback import Author, check_name_of_person
from edgeseg.teach.learn_service import LearnService
from edgeseg.teach.marks import SeenCard
from edgeseg.teach.project import check_picture_name
from edgeseg.vision.geometry import Polygon

_MAX_BODY = 65_536  # bytes: some thousand corners
_MAX_WIDTH = 4096  # pixels of a picture that is asked for


@dataclass(frozen=True, kw_only=True)
class LookRequest:
    """A look at the newest parts, which takes no values."""


@dataclass(frozen=True, kw_only=True)
class MissedRequest:
    """A missed defect: the part that was shown, where the defect is, and its kind."""

    card: SeenCard
    kind: str
    outlines: tuple[Polygon, ...]
    name: str = ""  # who says it


@dataclass(frozen=True, kw_only=True)
class MissedWithdrawal:
    """A missed defect to take back, and who takes it back."""

    id: str
    name: str = ""


def missed_routes(service: LearnService) -> Iterator[Route]:
    """List the routes; all of them are the operator's."""

    def picture_of_part(asked: Request) -> Answer:
        name = check_picture_name(asked.caught[0])
        return jpeg_answer(service.part_jpeg(name, width=_width(asked)))

    def picture_of_missed(asked: Request) -> Answer:
        name = check_picture_name(asked.caught[0])
        return jpeg_answer(service.missed_jpeg(name, width=_width(asked)))

    def look(asked: Request) -> Answer:
        asked.values(LookRequest, "{}")
        return page_answer(service.look_at_parts())

    def mark(asked: Request) -> Answer:
        expected = (
            '{"card": {"id": "ID", "part": "SERIAL"}, "kind": "KIND", '
            '"outlines": [[[x, y], ...]], "name": "WHO"}'
        )
        said = asked.values(MissedRequest, expected)
        check_picture_name(said.card.id)
        return page_answer(
            service.mark_missed(
                said.card, said.outlines, kind=said.kind, who=asked.role, name=said.name
            )
        )

    def withdraw(asked: Request) -> Answer:
        said = asked.values(MissedWithdrawal, '{"id": "ID", "name": "WHO"}')
        by = Author(who=asked.role, name=check_name_of_person(said.name))
        return page_answer(service.withdraw_missed(check_picture_name(said.id), by=by))

    reads = {
        "/teach/parts": lambda asked: page_answer(service.passed_parts()),
        r"/teach/parts/([^/]+)": picture_of_part,
        "/teach/missed": lambda asked: page_answer(service.missed_defects()),
        r"/teach/missed/([^/]+)": picture_of_missed,
    }
    acts = {"/teach/look": look, "/teach/missed": mark, "/teach/missed/withdraw": withdraw}
    for path, answer in reads.items():
        yield Route(method="GET", path=path, answer=answer)
    for path, answer in acts.items():
        yield Route(method="POST", path=path, answer=answer, max_body=_MAX_BODY)


def _width(asked: Request) -> int:
    return min(asked.whole("width"), _MAX_WIDTH) or _MAX_WIDTH
