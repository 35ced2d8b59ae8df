"""A repeated delivery is one trigger; a name that is used again for another part is not."""

import itertools

import pytest

from edgeseg.runtime.adapters.seen_requests import KEPT, KEPT_S, RequestReused, SeenRequests
from edgeseg.runtime.station.records import Job, TriggerEvent


class Sender:
    """Asks, at a time that the test moves."""

    def __init__(self) -> None:
        self.now_s, self._ids = 1000.0, itertools.count(1)
        self._seen = SeenRequests(clock=lambda: self.now_s)

    def ask(self, request: str, part_id: str = "", job: int = 0) -> tuple[int, bool]:
        return self._seen.once(request, self._trigger, part_id=part_id, job=Job(number=job))

    def _trigger(self) -> TriggerEvent:
        return TriggerEvent(
            trigger_id=next(self._ids), origin="test", monotonic_ns=0, wall_s=0.0, job=Job()
        )


def test_a_repeated_delivery_is_the_same_trigger() -> None:
    sender = Sender()
    assert sender.ask("r-1", "A1") == (1, True)
    sender.now_s += KEPT_S - 1
    assert sender.ask("r-1", "A1") == (1, False)
    assert sender.ask("r-2", "A2") == (2, True)


def test_without_a_name_every_request_is_new() -> None:
    sender = Sender()
    assert [sender.ask("")[0] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("first", "second"), [("A1", "A2"), ("A1", ""), ("", "A2")])
def test_a_name_of_another_part_is_refused(first: str, second: str) -> None:
    sender = Sender()
    sender.ask("r-1", first)
    with pytest.raises(RequestReused, match=f"request 'r-1' was used for part '{first}', now"):
        sender.ask("r-1", second)
    assert sender.ask("r-1", first) == (1, False)  # the first one is still known


def test_a_name_from_before_another_recipe_is_refused() -> None:
    sender = Sender()
    sender.ask("r-1", "A1", job=1)
    with pytest.raises(RequestReused, match="another recipe"):
        sender.ask("r-1", "A1", job=2)


def test_the_same_name_long_after_is_a_new_part() -> None:
    """A counter of a PLC that began again, with part ids or without."""
    sender = Sender()
    sender.ask("1")
    sender.ask("2", "A1")
    sender.now_s += KEPT_S
    assert sender.ask("1") == (3, True)
    assert sender.ask("2", "B1") == (4, True)


def test_no_more_names_are_kept_than_fit() -> None:
    sender = Sender()
    for number in range(KEPT + 1):
        sender.ask(str(number))
    assert sender.ask(str(KEPT)) == (KEPT + 1, False)
    assert sender.ask("0") == (KEPT + 2, True)
