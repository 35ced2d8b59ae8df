"""Discover the cameras that answer, and find those that a text names."""

from dataclasses import dataclass
from typing import Any

from edgeseg.runtime.capture.aravis.library import library


@dataclass(frozen=True, kw_only=True)
class FoundCamera:
    """A camera that answers."""

    id: str  # what the library opens it by
    vendor: str
    model: str
    serial: str
    address: str  # of a GigE camera its IP address, of a USB one its place on the bus
    protocol: str  # GigEVision or USB3Vision

    @property
    def source(self) -> str:
        """The text for --source."""
        return f"aravis:{self.serial or self.id}"


def discover() -> list[FoundCamera]:
    """List the cameras on the network and on USB; takes about a second."""
    arv = library()
    arv.arv_update_device_list()
    return [_device(arv, index) for index in range(arv.arv_get_n_devices())]


def _device(arv: Any, index: int) -> FoundCamera:
    def text(name: str) -> str:
        value: bytes | None = getattr(arv, f"arv_get_device_{name}")(index)
        return (value or b"").decode("utf-8", "replace")

    return FoundCamera(
        id=text("id"),
        vendor=text("vendor"),
        model=text("model"),
        serial=text("serial_nbr"),
        address=text("address"),
        protocol=text("protocol"),
    )


def cameras_named(name: str, cameras: list[FoundCamera]) -> list[FoundCamera]:
    """Return the cameras with that serial number, address, model or id; all without a name."""
    if not name:
        return cameras
    return [camera for camera in cameras if name in (camera.serial, camera.address, camera.id)] or [
        camera for camera in cameras if name in (camera.model, f"{camera.vendor} {camera.model}")
    ]
