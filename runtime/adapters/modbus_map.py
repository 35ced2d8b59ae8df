"""The register map. It is frozen, since PLC programs depend on it; docs/line.md explains it.

0-19 the state, 20-35 part id of the result, 36-55 what a PLC writes besides the control word,
57-60 added later: golden checks on request, the note on the part id, and the kind of the defect
"""

import math
from enum import IntFlag

from edgeseg.runtime.events.codes import Check, State, VerdictCode
from edgeseg.runtime.station.records import MAX_PART_ID, StationResult, StationStatus

MAP_VERSION = 1
SIZE = 64
STATUS, CONTROL, TRIGGER_ID, RESULT_ID, VERDICT, JOB = 0, 1, 2, 4, 6, 7
SCORE, THRESHOLD, REGIONS, BOX, LATENCY, HEARTBEAT, ERROR = 8, 10, 12, 13, 17, 18, 19
PART_ID = 20
JOB_LOAD, MISSED, OVERRUNS, RUN = 36, 37, 38, 39
NEXT_PART_ID = 40
VERSION = 56
CHECKS, CHECK_ANSWER, PART_NOTE, KIND = 57, 58, 59, 60
PART_REGISTERS = MAX_PART_ID // 2
NO_NUMBER = -(2**31)  # for a score that is none
WRITABLE = {CONTROL, JOB_LOAD, *range(NEXT_PART_ID, NEXT_PART_ID + PART_REGISTERS)}


class Status(IntFlag):
    """Bits of register 0."""

    ONLINE = 1 << 0
    TRIGGER_READY = 1 << 1
    TRIGGER_ACK = 1 << 2  # follows the trigger bit
    ACQUIRING = 1 << 3
    INSPECTING = 1 << 4
    INSPECTION_COMPLETED = 1 << 5  # toggles with every result
    RESULTS_VALID = 1 << 6
    RESULT_GOOD = 1 << 7  # valid, inspected and good
    MISSED_ACQUISITION = 1 << 8  # until errors are cleared
    BUFFER_OVERRUN = 1 << 9  # until errors are cleared
    ERROR = 1 << 10  # the station cannot inspect; register 19 says why
    JOB_LOADING = 1 << 11
    JOB_LOAD_ACK = 1 << 12  # follows the load-job bit
    CHECK_PASSED = 1 << 13
    CHECK_FAILED = 1 << 14
    CHECK_RUNNING = 1 << 15


class Control(IntFlag):
    """Bits of register 1; a command acts when its bit is set, and again after it was cleared."""

    TRIGGER = 1 << 0
    RESULTS_ACK = 1 << 1
    BUFFER_RESULTS = 1 << 2  # a level: results wait for their acknowledgement
    CLEAR_ERRORS = 1 << 3
    LOAD_JOB = 1 << 4
    CHECK_NOW = 1 << 5


CONTROL_BITS = sum(Control)  # others are ignored


def high_low(value: int) -> list[int]:
    """Split 32 bits into two registers, the high one first."""
    return [value >> 16 & 0xFFFF, value & 0xFFFF]


def thousandths(value: float | None) -> list[int]:
    """Encode a number times 1000, limited to 32 bits."""
    if value is None or not math.isfinite(value):
        return high_low(NO_NUMBER)
    return high_low(max(1 - 2**31, min(2**31 - 1, round(value * 1000))))


def text_registers(text: str) -> list[int]:
    """Encode ASCII text, two characters a register, high byte first, padded with zeros."""
    padded = text.encode("ascii", "replace")[:MAX_PART_ID].ljust(MAX_PART_ID, b"\0")
    return [padded[at] << 8 | padded[at + 1] for at in range(0, MAX_PART_ID, 2)]


def text_of(registers: list[int]) -> str:
    """Decode the text in registers up to the first zero."""
    data = b"".join(register.to_bytes(2, "big") for register in registers)
    return data.partition(b"\0")[0].decode("ascii", "ignore")


def station_bits(status: StationStatus) -> Status:
    """Return the status bits that come from the station."""
    bits = Status(0)
    for bit, on in (
        (Status.ONLINE, status.online),
        (Status.TRIGGER_READY, status.trigger_ready),
        (Status.ACQUIRING, status.state == State.ACQUIRING),
        (Status.INSPECTING, status.state == State.INSPECTING),
        (Status.ERROR, status.error != 0),
        (Status.JOB_LOADING, status.job_loading),
        (Status.CHECK_PASSED, status.check == Check.PASSED),
        (Status.CHECK_FAILED, status.check == Check.FAILED),
        (Status.CHECK_RUNNING, status.check == Check.RUNNING),
    ):
        bits |= bit if on else Status(0)
    return bits


def result_registers(result: StationResult | None, status: StationStatus) -> list[int]:
    """Return registers 4 to 35."""
    if result is None:
        nothing = [0, 0, int(VerdictCode.NONE), status.job.number, *thousandths(None) * 2]
        nothing += [0] * (HEARTBEAT - REGIONS)
        return [*nothing, status.heartbeat, int(status.error), *[0] * PART_REGISTERS]
    seen, trigger = result.inspection, result.trigger
    box = (seen.box_xywh if seen else None) or (0, 0, 0, 0)
    return [
        *high_low(trigger.trigger_id),
        int(result.code),
        status.job.number,
        *thousandths(seen.score if seen else None),
        *thousandths(seen.threshold if seen else None),
        min(0xFFFF, seen.region_count if seen else 0),
        *(max(0, min(0xFFFF, edge)) for edge in box),
        min(0xFFFF, round(result.latency_ms)),
        status.heartbeat,
        int(result.error or status.error),
        *text_registers(trigger.part_id),
    ]
