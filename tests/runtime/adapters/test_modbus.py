"""The register map as a PLC uses it: our own socket, pymodbus and libmodbus' mbpoll."""

import contextlib
import math
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeseg.base.errors import EdgesegError
from edgeseg.decision.kinds import KindGuess
from edgeseg.decision.prediction import Region
from edgeseg.runtime.adapters.modbus import MAX_CONNECTIONS, ModbusServer, answer
from edgeseg.runtime.adapters.modbus_face import ModbusFace
from edgeseg.runtime.adapters.modbus_map import (
    BOX,
    CHECK_ANSWER,
    CHECKS,
    CONTROL,
    ERROR,
    HEARTBEAT,
    JOB,
    JOB_LOAD,
    KIND,
    LATENCY,
    MISSED,
    NEXT_PART_ID,
    NO_NUMBER,
    OVERRUNS,
    PART_ID,
    PART_NOTE,
    REGIONS,
    RESULT_ID,
    RUN,
    SCORE,
    SIZE,
    STATUS,
    THRESHOLD,
    TRIGGER_ID,
    VERDICT,
    VERSION,
    Control,
    Status,
    high_low,
    text_of,
    text_registers,
    thousandths,
)
from edgeseg.runtime.events.codes import ErrorCode, VerdictCode
from edgeseg.runtime.station.records import Inspection, Job
from edgeseg.runtime.station.station import Station
from tests.doubles.fakes import BrightnessSession
from tests.doubles.plc import ModbusPlc
from tests.doubles.rig import Rig
from tests.support import HANGS_S


class Desk:
    """A face, its station, and what was counted."""

    def __init__(self, *, may_trigger: bool = True, capacity: int = 2) -> None:
        self.errors: list[tuple[str, str]] = []
        self.station = Station()
        self.face = ModbusFace(
            self.station,
            may_trigger=may_trigger,
            capacity=capacity,
            on_error=lambda name, message: self.errors.append((name, message)),
        )
        self.station.start()

    def control(self, bits: Control) -> None:
        assert self.face.write(CONTROL, [int(bits)])

    def registers(self) -> list[int]:
        registers = self.face.read(0, SIZE)
        assert registers is not None
        return registers

    def status(self) -> Status:
        return Status(self.registers()[STATUS])

    def long(self, at: int) -> int:
        high, low = self.registers()[at : at + 2]
        return high << 16 | low

    def inspect(self, verdict: str = "good", *, strongest: Region | None = None) -> None:
        """Answer the trigger that waits."""
        event = self.station.acquire(grabbed_ns=2**62)
        assert event is not None
        seen = Inspection(
            verdict=verdict,
            score=1.2345,
            threshold=2.5,
            region_count=3,
            box_xywh=(1, 2, 3, 70000),
            frame_index=0,
            strongest=strongest,
        )
        self.station.complete(event.trigger_id, seen)

    def pulse(self, bit: Control, *, level: Control = Control(0)) -> None:  # noqa: B008
        self.control(level | bit)
        self.control(level)


def test_the_map_is_frozen() -> None:
    places = (
        STATUS, CONTROL, TRIGGER_ID, RESULT_ID, VERDICT, JOB, SCORE, THRESHOLD, REGIONS, BOX,
        LATENCY, HEARTBEAT, ERROR, PART_ID, JOB_LOAD, MISSED, OVERRUNS, RUN, NEXT_PART_ID, VERSION,
        CHECKS, CHECK_ANSWER, PART_NOTE, KIND,
    )  # fmt: skip
    first = (0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 17, 18, 19, 20, 36, 37, 38, 39, 40, 56)
    assert places == (*first, 57, 58, 59, 60)
    assert [bit.bit_length() - 1 for bit in map(int, Status)] == list(range(16))
    assert [bit.bit_length() - 1 for bit in map(int, Control)] == list(range(6))


def test_before_the_first_result_nothing_is_valid() -> None:
    desk = Desk()
    registers = desk.registers()
    assert len(registers) == SIZE
    assert Status(registers[STATUS]) == Status.ONLINE | Status.TRIGGER_READY
    assert registers[VERDICT] == VerdictCode.NONE
    assert registers[SCORE : SCORE + 2] == high_low(NO_NUMBER)
    assert registers[VERSION] == 1


