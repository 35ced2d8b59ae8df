"""A real GigE Vision camera of aravis' own, fired by triggers over HTTP."""

from edgeseg.runtime.capture.sources import open_capture, parse_source
from edgeseg.runtime.events.codes import ErrorCode
from tests.doubles.fakes import BrightnessSession
from tests.doubles.gige_camera import SERIAL, gige_camera
from tests.doubles.rig import Rig
from tests.support.http_client import ask


def test_one_frame_for_each_trigger_and_an_answer_when_the_camera_is_killed() -> None:
    spec = parse_source(f"aravis:{SERIAL},trigger=software")

    def opener(_: object, **opening: object) -> object:
        return open_capture(spec, **opening)

    values = {"trigger": "http", "http": "0", "trigger_timeout": 20.0}
    with gige_camera() as camera:
        camera.start()
        with Rig(BrightnessSession(), values, fired=True, opener=opener) as line:
            results = [post(line) for _ in range(10)]
            camera.kill()
            results.append(post(line))
    assert [result["trigger_id"] for result in results] == list(range(1, 12))
    # A busy computer may lose a packet: such a frame is answered for, and not scored. So is one of
    # which nothing but a beginning came.
    errors = [result["error"] for result in results[:10]]
    assert set(errors) <= {"none", "incomplete_frame"}
    assert results[10]["error_code"] in (
        ErrorCode.SOURCE_LOST,
        ErrorCode.TIMEOUT,
        ErrorCode.INCOMPLETE_FRAME,
    )
    assert line.pipeline.snapshot().sources[0].scored == errors.count("none") > 0


def post(line: Rig) -> dict[str, object]:
    line.wait(lambda: line.station.status().trigger_ready, "trigger ready")
    status, result = ask(line, "POST", "/trigger?wait=1")
    assert status == 200
    return result
