"""Serve OPC UA with names of OPC 40100-1 (Machine Vision), a small subset; see docs/line.md.

VisionSystem
  VisionStateMachine, AutomaticModeStateMachine: CurrentState    TriggerReady, Error, Heartbeat
  StartSingleJob(MeasId, PartId) -> JobId, Error                 PrepareRecipe(Recipe) -> Error
  AnnouncePart(PartId) -> Error                                  CheckNow() -> Error
  ResultManagement: ResultId, ResultState, ResultContent         GetResultById(JobId) -> content
"""

import asyncio
import json
import logging
import selectors
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.extras import install_command
from edgeseg.base.messages import Sentence, Setting
from edgeseg.runtime.adapters.opcua_server import came_ns, make_server
from edgeseg.runtime.adapters.seen_requests import MAX_REQUEST, RequestReused, SeenRequests
from edgeseg.runtime.events.codes import State
from edgeseg.runtime.station.records import StationResult, StationStatus, job_key
from edgeseg.runtime.station.station import Station

OpcUaNodes = dict[str, Any]  # by name; asyncua has no types

NAMESPACE = "urn:edgeseg:station"
QUEUED = 1000
KEPT = 1000  # results that may still be asked for by their id
OK, REFUSED = 0, -1
_STATE_S = 0.1
_AGAIN_S = 1.0  # before a server that broke starts again
_START_S = 120.0  # its address space takes seconds, and minutes on a small busy computer
_AUTOMATIC = {
    State.OFFLINE: "Initialized",
    State.READY: "Ready",
    State.RESULT: "Ready",
    State.ACQUIRING: "SingleExecution",
    State.INSPECTING: "SingleExecution",
}


def vision_state(status: StationStatus) -> str:
    """Return the state of the whole vision system."""
    if status.error:
        return "Error" if status.online else "Halted"
    return "Operational" if status.online else "Preoperational"


def _new_loop(asked: Setting) -> asyncio.AbstractEventLoop:
    """Make an event loop, after a check that file descriptors are left for it."""
    try:
        with selectors.DefaultSelector():
            for end in socket.socketpair():
                end.close()
        return asyncio.new_event_loop()
    except OSError as error:
        raise RuntimeFailure(asked, f": cannot serve ({error.strerror})") from None


def _message(error: Exception) -> str:
    """Return the error's text, or its type if it has none."""
    return str(error) or type(error).__name__


