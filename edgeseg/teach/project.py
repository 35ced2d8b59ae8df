"""A project: one folder of plain files, from the first good picture to the recipe that runs.

line3/project.toml          source, backbone, region and rate; made here, and edited by hand
line3/good, bad, removed    pictures to fit on, known bad parts, and what was taken out
line3/missed.marked         defects that passed, as people marked them; they wait to be learned
line3/missed                those that every fit learns from
line3/alarms, feedback      what the station stopped, and what people said of it
line3/fit                   the last fit that ended well: part.edgeseg, model.onnx, report, maps
line3/recipes/line3         what runs, with its golden pictures and the versions of before
line3/history.jsonl         fits, thresholds, learnings and rollbacks, a line each
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_text
from edgeseg.base.messages import Message, Setting
from edgeseg.base.plain import Malformed, parse_object, record
from edgeseg.base.toml_file import read_toml
from edgeseg.base.utc import utc_time
from edgeseg.config import FitConfig
from edgeseg.decision.kinds import Severity
from edgeseg.decision.lost_defects import MAY_LOSE, check_may_lose
from edgeseg.decision.operating_point import check_rate
from edgeseg.runtime.recipes.recipe import check_name
from edgeseg.vision.anchor import check_locate
from edgeseg.vision.geometry import Geometry, Polygon, Roi

Kind = Literal["good", "bad", "removed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Box = tuple[int, int, int, int]  # x, y, w, h in pixels of the camera
FILE = "project.toml"
# A picture's name is the name of a file in its folder and nothing else, hidden ones included.
_PICTURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class RegionSettings:
    """The region of a project, in pixels of the camera's picture."""

    roi: str = ""  # x,y,w,h; empty: all of it
    ignore: tuple[Polygon, ...] = ()
    locate: str = ""  # blob, or anchor:x,y,w,h; empty: parts lie alike
    drawn_on: str = ""  # the picture whose part all of it goes with; empty: the first good one
    smallest: int = 0  # side of the smallest defect that matters; 0: not said

    def __post_init__(self) -> None:
        check_locate(self.locate)
        if self.smallest < 0 or self.smallest == 1:
            raise UsageError(
                Setting("smallest", self.smallest),
                ": expected 2 or more pixels of the camera, or 0 where nobody knows",
            )
        if self.drawn_on:
            check_picture_name(self.drawn_on)
        self.geometry()

    def geometry(self) -> Geometry:
        """Make the geometry that a fit takes."""
        roi = Roi.parse(self.roi) if self.roi else None
        return Geometry(roi=roi, ignore=self.ignore, locate=self.locate)

    @classmethod
    def from_page(cls, region: Any) -> "RegionSettings":
        """Read a page's region: {"roi": [x, y, w, h] or null, "ignore", "locate", "drawn_on"}."""
        try:
            roi, locate = region.get("roi"), region.get("locate") or "none"
            box = "" if roi is None else ",".join(str(round(float(part))) for part in roi)
            ignore = region.get("ignore") or []
            values = {"roi": box, "ignore": ignore, "locate": "" if locate == "none" else locate}
            named = {"drawn_on": region.get("drawn_on") or ""}
            return record(cls, {**values, **named, "smallest": region.get("smallest") or 0})
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"region: {error}") from None

    def with_ignored(self, places: Sequence[Polygon]) -> "RegionSettings":
        """Return the region with these places ignored too."""
        return replace(self, ignore=tuple(dict.fromkeys((*self.ignore, *places))))

    def without_ignored(self, places: Sequence[Polygon]) -> "RegionSettings":
        """Return the region with these places seen again."""
        return replace(self, ignore=tuple(each for each in self.ignore if each not in places))

    def facts(self) -> dict[str, Any]:
        """Facts of the region for a page."""
        return {
            "roi": [int(part) for part in self.roi.split(",")] if self.roi else None,
            "ignore": [[list(corner) for corner in polygon] for polygon in self.ignore],
            "locate": self.locate or "none",
            "drawn_on": self.drawn_on,
            "smallest": self.smallest,
        }


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings in project.toml."""

    source: str = ""  # as `edgeseg stream --source` takes it; empty: pictures are uploaded
    trigger: str = "free"  # what makes a frame a part, as of `edgeseg stream --trigger`
    backbone: str = FitConfig.backbone
    graph: str = ""  # of `edgeseg export-backbone`; empty: the one that comes with edgeseg
    rate: float = FitConfig.false_alarm_rate
    may_lose: float = MAY_LOSE  # share of planted defects that one person may lose by learning
    severity: dict[str, Severity] = field(default_factory=dict)  # of kinds of missed defects
    region: RegionSettings = field(default_factory=RegionSettings)

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_may_lose(self.may_lose)
        if self.trigger not in ("free", "part", "hardware"):
            raise UsageError(
                Setting("trigger", repr(self.trigger)), ": expected free, part or hardware"
            )

    def config(self) -> FitConfig:
        """Make the settings of a fit."""
        return FitConfig(
            backbone=self.backbone,
            false_alarm_rate=self.rate,
            geometry=self.region.geometry(),
        )


class Project:
    """The folder of a project; all its paths lie inside."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.name = self.folder.resolve().name
        check_name(self.name)  # it names the recipe too
        self._writing = threading.Lock()
        self._read: tuple[tuple[int, ...], list[dict[str, Any]]] = ((), [])

    @classmethod
    def open(cls, folder: Path) -> "Project":
        """Open a project that exists."""
        project = cls(folder)
        if not (project.folder / FILE).is_file():
            raise UsageError(
                f"{folder}: no {FILE} in it, so it is no project; begin one with "
                f"`edgeseg teach {folder} --good PHOTOS`"
            )
        project.settings()
        return project

    @classmethod
    def open_or_create(cls, folder: Path) -> "Project":
        """Open a project, or create one in an empty or missing folder."""
        project = cls(folder)
        if (project.folder / FILE).is_file():
            return cls.open(folder)
        if project.folder.exists() and (
            not project.folder.is_dir() or any(project.folder.iterdir())
        ):
            raise UsageError(
                f"{folder}: is there, and no project (no {FILE}); expected a new name or an empty "
                "folder"
            )
        for kind in KINDS:
            project.pictures(kind).mkdir(parents=True)
        project.store(ProjectSettings())
        return project

    def settings(self) -> ProjectSettings:
        """Read project.toml, every time: people may edit the file."""
        file = self.folder / FILE
        values = read_toml(file)
        try:
            return record(ProjectSettings, values)
        except Malformed as error:
            raise UsageError(f"{file}: {error}") from None

    def store(self, settings: ProjectSettings) -> None:
        """Write project.toml."""
        write_text(self.folder / FILE, settings_text(settings))

    def change(self, make: Callable[[ProjectSettings], ProjectSettings]) -> None:
        """Replace the settings by what `make` returns; one thread at a time."""
        with self._writing:
            settings = self.settings()
            changed = make(settings)
            if changed != settings:
                self.store(changed)

    def pictures(self, kind: Kind) -> Path:
        """Folder of one kind of pictures."""
        if kind not in KINDS:
            raise UsageError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
        return self.folder / kind

    def picture(self, kind: Kind, name: str) -> Path:
        """Path of a picture that exists, by the name of its file."""
        path = self.pictures(kind) / check_picture_name(name)
        if path.is_symlink() or not path.is_file():
            raise UsageError(Message("picture_missing", name=name, folder=f"{kind}/"))
        return path

    @property
    def alarms(self) -> Path:
        """Folder of alarms, a picture and its facts each."""
        return self.folder / "alarms"

    @property
    def feedback(self) -> Path:
        """Folder of marked alarms, in quarantine."""
        return self.folder / "feedback"

    @property
    def fit(self) -> Path:
        """Folder of the last fit that ended well."""
        return self.folder / "fit"

    @property
    def recipes(self) -> Path:
        """Folder of recipes, for `edgeseg stream --recipes`."""
        return self.folder / "recipes"

    @property
    def recipe(self) -> Path:
        """Folder of the recipe that runs."""
        return self.recipes / self.name

    def log(self, event: str, **facts: Any) -> None:
        """Write a history line of an event that happens now."""
        self.write_line(history_line(event, **facts))

    def write_line(self, line: dict[str, Any]) -> None:
        """Write a history line that was made before."""
        text = json.dumps(line, sort_keys=True, allow_nan=False) + "\n"
        path = self.folder / "history.jsonl"
        with self._writing, path.open("ab+") as file:
            if file.tell() and path.read_bytes()[-1:] != b"\n":
                file.write(b"\n")  # behind what a power cut left
            file.write(text.encode())

    def history(self) -> list[dict[str, Any]]:
        """Read all history lines, the oldest first; a line cut by a power failure is left out."""
        path = self.folder / "history.jsonl"
        try:
            status = path.stat()
        except OSError:
            return []
        key = (status.st_size, status.st_mtime_ns, status.st_ino)  # lines are only added
        if self._read[0] != key:
            self._read = key, list(_lines(path))
        return list(self._read[1])


