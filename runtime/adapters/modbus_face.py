"""Show the station as registers: what a PLC reads, and what its writes trigger."""

import threading
from collections.abc import Callable

from edgeseg.base.messages import Sentence, Setting
from edgeseg.runtime.adapters.modbus_map import (
    CHECK_ANSWER,
    CHECKS,
    CONTROL,
    CONTROL_BITS,
    JOB_LOAD,
    KIND,
    MAP_VERSION,
    NEXT_PART_ID,
    PART_NOTE,
    PART_REGISTERS,
    RESULT_ID,
    SIZE,
    VERSION,
    WRITABLE,
    Control,
    Status,
    high_low,
    result_registers,
    station_bits,
    text_of,
)
from edgeseg.runtime.events.codes import VerdictCode
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.result_buffer import ResultBuffer
from edgeseg.runtime.station.station import Station

REFUSED_TRIGGER = Sentence(
    "a trigger over Modbus is refused; start with ", Setting("trigger", "modbus")
)

REFUSED_CHECK = "a check is refused: no golden pictures, or a recipe is being loaded"


class ModbusFace:
    """The registers of a station.

    All registers of one read are of one moment. A control bit acts when it is set, so that a
    repeated write does nothing.
    """

    def __init__(
        self,
        station: Station,
        *,
        may_trigger: bool,
        capacity: int,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._station, self._may_trigger, self._on_error = station, may_trigger, on_error
        self._buffer = ResultBuffer(capacity, buffered=False)
        self._lock = threading.Lock()
        self._control = Control(0)
        self._job_load = 0
        self._next_part = [0] * PART_REGISTERS
        self._missed_seen = self._overruns_seen = 0
        self._run = int(station.run_id[:4], 16)
        station.events.subscribe(StationResult, self._take, name="modbus")
        if may_trigger:
            station.add_hold(lambda: self._buffer.full)

    def _take(self, result: StationResult) -> None:
        if not self._buffer.offer(result):
            self._on_error("modbus", "a result is lost: those before it were not acknowledged")

    def read(self, address: int, count: int) -> list[int] | None:
        """Return registers from an address on; None if they do not all exist."""
        if count < 1 or address + count > SIZE:
            return None
        with self._lock:
            return self._registers()[address : address + count]

    def write(self, address: int, values: list[int], *, came_ns: int | None = None) -> bool:
        """Write registers for a request of that time; return False if one is read-only."""
        if not values or not WRITABLE.issuperset(range(address, address + len(values))):
            return False
        with self._lock:
            for at, value in enumerate(values, address):
                if at == CONTROL:
                    self._obey(Control(value & CONTROL_BITS), came_ns)
                elif at == JOB_LOAD:
                    self._job_load = value
                else:
                    self._next_part[at - NEXT_PART_ID] = value
            if address == NEXT_PART_ID:  # with its begin: a part id is written in one request
                self._station.announce(text_of(self._next_part))
        return True

    def _obey(self, control: Control, came_ns: int | None) -> None:
        rising, self._control = control & ~self._control, control
        self._buffer.buffered = Control.BUFFER_RESULTS in control
        if Control.CLEAR_ERRORS in rising:
            self._missed_seen = self._station.status().missed
            self._overruns_seen = self._buffer.overruns
        if Control.RESULTS_ACK in rising:
            read = self._buffer.acknowledge()
            if read is not None:
                self._station.acknowledge(read.trigger.trigger_id)
        if Control.LOAD_JOB in rising:
            self._station.load_job(self._job_load)
        if Control.CHECK_NOW in rising and not self._station.check_now():
            self._on_error("modbus", REFUSED_CHECK)
        if Control.TRIGGER in rising:
            if self._may_trigger:
                part_id = text_of(self._next_part)
                self._station.trigger(origin="modbus", part_id=part_id, at_ns=came_ns)
            else:
                self._on_error("modbus", REFUSED_TRIGGER)

    def _registers(self) -> list[int]:
        status = self._station.status()
        shown, valid, toggle = self._buffer.view()
        missed, overruns = status.missed, self._buffer.overruns
        bits = station_bits(status)
        for bit, on in (
            (Status.TRIGGER_ACK, Control.TRIGGER in self._control and self._may_trigger),
            (Status.JOB_LOAD_ACK, Control.LOAD_JOB in self._control),
            (Status.INSPECTION_COMPLETED, toggle),
            (Status.RESULTS_VALID, valid),
            (Status.RESULT_GOOD, valid and shown is not None and shown.code == VerdictCode.GOOD),
            (Status.MISSED_ACQUISITION, missed > self._missed_seen),
            (Status.BUFFER_OVERRUN, overruns > self._overruns_seen),
        ):
            bits |= bit if on else Status(0)
        registers = [int(bits), int(self._control), *high_low(status.trigger_id)]
        registers += result_registers(shown if valid else None, status)
        registers += [self._job_load, missed & 0xFFFF, overruns & 0xFFFF, self._run]
        registers += self._next_part
        registers += [0] * (SIZE - len(registers))
        registers[VERSION] = MAP_VERSION
        registers[CHECKS], registers[CHECK_ANSWER] = (
            status.checks & 0xFFFF,
            int(status.check_answer),
        )
        if valid and shown is not None:
            registers[PART_NOTE] = int(shown.trigger.part_note)
            registers[KIND] = 0 if shown.inspection is None else shown.inspection.kind_number
        if not valid and shown is not None:  # read already: its id stays to be seen, no verdict
            registers[RESULT_ID : RESULT_ID + 2] = high_low(shown.trigger.trigger_id)
        return registers
