"""`edgeseg cameras`: what there is to look with, and how a source is written for it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.base.options import json_option, note
from edgeseg.base.tables import align_columns

_HEAD = ("source", "vendor", "model", "serial", "address")
_V4L = Path("/sys/class/video4linux")


@dataclass(frozen=True, kw_only=True)
class CameraRow:
    """One line of the list."""

    source: str  # for --source
    vendor: str = ""
    model: str = ""
    serial: str = ""
    address: str = ""


def plugged_in(devices: Path = _V4L) -> list[CameraRow]:
    """What Linux itself sees as video devices."""
    if not devices.is_dir():
        return []
    return [
        CameraRow(source=f"/dev/{path.name}", model=(path / "name").read_text().strip())
        for path in sorted(devices.iterdir())
        if (path / "name").is_file()
    ]


def answering() -> list[CameraRow]:
    """GigE and USB3 Vision cameras; an EdgesegError without the library for them."""
    from edgeseg.runtime.capture.aravis.discovery import discover

    return [
        CameraRow(
            source=camera.source,
            vendor=camera.vendor,
            model=camera.model,
            serial=camera.serial,
            address=camera.address,
        )
        for camera in discover()
    ]


@click.command()
@json_option
def cameras(as_json: bool) -> None:
    """List the cameras of this computer and of its network, by what --source calls them.

    \b
    edgeseg cameras
    edgeseg stream --model part.onnx --source aravis:GV01
    """
    rows = plugged_in()
    try:
        rows += answering()
    except EdgesegError as error:
        note(str(error))
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        click.echo(
            "\n".join(align_columns([_HEAD, *(tuple(asdict(row).values()) for row in rows)]))
        )
    else:
        note("no camera found; try --source synthetic: for a made-up one")
