"""Read one open camera of GigE Vision or USB3 Vision.

    text --AravisOptions--> discover, open, set --> stream of buffers --read--> Grab

The library fills a few buffers in its own thread. A frame is copied out and its buffer is given
back. A buffer that lacks a packet is a lost frame, never a picture.
"""

import ctypes
import threading
import time
from contextlib import suppress
from ctypes import c_uint64, c_void_p

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.aravis.discovery import cameras_named, discover
from edgeseg.runtime.capture.aravis.library import (
    AUTO_OFF,
    RANGE_CHECK,
    SUCCESS,
    CameraRefusal,
    ask,
    lent_bytes,
    library,
    texts_of,
)
from edgeseg.runtime.capture.aravis.pixels import FORMATS, NAMES, picture
from edgeseg.runtime.capture.aravis.settings import AravisOptions
from edgeseg.runtime.capture.captures import Grab, Wait
from edgeseg.runtime.capture.frame_buffer import INCOMPLETE, UNDERRUN, UNREADABLE
from edgeseg.runtime.capture.liveness import Arrival, ReadClock
from edgeseg.runtime.capture.stream_clock import StreamClock
from edgeseg.vision.frames import Channels

_BUFFERS = 8  # frames that the library may hold while the reader waits for room
_POP_S = 0.1  # how soon the end of the run is noticed
_ASK_S = 1.0  # of silence, after which the camera is asked whether it is there


def open_camera(text: str, *, wait: Wait, timeout_s: float) -> "AravisCamera":
    """Open and configure a camera; RuntimeFailure says what it refused."""
    options = AravisOptions.parse(text)
    try:
        camera = c_void_p(ask("arv_camera_new", _id(options.camera).encode()))
        try:
            _configure(camera, options)
            return AravisCamera(camera, options, wait=wait, timeout_s=timeout_s)
        except (CameraRefusal, RuntimeFailure):
            library().g_object_unref(camera)
            raise
    except (CameraRefusal, RuntimeFailure) as error:
        raise RuntimeFailure(f"{text}: {error}") from None


def _id(name: str) -> str:
    """Return the id that the library opens; an unknown name may still be an address."""
    answering = discover()
    cameras = cameras_named(name, answering)
    if len(cameras) > 1 and name:
        listed = ", ".join(camera.source for camera in cameras)
        raise RuntimeFailure(f"{len(cameras)} cameras are called so; try one of {listed}")
    if cameras:
        return cameras[0].id
    if name.count(".") == 3:  # beyond the router, where no broadcast gets
        return name
    if not answering:
        raise RuntimeFailure("no camera answers; look at cable, power and subnet")
    listed = ", ".join(camera.source for camera in answering)
    raise RuntimeFailure(f"no camera of that name answers; expected one of {listed}")


def _configure(camera: c_void_p, options: AravisOptions) -> None:
    library().arv_camera_set_range_check_policy(camera, RANGE_CHECK)
    if options.packet_size is not None:
        if not library().arv_camera_is_gv_device(camera):
            raise RuntimeFailure(
                f"packet_size={options.packet_size}: is for GigE cameras; leave it out"
            )
        _set("packet_size", "arv_camera_gv_set_packet_size", camera, options.packet_size)
    if options.features:
        device = library().arv_camera_get_device(camera)
        _set(options.features, "arv_device_set_features_from_string", device, options.features)
    _choose_pixels(camera, options.pixel_format)
    if options.exposure_us is not None:
        if ask("arv_camera_is_exposure_auto_available", camera):
            ask("arv_camera_set_exposure_time_auto", camera, AUTO_OFF)
        _set("exposure_us", "arv_camera_set_exposure_time", camera, options.exposure_us)
    if options.gain is not None:
        if ask("arv_camera_is_gain_auto_available", camera):
            ask("arv_camera_set_gain_auto", camera, AUTO_OFF)
        _set("gain", "arv_camera_set_gain", camera, options.gain)
    _choose_trigger(camera, options)
    if options.fps is not None:  # after the trigger, which some cameras let limit the rate
        _set("fps", "arv_camera_set_frame_rate", camera, options.fps)


