"""GigE Vision: settings, pixels, and a camera on loopback that is triggered, cut and killed."""

import threading
import time
from collections.abc import Iterator

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.progress import ignore
from edgeseg.runtime.capture.aravis import library as aravis_library
from edgeseg.runtime.capture.aravis.camera import AravisCamera, open_camera
from edgeseg.runtime.capture.aravis.discovery import FoundCamera, cameras_named, discover
from edgeseg.runtime.capture.aravis.pixels import FORMATS, picture
from edgeseg.runtime.capture.aravis.settings import AravisOptions
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from tests.doubles.fakes import BrightnessSession, Collect, wait
from tests.doubles.gige_camera import SERIAL, GigeCamera, fire_until, gige_camera, is_whole
from tests.support import HANGS_S

BY_NAME = {pixel.name: pixel for pixel in FORMATS.values()}


def test_what_stands_behind_the_name() -> None:
    text = (
        "aravis:GV01,exposure_us=5000,gain=2,pixel_format=Mono8,packet_size=1400,"
        "trigger=hardware,line=Line2,ReverseX=true,BlackLevel=3"
    )
    assert AravisOptions.parse(text) == AravisOptions(
        camera="GV01",
        exposure_us=5000,
        gain=2,
        pixel_format="Mono8",
        packet_size=1400,
        trigger="hardware",
        line="Line2",
        features="ReverseX=true BlackLevel=3",
    )
    assert AravisOptions.parse("aravis:") == AravisOptions()
    assert AravisOptions.parse("aravis:gain=0").gain == 0
    spec = parse_source("aravis:GV01,trigger=software")
    assert (spec.kind, spec.live, spec.reconnects, spec.trigger) == (
        "aravis",
        True,
        True,
        "software",
    )
    assert spec.policy(None) == "queue", "a triggered frame is somebody's part"
    assert parse_source("aravis:").policy(None) == "latest"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aravis:GV01,exposure=1", "unknown 'exposure', expected exposure_us, gain, fps, "),
        ("aravis:exposure_us=long", "exposure_us='long' is not a number"),
        ("aravis:packet_size=1.5", "packet_size='1.5' is not a number"),
        ("aravis:exposure_us=0", "aravis: exposure_us=0, expected more than 0"),
        ("aravis:trigger=plc", "aravis: trigger='plc', expected off, hardware, software"),
    ],
)
def test_settings_that_cannot_be_meant(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_source(text)
    assert message in str(error.value)


def test_a_camera_is_named_by_serial_address_or_model() -> None:
    a, b = (
        FoundCamera(
            id=f"Basler-acA-{n}",
            vendor="Basler",
            model="acA",
            serial=f"{n}",
            address=f"10.0.0.{n}",
            protocol="GigEVision",
        )
        for n in (1, 2)
    )
    assert cameras_named("", [a, b]) == [a, b]
    assert (
        cameras_named("2", [a, b])
        == cameras_named("10.0.0.2", [a, b])
        == cameras_named("Basler-acA-2", [a, b])
        == [b]
    )
    assert cameras_named("acA", [a, b]) == cameras_named("Basler acA", [a, b]) == [a, b]
    assert cameras_named("3", [a, b]) == []
    assert b.source == "aravis:2"


def test_without_the_library_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aravis_library, "NAMES", ("libno-such-aravis.so",))
    aravis_library.library.cache_clear()
    try:
        with pytest.raises(EdgesegError) as error:
            discover()
        # No source that may come back: the run ends at once, and says so.
        with pytest.raises(EdgesegError, match=r"need libaravis 0\.8, which is not"):
            pipeline_on("aravis:GV01", threading.Event()).run()
    finally:
        monkeypatch.undo()
        aravis_library.library.cache_clear()
    assert str(error.value) == (
        "cameras of GigE Vision and USB3 Vision need libaravis 0.8, which is not installed; "
        "try: sudo apt install libaravis-0.8-0"
    )


@pytest.mark.parametrize("bits", [10, 12, 14, 16])
def test_deep_pixels_follow_the_rule_of_16_bit_pictures(bits: int) -> None:
    white = 2**bits - 1
    ramp = np.linspace(0, white, 64).astype("<u2").reshape(4, 16)
    frame = picture(ramp.tobytes(), (4, 16), BY_NAME[f"Mono{bits}"])
    assert frame is not None
    assert frame.shape == (4, 16, 3)
    assert frame[0, 0].tolist() == [0, 0, 0]
    assert frame[-1, -1].tolist() == [255, 255, 255]
    assert np.abs(frame[:, :, 0] - ramp / white * 255).max() <= 0.51


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("Bayer")])
@pytest.mark.parametrize("colour_bgr", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (40, 90, 200)])
def test_a_mosaic_of_one_colour_is_that_colour(name: str, colour_bgr: tuple[int, ...]) -> None:
    pixel = BY_NAME[name]
    first = {"R": 2, "G": 1, "B": 0}
    # GenICam's two letters are the first row; the second holds the other green and colour.
    top = [first[letter] for letter in name[5:7]]
    below = [{0: 1, 2: 1, 1: 2 if 0 in top else 0}[place] for place in top]
    tile = np.array([[colour_bgr[i] for i in top], [colour_bgr[i] for i in below]])
    scale = 1 if pixel.bits == 8 else (2**pixel.bits - 1) / 255
    mosaic = (np.tile(tile, (4, 5)) * scale).round().astype("u1" if pixel.bits == 8 else "<u2")
    frame = picture(mosaic.tobytes(), (8, 10), pixel)
    assert frame is not None
    inner = frame[2:-2, 2:-2].astype(int)
    assert np.abs(inner - colour_bgr).max() <= 1


