"""OPC UA client to server: states, jobs and results by the names of OPC 40100-1."""

import asyncio
import errno
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.adapters.opcua import OpcUaAdapter
from edgeseg.runtime.station.station import Station
from tests.doubles.fakes import BrightnessSession
from tests.doubles.opcua_peer import Peer, visit
from tests.doubles.rig import Rig
from tests.doubles.server_process import free_port

asyncua = pytest.importorskip("asyncua", reason="needs asyncua: pip install edgeseg[opcua]")


@pytest.fixture(scope="module")
def line() -> Iterator[Rig]:
    """One for all: the library needs seconds to make its address space."""
    values = {"trigger": "opcua", "opcua": str(free_port())}
    with Rig(BrightnessSession(), values) as running:
        yield running


def test_jobs_states_and_results(line: Rig) -> None:
    async def story(peer: Peer) -> None:
        async def operational() -> bool:
            return await peer.value("VisionStateMachine", "CurrentState") == "Operational"

        await peer.until(operational)
        assert await peer.value("RunId") == line.station.run_id
        job, error = await peer.call("StartSingleJob", "m-1", "A1")
        assert (job, error) == (1, 0)
        assert await peer.call("StartSingleJob", "m-1", "A1") == [1, 0]  # the same one again

        async def there() -> bool:
            return await peer.value("ResultManagement", "ResultId") == 1

        await peer.until(there)
        content = json.loads(await peer.value("ResultManagement", "ResultContent"))
        assert (content["part_id"], content["verdict"], content["request"]) == ("A1", "good", "m-1")
        assert await peer.value("ResultManagement", "ResultState") == 1
        by_id = peer.call("GetResultById", asyncua.ua.Variant(1, asyncua.ua.VariantType.UInt32),
                          on=("ResultManagement",))  # fmt: skip
        assert json.loads(await by_id) == content
        assert await peer.call("PrepareRecipe", "7") == -1

        async def error_4() -> bool:
            return await peer.value("Error") == 4

        await peer.until(error_4)
        assert await peer.value("VisionStateMachine", "CurrentState") == "Error"
        assert await peer.call("PrepareRecipe", "0") == 0

    visit(line, story)
    assert len(line.results) == 1


def test_a_subscriber_hears_of_every_result(line: Rig) -> None:
    seen: list[int] = []

    class Handler:
        def datachange_notification(self, node: Any, value: Any, data: Any) -> None:
            seen.append(value)

    async def story(peer: Peer) -> None:
        subscription = await peer.client.create_subscription(10, Handler())
        node = await peer.node("ResultManagement", "ResultId")
        await subscription.subscribe_data_change(node, queuesize=100)
        for number in range(before + 1, before + 21):
            while not line.station.status().trigger_ready:
                await asyncio.sleep(0.001)
            assert await peer.call("StartSingleJob", "", f"P{number}") == [number, 0]

        async def all_there() -> bool:
            return len(seen) >= 21

        await peer.until(all_there)

    before = len(line.results)
    visit(line, story)
    assert seen == list(range(before, before + 21))


def test_without_the_right_to_trigger(line: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(peer: Peer) -> None:
        assert await peer.call("StartSingleJob", "", "A1") == [0, -1]

    monkeypatch.setattr(line.adapter("opcua"), "_may_trigger", False)
    before = len(line.results)
    visit(line, story)
    assert len(line.results) == before
    assert line.faults.totals() == {"opcua": 1}


def test_a_failure_without_words_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none_left(adapter: OpcUaAdapter) -> None:
        raise MemoryError

    monkeypatch.setattr(OpcUaAdapter, "_serve", none_left)
    with pytest.raises(RuntimeFailure, match=r"cannot serve \(MemoryError\)"):
        OpcUaAdapter(
            Station(), host="127.0.0.1", port=0, may_trigger=False, on_error=lambda name, text: None
        )


def test_without_descriptors_it_ends_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", none_left)
    with pytest.raises(RuntimeFailure, match=r"opcua=127.0.0.1:0: cannot serve \(Too many open"):
        OpcUaAdapter(
            Station(), host="127.0.0.1", port=0, may_trigger=False, on_error=lambda name, text: None
        )
