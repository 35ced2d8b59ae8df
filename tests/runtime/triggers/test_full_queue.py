"""A model that is slower than the triggers: each one taken is inspected, the others are refused."""

import threading

from edgeseg.runtime.events.codes import ErrorCode
from tests.doubles.fakes import BrightnessSession
from tests.doubles.rig import Rig
from tests.support import HANGS_S

QUEUE = 3


def test_no_frame_of_a_trigger_falls_out_of_the_queue() -> None:
    gate = threading.Event()
    gate.set()
    session = BrightnessSession(meanwhile=lambda: gate.wait(HANGS_S) and None)
    values = {"trigger": "modbus", "modbus": "0", "queue_size": QUEUE, "trigger_timeout": 30.0}
    with Rig(session=session, values=values) as rig:
        gate.clear()

        def has_frames() -> bool:
            return all(each.acquired for each in rig.station._pending.open())

        for _ in range(3 * QUEUE):
            rig.station.trigger(origin="test")
            rig.wait(has_frames, "the trigger's frame")
        gate.set()
        rig.wait(lambda: not rig.station.busy, "all results")
    errors = [result.error for result in rig.results]
    assert errors == [ErrorCode.NONE] * QUEUE + [ErrorCode.MISSED] * 2 * QUEUE