@pytest.mark.parametrize(
    ("kind", "number"),
    [(None, 0), (KindGuess(name=None), 0), (KindGuess(name="scratch", number=2), 2)],
    ids=["none known", "unknown", "scratch"],
)
def test_the_kind_is_a_number(kind: KindGuess | None, number: int) -> None:
    desk = Desk()
    desk.control(Control.TRIGGER)
    assert desk.registers()[KIND] == 0
    region = Region(box_xywh=(1, 2, 3, 4), area_px=12, peak=9.0, kind=kind)
    desk.inspect("defect", strongest=region)
    assert desk.registers()[KIND] == number
    desk.control(Control.RESULTS_ACK)
    assert desk.registers()[KIND] == 0, "what was read is no result any more"


def test_a_trigger_and_its_result_as_registers() -> None:
    desk = Desk()
    assert desk.face.write(NEXT_PART_ID, text_registers("SN 0042"))
    desk.control(Control.TRIGGER)
    status = desk.status()
    assert Status.TRIGGER_ACK | Status.ACQUIRING in status
    assert Status.TRIGGER_READY not in status
    assert desk.long(TRIGGER_ID) == 1
    desk.control(Control(0))
    assert Status.TRIGGER_ACK not in desk.status()
    desk.inspect("defect")
    registers = desk.registers()
    assert Status.RESULTS_VALID | Status.INSPECTION_COMPLETED in Status(registers[STATUS])
    assert Status.RESULT_GOOD not in Status(registers[STATUS])
    assert (desk.long(RESULT_ID), registers[VERDICT]) == (1, VerdictCode.DEFECT)
    assert (desk.long(SCORE), desk.long(THRESHOLD), registers[REGIONS]) == (1234, 2500, 3)
    assert registers[BOX : BOX + 4] == [1, 2, 3, 65535]
    assert text_of(registers[PART_ID : PART_ID + 16]) == "SN 0042"
    assert registers[ERROR] == 0


def test_a_level_triggers_once_however_often_it_is_written() -> None:
    desk = Desk()
    for _ in range(3):
        desk.control(Control.TRIGGER)
    assert desk.station.status().triggers == 1


def test_completed_toggles_and_good_is_valid_only() -> None:
    desk = Desk()
    seen = []
    for _ in range(3):
        desk.pulse(Control.TRIGGER)
        desk.inspect()
        seen.append(Status.INSPECTION_COMPLETED in desk.status())
    assert seen == [True, False, True]
    assert Status.RESULT_GOOD in desk.status()
    desk.pulse(Control.RESULTS_ACK)
    assert Status.RESULT_GOOD not in desk.status()
    assert desk.registers()[VERDICT] == VerdictCode.NONE
    assert desk.long(RESULT_ID) == 3


def test_buffered_results_queue_and_a_full_buffer_takes_trigger_ready_away() -> None:
    desk = Desk(capacity=2)
    level = Control.BUFFER_RESULTS
    for verdict in ("good", "defect"):
        desk.pulse(Control.TRIGGER, level=level)
        desk.inspect(verdict)
    assert Status.TRIGGER_READY not in desk.status()
    desk.pulse(Control.TRIGGER, level=level)  # all the same: answered, and lost for want of room
    assert desk.registers()[OVERRUNS] == 1
    assert Status.BUFFER_OVERRUN in desk.status()
    assert desk.errors == [("modbus", "a result is lost: those before it were not acknowledged")]
    assert (desk.long(RESULT_ID), desk.registers()[VERDICT]) == (1, VerdictCode.GOOD)
    desk.pulse(Control.RESULTS_ACK, level=level)
    assert (desk.long(RESULT_ID), desk.registers()[VERDICT]) == (2, VerdictCode.DEFECT)
    assert Status.TRIGGER_READY in desk.status()
    desk.pulse(Control.CLEAR_ERRORS, level=level)
    assert Status.BUFFER_OVERRUN not in desk.status()


def test_a_missed_trigger_is_a_bit_until_it_is_cleared() -> None:
    desk = Desk()
    desk.pulse(Control.TRIGGER)
    desk.pulse(Control.TRIGGER)
    assert Status.MISSED_ACQUISITION in desk.status()
    desk.pulse(Control.CLEAR_ERRORS)
    assert Status.MISSED_ACQUISITION not in desk.status()
    assert desk.registers()[MISSED] == 1