def test_colours_keep_their_order_and_a_short_buffer_is_no_picture() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    for name, channels in (("RGB8", "rgb"), ("BGR8", "bgr")):
        frame = picture(pixels.tobytes() + b"chunk", (2, 4), BY_NAME[name])
        np.testing.assert_array_equal(frame, pixels)
        assert BY_NAME[name].channels == channels
    assert picture(pixels.tobytes()[:-1], (2, 4), BY_NAME["RGB8"]) is None
    assert picture(b"", (0, 0), BY_NAME["Mono8"]) is None
    grey = picture(bytes(range(8)), (2, 4), BY_NAME["Mono8"])
    np.testing.assert_array_equal(grey, cv2.merge([np.arange(8, dtype=np.uint8).reshape(2, 4)] * 3))


@pytest.fixture(scope="module")
def network() -> Iterator[GigeCamera]:
    with gige_camera() as camera:
        yield camera


@pytest.fixture
def gige(network: GigeCamera) -> GigeCamera:
    """On since the first test that needs it, until one kills it."""
    network.start()
    return network


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def opened(text: str, stop: threading.Event) -> AravisCamera:
    return open_camera(text, wait=stop.wait, timeout_s=5.0)


def pipeline_on(text: str, stop: threading.Event, *, stall_timeout_s: float = 1.5) -> Pipeline:
    return Pipeline(
        BrightnessSession(),
        [parse_source(text)],
        config=PipelineConfig(queue_size=64, stall_timeout_s=stall_timeout_s),
        faults=Faults(ignore),
        stop=stop,
        note=ignore,
    )


class Running:
    """A pipeline on such a camera."""

    def __init__(self, text: str, stop: threading.Event, *, stall_timeout_s: float = 1.5) -> None:
        self.sink, self._stop = Collect(), stop
        self.pipeline = pipeline_on(text, stop, stall_timeout_s=stall_timeout_s)
        self.pipeline.add_sink(self.sink)
        self.reader = self.pipeline.readers[0]
        self._loop = threading.Thread(target=self.pipeline.run)
        self._loop.start()

    def wait_open(self) -> None:
        """On a busy computer it may count as lost before it is open: discovery takes a second."""
        wait(lambda: self.reader.connected, "it is open")

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("source_") for event in list(self.sink.events)]

    def end(self) -> None:
        self._stop.set()
        self._loop.join(HANGS_S)
        assert not self._loop.is_alive()
        (source,) = self.pipeline.snapshot().sources
        assert source.frames_in == source.scored + sum(source.dropped.values())


def test_it_is_discovered_and_its_frames_have_numbers_and_times(
    gige: GigeCamera, stop: threading.Event
) -> None:
    (found,) = [camera for camera in discover() if camera.serial == SERIAL]
    assert (found.vendor, found.model, found.address) == ("Aravis", "Fake", "127.0.0.1")
    assert found.source == "aravis:GV01"
    camera = opened("aravis:GV01,exposure_us=5000,gain=2,fps=50,packet_size=1400", stop)
    assert camera.fps == pytest.approx(50, abs=1)
    grabs = [camera.read() for _ in range(5)]
    camera.close()
    images = [grab.image_hwc for grab in grabs if grab is not None and grab.image_hwc is not None]
    assert len(images) == 5
    assert all(image.shape == (512, 512, 3) and is_whole(image) for image in images)
    ids = [grab.frame_id for grab in grabs if grab is not None]
    assert np.diff(np.array(ids)).tolist() == [1] * 4
    assert (np.diff([grab.camera_ns or 0 for grab in grabs if grab is not None]) > 0).all()
    stamps = [grab.grabbed_ns for grab in grabs if grab is not None]
    assert stamps == sorted(stamps), "that of the opening, until it is known what a prompt one is"
    colours = opened("aravis:127.0.0.1,pixel_format=RGB8", stop)
    grab = colours.read()
    colours.close()
    assert grab is not None
    assert grab.channels == "rgb"


