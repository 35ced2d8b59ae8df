"""The options behind `aravis:`: the camera, and its settings."""

from dataclasses import dataclass, fields
from typing import Any, get_args

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.captures import Trigger

_NUMBERS = ("exposure_us", "gain", "fps", "packet_size")


@dataclass(frozen=True, kw_only=True)
class AravisOptions:
    """A camera and its settings; a setting that is not given stays, except the trigger."""

    camera: str = ""  # serial number, address, model or id; "": the first that answers
    exposure_us: float | None = None
    gain: float | None = None  # in the camera's own unit, mostly dB
    fps: float | None = None
    pixel_format: str | None = None  # as GenICam names them: Mono8, BayerRG8 ...
    packet_size: int | None = None  # GigE: bytes; 1400 passes everywhere, 8192 needs jumbo frames
    trigger: Trigger = "off"
    line: str = "Line1"  # of trigger=hardware
    features: str = ""  # any other setting of the camera, by its GenICam name: "ReverseX=true ..."

    def __post_init__(self) -> None:
        if self.trigger not in get_args(Trigger):
            raise UsageError(
                f"aravis: trigger={self.trigger!r}, expected {', '.join(get_args(Trigger))}"
            )
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not (value >= 0 if name == "gain" else value > 0):
                raise UsageError(f"aravis: {name}={value:g}, expected more than 0")

    @classmethod
    def parse(cls, text: str) -> "AravisOptions":
        """Read `aravis:GV01,exposure_us=5000,trigger=software`."""
        camera, *parts = [part.strip() for part in text.partition(":")[2].split(",")]
        if "=" in camera:
            camera, parts = "", [camera, *parts]
        known = [item.name for item in fields(cls) if item.name not in ("camera", "features")]
        values: dict[str, Any] = {}
        features = []
        for part in filter(None, parts):
            key, _, value = part.partition("=")
            if key[:1].isupper() and value:  # GenICam's own names begin so, ours do not
                features.append(part)
            elif key not in known:
                raise UsageError(
                    Setting("source", repr(text)),
                    f": unknown {key!r}, expected {', '.join(known)} or a GenICam name such as "
                    "ReverseX=true",
                )
            else:
                values[key] = _number(text, key, value) if key in _NUMBERS else value
        return cls(camera=camera, features=" ".join(features), **values)


def _number(text: str, key: str, value: str) -> float:
    try:
        return int(value) if key == "packet_size" else float(value)
    except ValueError:
        raise UsageError(
            Setting("source", repr(text)), f": {key}={value!r} is not a number"
        ) from None