def test_jobs_are_loaded_by_number_and_an_unknown_one_is_an_error() -> None:
    desk = Desk()
    jobs = {3: Job(number=3, name="bottle")}

    def load(key: int | str) -> bool:
        if key in jobs:
            desk.station.set_job(jobs[int(key)])
        return key in jobs

    desk.station.attach_jobs(load)
    for number, error in ((3, ErrorCode.NONE), (4, ErrorCode.UNKNOWN_JOB)):
        assert desk.face.write(JOB_LOAD, [number])
        desk.control(Control.LOAD_JOB)
        assert Status.JOB_LOAD_ACK in desk.status()
        desk.control(Control(0))
        assert desk.registers()[JOB] == 3
        assert desk.registers()[ERROR] == error
    assert Status.ERROR in desk.status()
    desk.pulse(Control.TRIGGER)
    assert desk.registers()[VERDICT] == VerdictCode.NO_INSPECTION


def test_without_the_right_to_trigger_a_trigger_is_counted_and_not_acknowledged() -> None:
    desk = Desk(may_trigger=False)
    desk.control(Control.TRIGGER)
    assert Status.TRIGGER_ACK not in desk.status()
    assert desk.station.status().triggers == 0
    assert desk.errors == [
        ("modbus", "a trigger over Modbus is refused; start with trigger=modbus")
    ]


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (struct.pack(">BHH", 3, 0, 1), struct.pack(">BBH", 3, 2, 3)),
        (struct.pack(">BHH", 4, 56, 1), struct.pack(">BBH", 4, 2, 1)),
        (struct.pack(">BHH", 3, 0, 0), bytes([0x83, 3])),
        (struct.pack(">BHH", 3, 0, 126), bytes([0x83, 3])),
        (struct.pack(">BHH", 3, 60, 5), bytes([0x83, 2])),
        (struct.pack(">BHH", 6, 0, 1), bytes([0x86, 2])),  # the status is not for writing
        (struct.pack(">BHH", 6, 36, 9), struct.pack(">BHH", 6, 36, 9)),
        (struct.pack(">BHHBH", 16, 35, 1, 2, 7), bytes([0x90, 2])),
        (struct.pack(">BHHBH", 16, 36, 2, 2, 7), bytes([0x90, 3])),
        (struct.pack(">BHHBH", 16, 36, 1, 2, 7), struct.pack(">BHH", 16, 36, 1)),
        (b"\x03\x00", bytes([0x83, 3])),
        (b"\x06", bytes([0x86, 3])),
        (b"\x10", bytes([0x90, 3])),
        (b"\x2b\x0e\x01\x00", bytes([0xAB, 1])),
    ],
)
def test_requests_and_their_replies(request_bytes: bytes, reply: bytes) -> None:
    assert answer(Desk().face, request_bytes) == reply


@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=253))
def test_no_request_whatever_is_a_crash(request_bytes: bytes) -> None:
    reply = answer(Desk().face, request_bytes)
    assert 2 <= len(reply) <= 253


def test_numbers_at_their_ends() -> None:
    assert thousandths(math.nan) == thousandths(None) == thousandths(math.inf) == [0x8000, 0]
    assert thousandths(1e12) == [0x7FFF, 0xFFFF]
    assert thousandths(-1e12) == [0x8000, 1]
    assert text_of(text_registers("x" * 40)) == "x" * 32
    assert text_of([0x4100, 0x4242]) == "A"
    assert text_of([0xFF41] * 2) == "AA"


@pytest.fixture
def line() -> Iterator[Rig]:
    with Rig(BrightnessSession(), {"trigger": "modbus", "modbus": "0"}) as running:
        yield running


def connect(line: Rig) -> socket.socket:
    connection = socket.create_connection(
        ("127.0.0.1", line.adapter("modbus").port), timeout=HANGS_S
    )
    connection.settimeout(10)
    return connection


READ_STATUS = struct.pack(">HHHBBHH", 7, 0, 6, 1, 3, 0, 1)