class OpcUaAdapter:
    """A server from construction until close, in a thread with its own event loop."""

    name = "opcua"

    def __init__(
        self,
        station: Station,
        *,
        host: str,
        port: int,
        may_trigger: bool,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._station, self._may_trigger, self._on_error = station, may_trigger, on_error
        self.url = f"opc.tcp://{host}:{port}/edgeseg/"
        self._requests = SeenRequests()
        self._kept: OrderedDict[int, str] = OrderedDict()
        asked = Setting("opcua", f"{host}:{port}")
        self._loop = _new_loop(asked)
        self._waiting: asyncio.Queue[StationResult] = asyncio.Queue(QUEUED)
        self._unwritten: StationResult | None = None
        self._server: Any = None
        self.serving = False  # whether clients can connect now
        self._over = asyncio.Event()
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="opcua", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_S) or self._failure is not None:
            reason = f"not there after {_START_S:g} s"
            if self._failure is not None:
                reason = _message(self._failure)
            self.close()
            raise RuntimeFailure(asked, f": cannot serve ({reason})")
        station.events.subscribe(StationResult, self._take, name=self.name)

    def _take(self, result: StationResult) -> None:
        with suppress(RuntimeError):  # the loop has just ended
            self._loop.call_soon_threadsafe(self._queue, result)

    # In the loop's thread.

    def _queue(self, result: StationResult) -> None:
        try:
            self._waiting.put_nowait(result)
        except asyncio.QueueFull:
            self._on_error(self.name, "results are lost: more come than can be written")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # a library's surprise must not end the inspection
            self._failure = error
            if self._ready.is_set():
                self._on_error(self.name, f"the server ended ({type(error).__name__})")
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        """Serve until the end; after a failure start a new server."""
        while not self._over.is_set():
            try:
                await self._serve_once()
            except Exception as error:
                if not self._ready.is_set():
                    raise
                self._on_error(self.name, f"the server broke ({_message(error)}); it starts again")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _AGAIN_S)

    async def _serve_once(self) -> None:
        logging.getLogger("asyncua").setLevel(logging.CRITICAL)  # what clients do is no news
        try:
            server = self._server = make_server()
        except ImportError:
            raise RuntimeFailure(f"needs asyncua; try: {install_command('asyncua')}") from None
        await server.init()
        server.set_endpoint(self.url)
        server.set_server_name("edgeseg station")
        space = await server.register_namespace(NAMESPACE)
        system = await server.nodes.objects.add_object(space, "VisionSystem")
        states = await self._add_states(system, space)
        results = await self._add_results(system, space)
        await self._add_methods(system, space)
        async with server:
            self.serving = True
            self._ready.set()
            tasks = [
                asyncio.ensure_future(self._write_states(states)),
                asyncio.ensure_future(self._write_results(results)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                self.serving = False
                for task in tasks:
                    task.cancel()

    async def _add_states(self, system: Any, space: int) -> OpcUaNodes:
        from asyncua import ua

        nodes = {}
        for machine in ("VisionStateMachine", "AutomaticModeStateMachine"):
            folder = await system.add_object(space, machine)
            nodes[machine] = await folder.add_variable(space, "CurrentState", "")
        kinds = {
            "TriggerReady": (False, ua.VariantType.Boolean),
            "Error": (0, ua.VariantType.Int32),
            "ErrorText": ("", ua.VariantType.String),
            "Heartbeat": (0, ua.VariantType.UInt16),
            "RunId": (self._station.run_id, ua.VariantType.String),
            "Recipe": ("", ua.VariantType.String),
            "Check": ("", ua.VariantType.String),
            "CheckAnswer": (0, ua.VariantType.Int32),
            "Checks": (0, ua.VariantType.UInt32),
        }
        for name, (value, kind) in kinds.items():
            nodes[name] = await system.add_variable(space, name, value, kind)
        return nodes

    async def _add_results(self, system: Any, space: int) -> OpcUaNodes:
        from asyncua import ua
        from asyncua.common.methods import uamethod

        folder = await system.add_object(space, "ResultManagement")
        kinds = {
            "ResultId": (0, ua.VariantType.UInt32),
            "ResultState": (0, ua.VariantType.Int32),  # the verdict's number
            "ResultContent": ("", ua.VariantType.String),
        }

        @uamethod
        def by_id(parent: object, job_id: int) -> str:
            return self._kept.get(job_id, "")

        await folder.add_method(
            space, "GetResultById", by_id, [ua.VariantType.UInt32], [ua.VariantType.String]
        )
        return {
            name: await folder.add_variable(space, name, value, kind)
            for name, (value, kind) in kinds.items()
        }

    async def _add_methods(self, system: Any, space: int) -> None:
        from asyncua import ua
        from asyncua.common.methods import uamethod

        @uamethod
        async def start(parent: object, meas_id: str, part_id: str) -> tuple[Any, Any]:
            asked = (meas_id or "", part_id or "", came_ns())
            number, error = await asyncio.to_thread(self._start, *asked)
            return ua.Variant(number, ua.VariantType.UInt32), ua.Variant(
                error, ua.VariantType.Int32
            )

        @uamethod
        def prepare(parent: object, recipe: str) -> Any:
            error = OK if self._station.load_job(job_key(recipe or "")) else REFUSED
            return ua.Variant(error, ua.VariantType.Int32)

        @uamethod
        def announce(parent: object, part_id: str) -> Any:
            error = OK if self._station.announce(part_id or "") else REFUSED
            return ua.Variant(error, ua.VariantType.Int32)

        @uamethod
        def check(parent: object) -> Any:
            error = OK if self._station.check_now() else REFUSED
            return ua.Variant(error, ua.VariantType.Int32)

        text, number, error = ua.VariantType.String, ua.VariantType.UInt32, ua.VariantType.Int32
        await system.add_method(space, "StartSingleJob", start, [text, text], [number, error])
        await system.add_method(space, "PrepareRecipe", prepare, [text], [error])
        await system.add_method(space, "AnnouncePart", announce, [text], [error])
        await system.add_method(space, "CheckNow", check, [], [error])

    def _start(self, meas_id: str, part_id: str, at_ns: int) -> tuple[int, int]:
        if not self._may_trigger or len(meas_id) > MAX_REQUEST:
            self._on_error(
                self.name,
                Sentence("a job over OPC UA is refused; start with ", Setting("trigger", "opcua")),
            )
            return 0, REFUSED
        try:
            trigger_id, _ = self._requests.trigger(
                self._station, origin=self.name, part_id=part_id, request=meas_id, at_ns=at_ns
            )
            return trigger_id, OK
        except RequestReused as reused:
            self._on_error(self.name, str(reused))
            return 0, REFUSED

    async def _write_states(self, nodes: OpcUaNodes) -> None:
        from asyncua import ua

        last: dict[str, object] = {}
        while not self._over.is_set():
            status = self._station.status()
            values = {
                "VisionStateMachine": vision_state(status),
                "AutomaticModeStateMachine": _AUTOMATIC[status.state],
                "TriggerReady": status.trigger_ready,
                "Error": ua.Variant(int(status.error), ua.VariantType.Int32),
                "ErrorText": status.reason,
                "Heartbeat": ua.Variant(status.heartbeat, ua.VariantType.UInt16),
                "Recipe": status.job.name or str(status.job.number),
                "Check": status.check.name.lower(),
                "CheckAnswer": ua.Variant(int(status.check_answer), ua.VariantType.Int32),
                "Checks": ua.Variant(status.checks, ua.VariantType.UInt32),  # changes last
            }
            for name, value in values.items():
                if last.get(name) != value:
                    await nodes[name].write_value(value)
                    last[name] = value
            try:
                await asyncio.wait_for(self._over.wait(), _STATE_S)
            except asyncio.TimeoutError:
                continue

    async def _write_results(self, nodes: OpcUaNodes) -> None:
        from asyncua import ua

        while not (self._over.is_set() and self._waiting.empty()):
            try:
                if (result := self._unwritten) is None:
                    result = await asyncio.wait_for(self._waiting.get(), _STATE_S)
            except asyncio.TimeoutError:
                continue
            self._unwritten = result  # until it stands there: the next server goes on with it
            number = result.trigger.trigger_id
            content = self._kept[number] = json.dumps(result.facts())
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            await nodes["ResultState"].write_value(int(result.code), ua.VariantType.Int32)
            await nodes["ResultContent"].write_value(content)
            # Last: whoever waits for the id finds the rest there.
            await nodes["ResultId"].write_value(number, ua.VariantType.UInt32)
            self._unwritten = None

    def close(self) -> None:
        """Write the queued results, and stop serving."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(5.0)
