"""What a client of OPC UA may do: look, subscribe and call; and what it may not, by any name."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from edgeseg.runtime.adapters import opcua
from edgeseg.runtime.adapters.opcua import NAMESPACE
from tests.doubles.fakes import BrightnessSession
from tests.doubles.opcua_peer import Peer, visit
from tests.doubles.rig import Rig
from tests.doubles.server_process import free_port

asyncua = pytest.importorskip("asyncua", reason="needs asyncua: pip install edgeseg[opcua]")
ua = asyncua.ua


@pytest.fixture(scope="module")
def line() -> Iterator[Rig]:
    """One for all: the library needs seconds to make its address space."""
    values = {"trigger": "opcua", "opcua": str(free_port())}
    with Rig(BrightnessSession(), values) as running:
        yield running


async def inspected(peer: Peer, line: Rig, part_id: str) -> dict[str, Any]:
    """The result of one part, as a client reads it."""
    while not line.station.status().trigger_ready:
        await asyncio.sleep(0.001)
    job, error = await peer.call("StartSingleJob", "", part_id)
    assert error == 0

    async def there() -> bool:
        return await peer.value("ResultManagement", "ResultId") == job

    await peer.until(there)
    return json.loads(await peer.value("ResultManagement", "ResultContent"))


Attempt = Callable[[Peer], Awaitable[Any]]


async def _forge(peer: Peer) -> None:
    node = await peer.node("ResultManagement", "ResultState")
    await node.write_value(ua.Variant(1, ua.VariantType.Int32))


async def _allow_writing(peer: Peer) -> None:
    node = await peer.node("ResultManagement", "ResultState")
    await node.set_writable()


async def _rename(peer: Peer) -> None:
    node = await peer.node("TriggerReady")
    name = ua.DataValue(ua.Variant(ua.LocalizedText("Forged")))
    await node.write_attribute(ua.AttributeIds.DisplayName, name)


async def _delete(peer: Peer) -> None:
    node = await peer.node("ResultManagement", "ResultId")
    (status,) = await peer.client.delete_nodes([node])
    status.check()


async def _delete_all(peer: Peer) -> None:
    await peer.client.delete_nodes([await peer.node()], recursive=True)


async def _add(peer: Peer) -> None:
    await (await peer.node()).add_variable(2, "Forged", 1)


async def _unlink(peer: Peer) -> None:
    system, node = await peer.node(), await peer.node("TriggerReady")
    await system.delete_reference(node, ua.ObjectIds.HasComponent)


async def _link(peer: Peer) -> None:
    await (await peer.node()).add_reference(await peer.node("Error"), ua.ObjectIds.Organizes)


async def _register(peer: Peer) -> None:
    await peer.client.uaclient.register_server(ua.RegisteredServer(ServerUri="urn:forged"))


@pytest.mark.parametrize("name", [None, "admin", "Admin", "root"])
@pytest.mark.parametrize(
    "attempt",
    [_forge, _allow_writing, _rename, _delete, _delete_all, _add, _unlink, _link, _register],
)
def test_nobody_changes_anything_and_results_still_arrive(
    line: Rig, name: str | None, attempt: Attempt
) -> None:
    async def told() -> None:
        client = asyncua.Client(line.adapter("opcua").url)
        if name is not None:
            client.set_user(name)
            client.set_password("whatever")
        async with client:
            peer = Peer(client, await client.get_namespace_index(NAMESPACE))
            with pytest.raises(ua.UaStatusCodeError, match=r"(?i)denied"):
                await attempt(peer)
            assert (await inspected(peer, line, f"P-{name}"))["part_id"] == f"P-{name}"

    asyncio.run(told())
    assert line.faults.totals() == {}


def test_a_job_of_another_part_is_refused(line: Rig) -> None:
    async def story(peer: Peer) -> None:
        assert (await peer.call("StartSingleJob", "m-1", "A1"))[1] == 0
        assert await peer.call("StartSingleJob", "m-1", "B2") == [0, -1]

    before = line.station.status().triggers
    visit(line, story)
    assert line.station.status().triggers == before + 1
    assert line.faults.totals() == {"opcua": 1}


def test_calls_in_one_message_are_as_old_as_it(line: Rig) -> None:
    """They are done one after another, however long that takes."""

    async def story(peer: Peer) -> None:
        system, start = await peer.node(), await peer.node("StartSingleJob")
        arguments = [ua.Variant("", ua.VariantType.String) for _ in range(2)]
        call = ua.CallMethodRequest(
            ObjectId=system.nodeid, MethodId=start.nodeid, InputArguments=arguments
        )
        await peer.client.uaclient.call([call] * 20)

    before = line.station.status().triggers
    visit(line, story)
    line.wait(lambda: line.station.status().results == before + 20, "the results")
    calls = line.results[-20:]
    assert len({each.trigger.monotonic_ns for each in calls}) == 1
    assert calls[0].trigger.monotonic_ns < time.monotonic_ns()


def test_a_server_that_broke_starts_again_and_loses_no_result(
    line: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks it: here its own nodes are gone."""
    monkeypatch.setattr(opcua, "_AGAIN_S", 0.01)
    adapter, counted = line.adapter("opcua"), line.faults.totals().get("opcua", 0)
    broken = adapter._server

    async def lose() -> None:
        space = await broken.get_namespace_index(NAMESPACE)
        path = [f"{space}:VisionSystem", f"{space}:ResultManagement", f"{space}:ResultId"]
        await broken.delete_nodes([await broken.nodes.objects.get_child(path)])

    asyncio.run_coroutine_threadsafe(lose(), adapter._loop).result(30)
    event = line.station.trigger(origin="test", part_id="during")
    line.wait(lambda: adapter._server is not broken and adapter.serving, "the next server")

    async def story(peer: Peer) -> None:
        async def there() -> bool:
            return await peer.value("ResultManagement", "ResultId") == event.trigger_id

        await peer.until(there)
        assert (await inspected(peer, line, "after"))["verdict"] == "good"

    visit(line, story)
    assert line.faults.totals()["opcua"] == counted + 1