def _set(setting: str, function: str, target: c_void_p, value: float | str) -> None:
    given = value.encode() if isinstance(value, str) else value
    try:
        ask(function, target, given)
    except CameraRefusal as error:
        what = setting if "=" in setting else f"{setting}={value}"
        raise RuntimeFailure(f"{what}: the camera refuses it ({error})") from None


def _choose_pixels(camera: c_void_p, wanted: str | None) -> None:
    offered = texts_of("arv_camera_dup_available_pixel_formats_as_strings", camera)
    usable = [name for name in offered if name in NAMES]
    if wanted is not None and wanted not in usable:
        raise RuntimeFailure(
            f"pixel_format={wanted}: expected one that the camera offers and edgeseg reads: "
            f"{', '.join(usable) or 'there is none'}"
        )
    if wanted is not None:
        ask("arv_camera_set_pixel_format_from_string", camera, wanted.encode())
        return
    present = ask("arv_camera_get_pixel_format_as_string", camera).decode()
    if present not in NAMES:
        raise RuntimeFailure(
            f"the camera is set to {present}, which edgeseg does not read; "
            f"try pixel_format={(usable or ['Mono8'])[0]}"
        )


def _choose_trigger(camera: c_void_p, options: AravisOptions) -> None:
    if not ask("arv_camera_is_feature_available", camera, b"TriggerMode"):
        if options.trigger != "off":
            raise RuntimeFailure(f"trigger={options.trigger}: the camera has no trigger")
        return
    ask("arv_camera_clear_triggers", camera)  # one that a former user left would hold frames back
    if options.trigger != "off":
        source = "Software" if options.trigger == "software" else options.line
        offered = texts_of("arv_camera_dup_available_trigger_sources", camera)
        if source not in offered:
            raise RuntimeFailure(
                f"the camera has no trigger {source}; expected one of {', '.join(offered)}"
            )
        ask("arv_camera_set_trigger", camera, source.encode())