def test_one_frame_for_each_software_trigger_and_none_before(
    gige: GigeCamera, stop: threading.Event
) -> None:
    running = Running("aravis:GV01,trigger=software", stop)
    running.wait_open()
    before = running.reader.why_lost
    time.sleep(1.7)  # longer than the stall time-out, and several frames if it ran freely
    assert not running.sink.results
    assert running.reader.connected, "a camera that waits is not lost"
    assert running.reader.why_lost == before
    taken = sum(
        fire_until(running.reader.fire, lambda n=n: len(running.sink.results) >= n)  # type: ignore[misc]
        for n in range(1, 6)
    )
    time.sleep(0.2)  # five periods of the camera
    assert 5 <= len(running.sink.results) <= taken
    ids = [result.frame_id for result in running.sink.results]
    assert len(set(ids)) == len(ids)
    assert all(is_whole(result.frame_hwc) for result in running.sink.results)
    running.end()
    with pytest.raises(RuntimeFailure, match="is not connected, so nothing was triggered"):
        running.reader.fire()


def test_a_camera_triggered_by_its_line_waits_and_takes_no_software_trigger(
    gige: GigeCamera, stop: threading.Event
) -> None:
    running = Running("aravis:GV01,trigger=hardware,line=Line0", stop)
    running.wait_open()
    with pytest.raises(RuntimeFailure, match="not set to trigger=software"):
        running.reader.fire()
    time.sleep(0.3)
    assert not running.sink.results
    running.end()


def test_a_frame_that_lacks_packets_is_counted_and_never_scored(
    network: GigeCamera, stop: threading.Event
) -> None:
    network.kill()
    network.start(lost_per_thousand=10)  # of about 190 packets of a frame
    running = Running("aravis:GV01,packet_size=1400,fps=50", stop, stall_timeout_s=10)
    wait(
        lambda: (
            running.pipeline.buffer.counters(0).dropped["incomplete"] >= 20
            and len(running.sink.results) >= 2
        ),
        "whole and torn frames",
    )
    running.end()
    assert all(is_whole(result.frame_hwc) for result in running.sink.results)
    (source,) = running.pipeline.snapshot().sources
    assert source.dropped["incomplete"] > source.scored


def test_a_triggered_frame_that_lacks_packets_is_told_to_who_waits(
    network: GigeCamera, stop: threading.Event
) -> None:
    network.start(lost_per_thousand=10)
    running = Running("aravis:GV01,packet_size=1400,trigger=software", stop)
    running.wait_open()

    def lost() -> list[SourceEvent]:
        return [event for event in list(running.sink.events) if event.kind == "frame_lost"]

    taken = 0
    while len(lost()) < 3:
        told = len(lost()) + len(running.sink.results)
        taken += fire_until(
            running.reader.fire,
            lambda told=told: len(lost()) + len(running.sink.results) > told,  # type: ignore[misc]
        )
    running.end()
    network.kill()
    assert {event.reason for event in lost()} == {"incomplete"}
    assert len({event.frame_id for event in lost()}) == len(lost())
    assert len(lost()) + len(running.sink.results) <= taken


@pytest.mark.parametrize("text", ["aravis:GV01", "aravis:GV01,trigger=software"])
def test_a_camera_that_is_killed_comes_back(
    network: GigeCamera, stop: threading.Event, text: str
) -> None:
    network.start()
    running = Running(text, stop, stall_timeout_s=3.0)
    running.wait_open()
    network.kill()
    wait(lambda: not running.reader.connected, "its loss")
    wait(lambda: running.kinds()[-1:] == ["lost"], "the event of its loss")
    scored = len(running.sink.results)
    network.start()
    wait(lambda: running.kinds()[-1:] == ["back"], "its return")
    if running.reader.spec.trigger == "software":
        fire_until(running.reader.fire, lambda: len(running.sink.results) > scored)
    wait(lambda: len(running.sink.results) > scored, "frames after its return")
    running.end()
    assert running.reader.reconnects == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aravis:GV99", "no camera of that name answers; expected one of aravis:GV01"),
        (
            "aravis:GV01,pixel_format=Mono12Packed",
            "expected one that the camera offers and edgeseg",
        ),
        ("aravis:GV01,exposure_us=1e12", "exposure_us=1000000000000.0: the camera refuses it ("),
        ("aravis:GV01,trigger=hardware", "the camera has no trigger Line1; expected one of Line0"),
        ("aravis:GV01,NoSuch=1", "NoSuch=1: the camera refuses it ("),
    ],
)
def test_what_a_camera_refuses_is_said_in_one_sentence(
    gige: GigeCamera, stop: threading.Event, text: str, message: str
) -> None:
    with pytest.raises(RuntimeFailure) as error:
        opened(text, stop)
    assert str(error.value).startswith(f"{text}: ")
    assert message in str(error.value)