def corners(box: Box) -> Polygon:
    """Corners of a box as a polygon."""
    x, y, w, h = (float(value) for value in box)
    return (x, y), (x + w, y), (x + w, y + h), (x, y + h)


def history_line(event: str, **facts: Any) -> dict[str, Any]:
    """Return a line of the history, dated now, as JSON can carry it."""
    plain = {
        name: fact.to_json() if isinstance(fact, Message) else fact for name, fact in facts.items()
    }
    return {"event": event, "when": utc_time(), **plain}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield parse_object(line)
        except Malformed:
            continue


def is_picture_name(name: str) -> bool:
    """Tell whether a name is that of a file alone: a path would leave the project."""
    return isinstance(name, str) and _PICTURE.fullmatch(name) is not None


def check_picture_name(name: str) -> str:
    """Refuse a name that is not that of a picture file."""
    if not is_picture_name(name):
        raise UsageError(Message("picture_name", name=repr(str(name)[:100])))
    return name


def settings_text(settings: ProjectSettings) -> str:
    """Write the text of project.toml with every setting and its meaning."""
    region = settings.region
    lines = [
        _line("source", settings.source, "camera, folder or address, as of edgeseg stream"),
        _line("trigger", settings.trigger, "free, part or hardware, as of edgeseg stream"),
        _line("backbone", settings.backbone),
        _line("graph", settings.graph, "file of edgeseg export-backbone; empty: the one at hand"),
        _line("rate", settings.rate, "false alarms, as a share of good parts"),
        _line("may_lose", settings.may_lose, "share of found defects; more asks a second person"),
        _line("severity", settings.severity, 'of kinds: {scratch = "minor"}, or major'),
        "\n[region]",
        _line("roi", region.roi, "x,y,w,h in pixels of the camera; empty: all of it"),
        _line("locate", region.locate, "blob or anchor:x,y,w,h; empty: parts lie alike"),
        _line("ignore", region.ignore, "polygons [[x, y], ...] of what does not matter"),
        _line("drawn_on", region.drawn_on, "picture of good/ or removed/; empty: the first good"),
        _line("smallest", region.smallest, "side of the smallest defect in pixels; 0: not said"),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object, meaning: str = "") -> str:
    """Write a setting as TOML, which writes these values as JSON does, named ones excepted."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        inside = (
            f"{json.dumps(key, ensure_ascii=False)} = {json.dumps(value[key])}" for key in value
        )
        text = f"{{{', '.join(inside)}}}"
    return f"{name} = {text}{f'  # {meaning}' if meaning else ''}"
