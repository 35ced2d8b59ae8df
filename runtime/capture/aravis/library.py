"""Bind libaravis 0.8: every function that we call, with its types and the owner of its memory.

Memory, by the rules of GObject:
- `arv_camera_new`, `arv_camera_create_stream` and `arv_buffer_new_allocate` give an object that is
  ours, until `g_object_unref`.
- `arv_stream_push_buffer` takes a buffer from us; `arv_stream_timeout_pop_buffer` gives one back.
  Between the two the library writes to it, and we must not look.
- `arv_buffer_get_data` lends: the bytes are the buffer's, so they are copied before it is pushed.
- texts (`arv_get_device_...`) are the library's, valid until the next list of devices; ctypes
  copies them at once.
- `arv_camera_dup_available_...` gives an array that is ours (`g_free`) of texts that are not.
- a `GError` is ours, until `g_error_free`.
"""

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

from edgeseg.base.errors import EdgesegError

NAMES = ("libaravis-0.8.so.0", "libaravis-0.8.0.dylib")
MISSING = (
    "cameras of GigE Vision and USB3 Vision need libaravis 0.8, which is not installed; "
    "try: sudo apt install libaravis-0.8-0"
)
SUCCESS = 0  # ARV_BUFFER_STATUS_SUCCESS; all others are parts of a frame, or none of it
AUTO_OFF = 0  # ARV_AUTO_OFF
RANGE_CHECK = 1  # ARV_RANGE_CHECK_POLICY_ENABLE: 0, the default, sends what no camera can do

_OBJECT, _ERROR = c_void_p, POINTER(c_void_p)
# name: (result, arguments), as in the headers of 0.8
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "arv_update_device_list": (None, ()),
    "arv_get_n_devices": (c_uint, ()),
    "arv_get_device_id": (c_char_p, (c_uint,)),
    "arv_get_device_vendor": (c_char_p, (c_uint,)),
    "arv_get_device_model": (c_char_p, (c_uint,)),
    "arv_get_device_serial_nbr": (c_char_p, (c_uint,)),
    "arv_get_device_address": (c_char_p, (c_uint,)),
    "arv_get_device_protocol": (c_char_p, (c_uint,)),
    "arv_camera_new": (_OBJECT, (c_char_p, _ERROR)),
    "arv_camera_get_device": (_OBJECT, (_OBJECT,)),  # lent
    "arv_camera_create_stream": (_OBJECT, (_OBJECT, c_void_p, c_void_p, _ERROR)),
    "arv_camera_start_acquisition": (None, (_OBJECT, _ERROR)),
    "arv_camera_stop_acquisition": (None, (_OBJECT, _ERROR)),
    "arv_camera_get_payload": (c_uint, (_OBJECT, _ERROR)),
    "arv_camera_get_integer": (ctypes.c_int64, (_OBJECT, c_char_p, _ERROR)),
    "arv_camera_set_range_check_policy": (None, (_OBJECT, c_int)),
    "arv_camera_is_gv_device": (c_bool, (_OBJECT,)),
    "arv_gv_device_is_controller": (c_bool, (_OBJECT,)),  # as the last heartbeat found
    "arv_camera_gv_set_packet_size": (None, (_OBJECT, c_int, _ERROR)),
    "arv_camera_is_feature_available": (c_bool, (_OBJECT, c_char_p, _ERROR)),
    "arv_camera_is_exposure_auto_available": (c_bool, (_OBJECT, _ERROR)),
    "arv_camera_set_exposure_time_auto": (None, (_OBJECT, c_int, _ERROR)),
    "arv_camera_set_exposure_time": (None, (_OBJECT, c_double, _ERROR)),
    "arv_camera_is_gain_auto_available": (c_bool, (_OBJECT, _ERROR)),
    "arv_camera_set_gain_auto": (None, (_OBJECT, c_int, _ERROR)),
    "arv_camera_set_gain": (None, (_OBJECT, c_double, _ERROR)),
    "arv_camera_is_frame_rate_available": (c_bool, (_OBJECT, _ERROR)),
    "arv_camera_get_frame_rate": (c_double, (_OBJECT, _ERROR)),
    "arv_camera_set_frame_rate": (None, (_OBJECT, c_double, _ERROR)),
    "arv_camera_get_pixel_format_as_string": (c_char_p, (_OBJECT, _ERROR)),
    "arv_camera_set_pixel_format_from_string": (None, (_OBJECT, c_char_p, _ERROR)),
    "arv_camera_dup_available_pixel_formats_as_strings": (
        POINTER(c_char_p),
        (_OBJECT, POINTER(c_uint), _ERROR),
    ),
    "arv_camera_dup_available_trigger_sources": (
        POINTER(c_char_p),
        (_OBJECT, POINTER(c_uint), _ERROR),
    ),
    "arv_camera_clear_triggers": (None, (_OBJECT, _ERROR)),
    "arv_camera_set_trigger": (None, (_OBJECT, c_char_p, _ERROR)),
    "arv_camera_software_trigger": (None, (_OBJECT, _ERROR)),
    "arv_device_set_features_from_string": (c_bool, (_OBJECT, c_char_p, _ERROR)),
    "arv_buffer_new_allocate": (_OBJECT, (c_size_t,)),
    "arv_buffer_get_status": (c_int, (_OBJECT,)),
    "arv_buffer_get_data": (c_void_p, (_OBJECT, POINTER(c_size_t))),
    "arv_buffer_get_image_width": (c_int, (_OBJECT,)),
    "arv_buffer_get_image_height": (c_int, (_OBJECT,)),
    "arv_buffer_get_image_pixel_format": (ctypes.c_uint32, (_OBJECT,)),
    "arv_buffer_get_frame_id": (c_uint64, (_OBJECT,)),
    "arv_buffer_get_timestamp": (c_uint64, (_OBJECT,)),
    "arv_buffer_get_system_timestamp": (c_uint64, (_OBJECT,)),
    "arv_stream_push_buffer": (None, (_OBJECT, _OBJECT)),
    "arv_stream_timeout_pop_buffer": (_OBJECT, (_OBJECT, c_uint64)),
    "arv_stream_get_statistics": (None, (_OBJECT, *(POINTER(c_uint64),) * 3)),
    # of GLib, which libaravis brings
    "g_object_unref": (None, (_OBJECT,)),
    "g_error_free": (None, (c_void_p,)),
    "g_free": (None, (c_void_p,)),
}