class AravisCamera:
    """An open camera, reserved for us until close."""

    def __init__(
        self, camera: c_void_p, options: AravisOptions, *, wait: Wait, timeout_s: float
    ) -> None:
        self._camera: c_void_p | None = camera
        self._triggered = options.trigger != "off"
        self._by_software = options.trigger == "software"
        self._wait, self._timeout_s = wait, timeout_s
        self._using = threading.Lock()  # fire() comes from another thread than close()
        self._lost_frames = 0
        self._gone = False
        self.fps = 0.0
        if not self._triggered and ask("arv_camera_is_frame_rate_available", camera):
            self.fps = max(0.0, float(ask("arv_camera_get_frame_rate", camera)))
        self._stream = c_void_p(ask("arv_camera_create_stream", camera, None, None))
        size = ask("arv_camera_get_payload", camera)
        for _ in range(_BUFFERS):
            library().arv_stream_push_buffer(self._stream, library().arv_buffer_new_allocate(size))
        self._opened_s = time.monotonic()
        # Who triggers a camera wants its first frame too, and nothing waits when it is opened.
        settle = {"settle": 0} if self._triggered else {}
        self._clock = StreamClock(self._opened_s, patience_s=timeout_s, **settle)
        try:
            ask("arv_camera_start_acquisition", camera)
        except CameraRefusal:
            library().g_object_unref(self._stream)
            raise

    def read(self) -> Grab | None:
        """Return the next frame; None at the end of the run, or when it is silent for too long."""
        quiet_since_s = asked_s = time.monotonic()
        reading = ReadClock()
        while not self._wait(0):
            buffer = library().arv_stream_timeout_pop_buffer(self._stream, int(_POP_S * 1e6))
            if buffer:
                return self._grab(c_void_p(buffer), reading.arrival())
            if self._underrun():
                return Grab(None, "bgr", time.monotonic_ns(), time.time(), lost=UNDERRUN)
            now_s = time.monotonic()
            if not self._triggered and now_s - quiet_since_s > self._timeout_s:
                return None
            if now_s - asked_s > _ASK_S:
                self._gone = not self._answers()
                if self._gone:
                    raise RuntimeFailure("the camera does not answer any more")
                asked_s = time.monotonic()
        return None

    def _grab(self, buffer: c_void_p, arrival: Arrival) -> Grab:
        arv = library()
        try:
            frame_id = int(arv.arv_buffer_get_frame_id(buffer))
            camera_ns = int(arv.arv_buffer_get_timestamp(buffer))
            system_ns = int(arv.arv_buffer_get_system_timestamp(buffer))
            grabbed_ns, wall_s = arrival.stamps(
                self._earliest_exposure_s(arrival, camera_ns, system_ns)
            )
            image_hwc, lost = None, INCOMPLETE
            channels: Channels = "bgr"
            if arv.arv_buffer_get_status(buffer) == SUCCESS:
                lost = UNREADABLE
                pixel = FORMATS.get(arv.arv_buffer_get_image_pixel_format(buffer))
                if pixel is not None:
                    height = arv.arv_buffer_get_image_height(buffer)
                    width = arv.arv_buffer_get_image_width(buffer)
                    image_hwc = picture(lent_bytes(buffer), (height, width), pixel)
                    channels = pixel.channels
        finally:
            arv.arv_stream_push_buffer(self._stream, buffer)
        return Grab(
            image_hwc,
            channels,
            grabbed_ns,
            wall_s,
            frame_id=frame_id,
            camera_ns=camera_ns,
            lost=lost,
        )

    def _earliest_exposure_s(self, arrival: Arrival, camera_ns: int, system_ns: int) -> float:
        """Return the earliest time of exposure, by the camera's clock and by the first packet.

        The library cannot see what waits for it while this process is stopped. A camera may have no
        clock.
        """
        waited_s = arrival.wall_s - system_ns / 1e9 if system_ns else 0.0
        # A clock that is set meanwhile must not make frames from before the camera was opened.
        packet_s = arrival.now_s - min(max(waited_s, 0.0), arrival.now_s - self._opened_s)
        clock_s = self._clock.earliest_exposure_s(arrival, camera_ns / 1e9)
        return packet_s if clock_s is None else min(packet_s, clock_s)

    def _underrun(self) -> bool:
        """Whether one more frame found no free buffer; each is reported once."""
        completed, failures, underruns = c_uint64(), c_uint64(), c_uint64()
        library().arv_stream_get_statistics(
            self._stream,
            ctypes.byref(completed),
            ctypes.byref(failures),
            ctypes.byref(underruns),
        )
        if underruns.value <= self._lost_frames:
            return False
        self._lost_frames += 1
        return True

    def _answers(self) -> bool:
        """Whether the camera answers; GigE has a heartbeat, a USB camera is asked."""
        if library().arv_camera_is_gv_device(self._camera):
            device = library().arv_camera_get_device(self._camera)
            return bool(library().arv_gv_device_is_controller(device))
        try:
            ask("arv_camera_get_integer", self._camera, b"Width")
        except CameraRefusal:
            return False
        return True

    def fire(self) -> None:
        """Trigger one frame by software."""
        if not self._by_software:
            raise RuntimeFailure("the camera is not set to trigger=software")
        with self._using:
            if self._camera is None:
                raise RuntimeFailure("the camera was closed, so nothing was triggered")
            try:
                ask("arv_camera_software_trigger", self._camera)
            except CameraRefusal as error:
                raise RuntimeFailure(f"the camera refuses a trigger ({error})") from None

    def close(self) -> None:
        """Stop the camera and release it for others."""
        with self._using:
            camera, self._camera = self._camera, None
        if camera is None:
            return
        if not self._gone:  # otherwise the library waits seconds for each answer
            with suppress(CameraRefusal):
                ask("arv_camera_stop_acquisition", camera)
        library().g_object_unref(self._stream)
        library().g_object_unref(camera)
