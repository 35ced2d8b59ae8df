"""RTSP against GStreamer's own server: a server that stands still, and awkward passwords."""

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.opencv_capture import open_network, why_no_network
from edgeseg.runtime.capture.sources import open_capture, parse_source
from tests.doubles.fakes import wait
from tests.doubles.rtsp_server import RtspServer, why_no_server
from tests.support.running_pipeline import running_pipeline

MISSING = why_no_server()
real = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a server")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_any_password_is_understood_as_a_camera(password: str) -> None:
    spec = parse_source(f"rtsp://admin:{password}@127.0.0.1:1/1")
    assert (spec.kind, spec.live) == ("network", True)
    assert why_no_network(spec.text)


def test_a_bracket_in_a_password_ends_in_one_sentence() -> None:
    spec = parse_source("rtsp://admin:hun[ter2@127.0.0.1:1/1")
    with pytest.raises(RuntimeFailure) as error:
        open_capture(spec, wait=lambda seconds: False, timeout_s=1.0)
    assert str(error.value) == (
        "rtsp://***@127.0.0.1:1/1: the address is malformed; escape special letters in the "
        "password (@ is %40)"
    )


@real
@pytest.mark.parametrize("password", ["p[w", "p]w[1]"])
def test_a_real_server_takes_the_password(password: str) -> None:
    server = RtspServer(user="admin", password=password)
    server.start()
    try:
        written = {quote(password, safe=""), password}  # escaped, and as people type it
        for text in written:
            good = open_network(f"rtsp://admin:{text}@{server.address}", timeout_s=9)
            assert good is not None, text
            assert good.read() is not None
            good.close()
        assert open_network(f"rtsp://admin:wrong@{server.address}", timeout_s=9) is None
    finally:
        server.kill()


@real
def test_a_stall_just_above_the_time_out_is_a_loss_and_nothing_old_is_scored() -> None:
    server = RtspServer()
    server.start()
    try:
        with running_pipeline(server.url, stall_timeout_s=2.0) as (_, sink):

            def kinds() -> list[str]:
                return [event.kind for event in list(sink.events)]

            wait(lambda: len(sink.results) > 10, "frames")
            server.stand_still()
            time.sleep(0.2)  # what was on its way has arrived
            still_s, before = time.monotonic(), len(sink.results)
            wait(lambda: "source_lost" in kinds() or time.monotonic() > still_s + 2.4, "a stall")
            server.go_on()
            wait(lambda: "source_back" in kinds(), f"its return; events: {kinds()}")
            wait(lambda: len(sink.results) > before + 5, "frames after it")
    finally:
        server.kill()
    assert kinds()[:3] == ["source_open", "source_lost", "source_back"]
    assert sink.events[1].reason.startswith("no frame for 2.")
    lost_s = sink.events[1].monotonic_s
    while_still = [r for r in sink.results if still_s < r.monotonic_s < lost_s]
    assert not while_still
    assert len(sink.results) > before