class _Error(ctypes.Structure):
    """A GError."""

    _fields_ = (("domain", ctypes.c_uint32), ("code", c_int), ("message", c_char_p))


class CameraRefusal(Exception):
    """A refusal by the library, or by the camera behind it, in its own words."""


@cache
def library() -> Any:
    """Load the shared library and declare every function.

    If it is not installed, the error is not one that a reconnection could cure.
    """
    for name in NAMES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        for function, (result, arguments) in _SIGNATURES.items():
            declared = getattr(found, function)
            declared.restype, declared.argtypes = result, arguments
        return found
    raise EdgesegError(MISSING)


def ask(function: str, *arguments: Any) -> Any:
    """Call a function whose last argument is a GError, and raise that as CameraRefusal."""
    error = c_void_p()
    result = getattr(library(), function)(*arguments, ctypes.byref(error))
    if error:
        message = ctypes.cast(error, POINTER(_Error)).contents.message or b"no reason given"
        text = message.decode("utf-8", "replace")
        library().g_error_free(error)
        raise CameraRefusal(text)
    return result


def texts_of(function: str, camera: c_void_p) -> list[str]:
    """Return the list of an `arv_camera_dup_available_...` function."""
    count = c_uint()
    listed = ask(function, camera, ctypes.byref(count))
    names = [listed[index].decode() for index in range(count.value)]
    library().g_free(listed)
    return names


def lent_bytes(buffer: c_void_p) -> bytes:
    """Copy the bytes of a buffer."""
    size = c_size_t()
    data = library().arv_buffer_get_data(buffer, ctypes.byref(size))
    return ctypes.string_at(data, size.value) if data else b""
