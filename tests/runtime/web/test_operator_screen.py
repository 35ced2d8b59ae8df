"""What the operator's screen is told, without a browser."""

import json

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.web.operator_screen import BAR, BARS, OperatorScreen
from edgeseg.runtime.web.rejects import KEPT, newer_rejects, reject_page
from tests.doubles.fakes import wait
from tests.support.page_site import Site, running, unsaved
from tests.support.scored_frames import make_result

ERRORS: list[tuple[str, str]] = []


def new_screen() -> OperatorScreen:
    def note(name: str, text: str) -> None:
        ERRORS.append((name, text))

    return OperatorScreen(counters=unsaved(note), on_error=note)


def part(index: int, *, bad: bool = False, wall_s: float = 100.0):
    return make_result(
        score=20.0 if bad else 5.0, alarm_started=bad, frame_index=index, wall_s=wall_s
    )


class Kept:
    """A list of rejects by their ids."""

    def __init__(self, *ids: str) -> None:
        self.kept = list(ids)

    def ids(self) -> list[str]:
        return self.kept

    def those(self, ids: list[str]) -> list[dict]:
        return [{"id": each} for each in ids]


def ids_of(page: dict) -> list[str]:
    return [item["id"] for item in page["items"]]


def test_who_is_told_of_a_part_gets_its_picture_whatever_comes_after_it() -> None:
    screen = new_screen()
    assert screen.facts()["part"] is None
    screen.on_frame(part(0))
    told = screen.facts()["part"]
    assert (told["verdict"], told["picture"]) == ("good", f"/parts/{told['id']}.jpg")
    picture = screen.picture(told["id"])
    assert picture is not None
    for index in range(1, 40):
        screen.on_frame(part(index, bad=True))
    assert screen.picture(told["id"]) == picture
    assert screen.picture(part(40).key) is None  # nobody was told of it
    assert screen.facts()["held"]["id"] == part(39, bad=True).key


def test_a_part_that_cannot_be_drawn_has_a_verdict_and_no_picture() -> None:
    screen = new_screen()
    ERRORS.clear()
    screen.on_frame(make_result(frame_hwc=np.zeros((0, 0, 3), np.uint8)))
    told = screen.facts()["part"]
    assert (told["verdict"], told["picture"]) == ("good", None)
    assert ERRORS[0][1].startswith("a frame could not be drawn")


def test_frames_of_one_bad_part_are_one_reject_and_files_are_parts_of_their_own() -> None:
    screen = new_screen()
    screen.on_frame(part(1, bad=True))
    again = make_result(score=20.0, alarm=True, frame_index=2)
    screen.on_frame(again)
    assert screen.facts()["held"]["id"] == part(1, bad=True).key
    assert not again.rejected


def test_the_trend_is_the_share_of_rejects_ten_parts_a_bar() -> None:
    screen = new_screen()
    for index in range(2 * BAR + 3):
        screen.on_frame(part(index, bad=index % BAR < 2))
    assert screen.facts()["trend"] == [[2, BAR], [2, BAR], [2, 3]]
    for index in range(BAR * BARS):
        screen.on_frame(part(index))
    assert len(screen.facts()["trend"]) == BARS


@pytest.mark.parametrize("shown", [4, 12])
def test_a_page_of_rejects_is_the_same_whatever_has_come_since(shown: int) -> None:
    kept = Kept(*(f"{index:03d}" for index in range(10)))
    first = reject_page(kept, head="", most=shown)
    assert (first["head"], first["newer"]) == ("009", "")
    kept.kept += ["010", "011"]
    again = reject_page(kept, head=first["head"], most=shown)
    assert ids_of(again) == ids_of(first)
    assert again["newer"] == "011"
    assert newer_rejects(kept, first["head"]) == 2
    seen, head = [], "011"
    while head:  # the pages hold every reject once
        page = reject_page(kept, head=head, most=shown)
        seen += ids_of(page)
        head = page["older"]
    assert seen == kept.kept[::-1]
    assert reject_page(kept, head=page["head"], most=shown)["newer"] == (
        "" if shown == 12 else "007"
    )


def test_a_page_whose_rejects_are_forgotten_shows_the_oldest_that_are_kept() -> None:
    kept = Kept("5", "6", "7", "8")
    assert ids_of(reject_page(kept, head="3", most=2)) == ["6", "5"]
    assert ids_of(reject_page(Kept(), head="3", most=2)) == []


def test_rejects_keep_their_pictures_under_their_ids() -> None:
    with running() as site:
        for index in range(KEPT + 2):
            site.page.on_frame(part(index, bad=True, wall_s=100.0 + index))
            wait(
                lambda index=index: (
                    site.rejects("?most=1")["head"]
                    == part(index, bad=True, wall_s=100.0 + index).key
                ),
                "the reject is listed",
            )
        newest = site.rejects()["items"][0]
        assert newest["frame_index"] == KEPT + 1
        status, headers, jpeg = site.ask(newest["picture"])
        assert (status, headers["Content-Type"], jpeg[:2]) == (200, "image/jpeg", b"\xff\xd8")
        assert site.ask(f"/rejects/{part(0, wall_s=100.0).key}.jpg")[0] == 404  # forgotten
        assert site.screen(f"?seen={newest['id']}")["new"] == 0
        assert site.screen()["new"] == KEPT
        for path in ("/rejects/../1.jpg", "/rejects/x.jpg", "/parts/x.jpg", "/parts/1.jpg"):
            assert site.ask(path)[0] == 404


def test_a_shift_is_begun_by_our_own_page_alone() -> None:
    with running() as site:
        site.counters.on_frame(part(0))
        assert site.screen()["shift"]["parts"] == 1
        body = json.dumps({"begin": True})
        assert site.ask("/shift", method="POST", body=body)[0] == 403
        assert site.ask("/shift", method="POST", body="{}", X_Edgeseg="page")[0] == 400
        assert site.screen()["shift"]["parts"] == 1
        assert site.ask("/shift", method="POST", body=body, X_Edgeseg="page")[0] == 200
        now = site.screen()
        assert (now["shift"]["parts"], now["total"]["parts"]) == (0, 1)


def test_nothing_is_told_where_nothing_is_inspected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running() as site:
        _halts(site, monkeypatch)
        assert site.screen()["halt"] == {"why": "check_failed", "reason": "good/1.png"}


def _halts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgeseg.runtime.events.codes import Check
    from edgeseg.runtime.station.station import Station

    station = Station()
    station.start()
    station.attach_check(lambda: station.begin_check() is None)
    station.check_now()
    station.set_check(Check.FAILED, "good/1.png")
    monkeypatch.setattr(site.page, "_station", station)


def test_a_shift_needs_a_station_that_runs() -> None:
    from edgeseg.runtime.web.screen_routes import screen_routes

    routes = {route.path: route for route in screen_routes(lambda: None, Kept())}
    asked = type("Asked", (), {"values": lambda self, kind, expected: None})()
    with pytest.raises(UsageError, match="the station does not run"):
        routes["/shift"].answer(asked)