def test_our_own_plc_triggers_and_reads(line: Rig) -> None:
    with ModbusPlc("127.0.0.1", line.adapter("modbus").port) as plc:
        for number in range(10):
            trigger_id = plc.trigger(f"P{number}")
            result = plc.result(trigger_id)
            assert (result.trigger_id, result.code, result.part_id) == (number + 1, 1, f"P{number}")
    assert len(line.results) == 10


def test_requests_in_pieces_and_several_in_one(line: Rig) -> None:
    with connect(line) as connection:
        for byte in READ_STATUS:
            connection.sendall(bytes([byte]))
        connection.sendall(READ_STATUS * 3)
        received = b""
        while len(received) < 4 * 11:
            received += connection.recv(100)
        assert received[:9] == struct.pack(">HHHBBB", 7, 0, 5, 1, 3, 2)


def test_triggers_that_come_at_once_are_equally_old(line: Rig) -> None:
    """They are taken one after another, however long that takes."""

    def write(bits: int) -> bytes:
        return struct.pack(">HHHBBHH", 0, 0, 6, 1, 6, CONTROL, bits)

    with connect(line) as plc:
        plc.sendall((write(1) + write(0)) * 20)
        line.wait(lambda: line.station.status().results == 20, "the results")
    assert len({each.trigger.monotonic_ns for each in line.results}) == 1


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0\xff\xff\1", b"\0\0\0\0\0\0\0\0", b"\xff" * 300],
)
def test_what_is_not_modbus_is_hung_up_on_and_others_are_served_on(
    line: Rig, garbage: bytes
) -> None:
    with connect(line) as other, connect(line) as connection:
        connection.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
        other.sendall(READ_STATUS)
        assert len(other.recv(100)) == 11
    assert line.faults.totals()["modbus"] == 1


def test_a_plc_that_returns_gets_in_although_its_old_connections_look_alive(line: Rig) -> None:
    old = [connect(line) for _ in range(MAX_CONNECTIONS)]
    for connection in old:
        connection.sendall(READ_STATUS)
        assert len(connection.recv(100)) == 11
    with connect(line) as new:
        new.sendall(READ_STATUS)
        assert len(new.recv(100)) == 11
    assert old[0].recv(100) == b""  # heard least lately
    for connection in old:
        connection.close()


def test_a_port_that_is_taken(line: Rig) -> None:
    port = line.adapter("modbus").port
    with pytest.raises(EdgesegError) as caught:
        ModbusServer(Desk().face, host="127.0.0.1", port=port, on_error=lambda *_: None)
    assert str(caught.value) == (
        f"modbus=127.0.0.1:{port}: cannot listen (Address already in use); "
        "try another port, such as 1502"
    )


def test_pymodbus_agrees(line: Rig) -> None:
    client_module = pytest.importorskip("pymodbus.client", reason="needs pymodbus")
    client = client_module.ModbusTcpClient("127.0.0.1", port=line.adapter("modbus").port)
    assert client.connect()
    try:
        assert not client.write_registers(NEXT_PART_ID, text_registers("PM-1")).isError()
        assert not client.write_register(CONTROL, 1).isError()
        line.wait(lambda: len(line.results) == 1, "the result")
        registers = client.read_holding_registers(0, count=SIZE).registers
        assert registers[VERDICT] == VerdictCode.GOOD
        assert text_of(registers[PART_ID : PART_ID + 16]) == "PM-1"
        assert client.read_input_registers(VERSION, count=1).registers == [1]
        refused = client.write_register(STATUS, 1)
        assert refused.isError()
        assert refused.exception_code == 2
    finally:
        client.close()


@pytest.mark.skipif(shutil.which("mbpoll") is None, reason="needs mbpoll: apt install mbpoll")
def test_mbpoll_agrees(line: Rig) -> None:
    def mbpoll(*arguments: str) -> str:
        command = ["mbpoll", "-m", "tcp", "-p", str(line.adapter("modbus").port), "-0", "-q"]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=HANGS_S, check=False
        )
        return done.stdout + done.stderr

    assert "Written 1 references" in mbpoll("-r", "1", "127.0.0.1", "1")
    line.wait(lambda: len(line.results) == 1, "the result")
    assert "[6]: \t1\n" in mbpoll("-r", "0", "-c", "40", "-1", "127.0.0.1")
    assert "Illegal data address" in mbpoll("-r", "60", "-c", "10", "-1", "127.0.0.1")
