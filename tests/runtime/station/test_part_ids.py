"""A part id that is announced names the next part, once, and no other."""

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.events.codes import PartNote
from edgeseg.runtime.settings.trigger_kinds import HardwareOptions
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station

SECOND = 1_000_000_000


class Desk:
    """A station whose time a test moves."""

    def __init__(self, *, takes: bool = True, age_s: float = 10.0) -> None:
        self.now_ns = SECOND
        self.errors: list[tuple[str, str]] = []
        self.station = Station(
            part_id_age_s=age_s,
            clock_ns=lambda: self.now_ns,
            on_error=lambda name, text: self.errors.append((name, text)),
        )
        self.station.takes_part_ids = takes
        self.station.start()

    def announce(self, part_id: str) -> bool:
        self.now_ns += 1
        return self.station.announce(part_id)

    def pulse(self, *, at_ns: int | None = None) -> tuple[str, PartNote]:
        self.now_ns += 1
        event = self.station.trigger(origin="hardware", at_ns=at_ns, acquired=True)
        return event.part_id, event.part_note


def test_the_next_trigger_takes_it_once() -> None:
    desk = Desk()
    assert desk.pulse() == ("", PartNote.NONE), "nobody announces ids here"
    assert desk.announce("A1")
    assert desk.pulse() == ("A1", PartNote.NONE)
    assert desk.pulse() == ("", PartNote.MISSING)
    assert desk.errors == [("part_id", "a part came without an id")]
    assert desk.announce("A2")
    assert desk.pulse() == ("A2", PartNote.NONE)


def test_an_id_after_the_exposure_is_for_the_next_part() -> None:
    desk = Desk()
    before_ns = desk.now_ns
    desk.announce("A2")
    assert desk.pulse(at_ns=before_ns) == ("", PartNote.MISSING)
    assert desk.pulse() == ("A2", PartNote.NONE)


def test_an_old_id_is_of_a_part_that_went_by() -> None:
    desk = Desk(age_s=10.0)
    desk.announce("A1")
    desk.now_ns += 11 * SECOND
    assert desk.pulse() == ("", PartNote.STALE)
    assert desk.errors == [("part_id", "A1 is not taken: announced 11.0 s before")]
    desk.announce("A2")
    assert desk.pulse() == ("A2", PartNote.NONE)


def test_a_second_id_replaces_the_first_and_says_so() -> None:
    desk = Desk()
    desk.announce("A1")
    desk.announce("A2")
    assert desk.errors == [("part_id", "A1 was never taken: A2 came after it")]
    assert desk.pulse() == ("A2", PartNote.NONE)


def test_a_message_that_is_delivered_twice_is_one() -> None:
    desk = Desk()
    desk.announce("A1")
    desk.announce("A1")
    assert desk.pulse() == ("A1", PartNote.NONE)
    desk.announce("A1")
    assert desk.pulse() == ("", PartNote.MISSING), "the part of that id has gone by"
    assert [text for _, text in desk.errors] == ["a part came without an id"]


def test_an_empty_id_takes_back_what_waits() -> None:
    desk = Desk()
    desk.announce("A1")
    desk.announce("")
    assert desk.pulse() == ("", PartNote.MISSING)


def test_what_no_adapter_can_carry_is_left_out() -> None:
    desk = Desk()
    desk.announce("  Ä1\n" + "x" * 40)
    assert desk.pulse() == ("1" + "x" * 31, PartNote.NONE)


def test_where_triggers_carry_their_own_none_is_taken() -> None:
    desk = Desk(takes=False)
    assert not desk.announce("A1")
    assert desk.pulse() == ("", PartNote.NONE)
    event = desk.station.trigger(origin="modbus", part_id="B1")
    assert (event.part_id, event.part_note) == ("B1", PartNote.NONE)


def test_a_missed_trigger_takes_it_too() -> None:
    """The part went by, whether or not it was inspected."""
    desk = Desk()
    desk.station.trigger(origin="hardware", acquired=True)  # fills the only place
    desk.announce("A2")
    assert desk.pulse() == ("A2", PartNote.NONE)
    assert desk.station.status().missed == 1
    assert desk.pulse()[1] == PartNote.MISSING


def test_the_result_says_it() -> None:
    desk = Desk()
    desk.announce("A1")
    event = desk.station.trigger(origin="hardware", acquired=True)
    results = []
    desk.station.events.subscribe(StationResult, results.append, name="test")
    desk.station.stop()
    facts = results[0].facts()
    assert (facts["trigger_id"], facts["part_id"], facts["part_note"]) == (
        event.trigger_id,
        "A1",
        "none",
    )


def test_an_age_that_is_none() -> None:
    with pytest.raises(EdgesegError, match="part_id_age=0: expected more than 0 seconds"):
        HardwareOptions(part_id_age=0)
