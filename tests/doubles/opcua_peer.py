"""An OPC UA client of the station, for the tests of whatever OPC UA can ask for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from edgeseg.runtime.adapters.opcua import NAMESPACE
from tests.doubles.rig import Rig


class Peer:
    """A client's view of the vision system."""

    def __init__(self, client: Any, space: int) -> None:
        self.client, self._space = client, space

    async def node(self, *names: str) -> Any:
        path = [f"{self._space}:{name}" for name in ("VisionSystem", *names)]
        return await self.client.nodes.objects.get_child(path)

    async def value(self, *names: str) -> Any:
        return await (await self.node(*names)).read_value()

    async def call(self, method: str, *arguments: Any, on: tuple[str, ...] = ()) -> Any:
        system, function = await self.node(*on), await self.node(*on, method)
        return await system.call_method(function, *arguments)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(3000):
            if await condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("waited in vain")


def visit(line: Rig, story: Callable[[Peer], Awaitable[None]]) -> None:
    """Connect, and do what the story says."""
    asyncua = pytest.importorskip("asyncua", reason="needs asyncua: pip install edgeseg[opcua]")

    async def told() -> None:
        async with asyncua.Client(line.adapter("opcua").url) as client:
            await story(Peer(client, await client.get_namespace_index(NAMESPACE)))

    asyncio.run(told())
