"""A recipe: one product, its model and its settings.

bottle/recipe.toml           this file's settings, written by hand or by `edgeseg recipe new`
bottle/model.onnx, .json     the model and its sidecar; or model.plan
bottle/golden/good, bad      pictures that must get their verdicts; master: the live master part
bottle/golden/expected.json  the scores that were approved
bottle/checks, versions      results of checks, and earlier models
"""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import Malformed, record
from edgeseg.base.toml_file import parse_toml
from edgeseg.decision.threshold_bounds import check_threshold
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.modelfile.signature import RECIPE, Statement, TrustedFiles, trusted_files
from edgeseg.modelfile.versions import settle
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.vision.geometry import Roi

FILE = RECIPE
APPROVAL = "golden/expected.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # fit for folders, topics and logs


@dataclass(frozen=True, kw_only=True)
class RecipeRegion:
    """The region that is inspected; a region that is fitted into the model is not set here."""

    roi: str | None = None
    tile_overlap: float | None = None  # share of a tile; None: as the model was fitted

    def __post_init__(self) -> None:
        if self.roi is not None:
            Roi.parse(self.roi)
        if self.tile_overlap is not None and not 0 <= self.tile_overlap < 1:
            raise UsageError(
                Setting("tile_overlap", self.tile_overlap), ": expected 0 or more, below 1"
            )


@dataclass(frozen=True, kw_only=True)
class DecisionSettings:
    """Settings that decide whether a part is bad."""

    threshold: float | None = None  # None: the one that is stored with the model
    debounce: str = "1/1"
    min_area: float = 0.0  # pixels of the camera: smaller regions do not decide

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        Debounce.parse(self.debounce)
        if not 0 <= self.min_area < math.inf:
            raise UsageError(
                Setting("min_area", self.min_area), ": expected 0 or more pixels of the camera"
            )


@dataclass(frozen=True, kw_only=True)
class GoldenBounds:
    """Limits on how far a station may be from its approval."""

    at_start: bool = False  # check before the first part, at every start and changeover
    score_tolerance: float = 0.01  # of a golden picture's score, as a share of the threshold
    repeats: int = 3
    repeat_tolerance: float = 0.001  # between repeats, as a share of the threshold
    # Of a live master part, by the drift watch's own measures.
    light: float = 0.15  # logarithm of the brightness
    focus: float = 0.30  # loss of the logarithm of the sharpness
    shift: float = 0.01  # share of the frame
    turn: float = 1.0  # degrees
    master_tolerance: float = 0.1  # of its score, as a share of the threshold
    master_frames: int = 8
    master_on_request: bool = False  # it lies before the camera when a stream is asked to check
    master_at_start: bool = False  # and at every start and changeover: nothing is good before

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool):
                continue
            least = 1 if item.name in ("repeats", "master_frames") else 0
            if not least <= value < math.inf:
                raise UsageError(Setting(item.name, value), f": expected at least {least}")

    @property
    def needs_master(self) -> bool:
        """Whether a check of a running stream includes the master part."""
        return self.master_on_request or self.master_at_start


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The contents of recipe.toml."""

    number: int  # by which a PLC loads it
    model: str = "model.onnx"
    region: RecipeRegion = field(default_factory=RecipeRegion)
    operating_point: DecisionSettings = field(default_factory=DecisionSettings)
    golden: GoldenBounds = field(default_factory=GoldenBounds)

    def __post_init__(self) -> None:
        if not 1 <= self.number < 2**16:
            raise UsageError(Setting("number", self.number), ": expected 1 to 65535")
        path = Path(self.model)
        if path.name != self.model or path.suffix not in MODEL_SUFFIXES:
            raise UsageError(
                Setting("model", repr(self.model)),
                ": expected the name of a .onnx or .plan file in the folder",
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe that was read from its folder."""

    folder: Path
    settings: Settings
    files: Files = DISK  # how all in it is read: where keys are trusted, only as it was signed

    @property
    def statement(self) -> Statement | None:
        """The signed statement on it, where keys are trusted."""
        return self.files.statement if isinstance(self.files, TrustedFiles) else None

    @property
    def name(self) -> str:
        """The name for people."""
        return self.folder.name

    @property
    def model(self) -> Path:
        """The model file that runs."""
        return self.folder / self.settings.model

    @property
    def golden(self) -> Path:
        """The folder of golden pictures and their approval."""
        return self.folder / "golden"

    def scorer_config(self) -> ScorerConfig:
        """Return the settings for cutting and judging its frames."""
        region, decision = self.settings.region, self.settings.operating_point
        return ScorerConfig(
            roi=None if region.roi is None else Roi.parse(region.roi),
            tile_overlap=region.tile_overlap,
            threshold=decision.threshold,
            debounce=Debounce.parse(decision.debounce),
            min_area=decision.min_area,
            recipe=self.name,
        )


def read_recipe(folder: Path, *, trust: Sequence[Path] = ()) -> Recipe:
    """Read a recipe's folder and check it as a whole; with keys, refuse what none has signed."""
    folder = Path(folder)
    folder = folder if folder.name else folder.resolve()
    check_name(folder.name)
    with suppress(OSError):  # cannot be written: then files are read out of the change
        settle(folder)
    return recipe_of(folder, trusted_files(folder, trust) if trust else DISK)


def recipe_of(folder: Path, files: Files) -> Recipe:
    """Read a recipe from these files."""
    file = folder / FILE
    if not files.is_file(file):
        raise UsageError(
            f"{folder}: no {FILE} in it, so it is no recipe; make one with `edgeseg recipe new`"
        )
    try:
        with files.open(file) as opened:
            values = parse_toml(opened, name=file)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error})") from None
    try:
        settings = record(Settings, values)
    except (Malformed, UsageError) as error:
        raise UsageError(f"{file}: {error}") from None
    return Recipe(folder=folder, settings=settings, files=files)


def check_name(name: str) -> None:
    """Refuse a name that adapters and logs cannot carry."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"recipe {name!r}: expected letters, digits, dots, dashes and underscores, 64 at most"
        )
    if name.isdecimal():
        raise UsageError(
            f"recipe {name!r}: a name of digits alone would be taken for a number; put a letter "
            "into it, and give the number with number= in recipe.toml"
        )


def settings_text(settings: Settings) -> str:
    """Write a recipe.toml with every setting and its meaning, to be edited."""
    region, decision, golden = settings.region, settings.operating_point, settings.golden
    lines = [
        _line("number", settings.number, "by which a PLC loads it"),
        _line("model", settings.model),
        "\n[region]",
        _line("roi", region.roi, "x,y,w,h in pixels; left out: all of the frame", "0,0,640,480"),
        _line("tile_overlap", region.tile_overlap, "of a tile; left out: as it was fitted", 0.25),
        "\n[operating_point]",
        _line("threshold", decision.threshold, "left out: as stored with the model", 1.0),
        _line("debounce", decision.debounce, "alarm when K of the last N frames are not good"),
        _line("min_area", decision.min_area, "pixels of the camera: smaller regions do not decide"),
        "\n[golden]",
        _line("at_start", golden.at_start, "check at every start and changeover"),
        _line("score_tolerance", golden.score_tolerance, "as a share of the threshold"),
        _line("repeats", golden.repeats),
        _line("repeat_tolerance", golden.repeat_tolerance, "as a share of the threshold"),
        _line("light", golden.light, "of a master part: logarithm of its brightness"),
        _line("focus", golden.focus, "loss of the logarithm of its sharpness"),
        _line("shift", golden.shift, "share of the frame"),
        _line("turn", golden.turn, "degrees"),
        _line("master_tolerance", golden.master_tolerance, "as a share of the threshold"),
        _line("master_frames", golden.master_frames),
        _line("master_on_request", golden.master_on_request, "it is there when a PLC asks"),
        _line("master_at_start", golden.master_at_start, "and before the first part is inspected"),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object, meaning: str = "", example: object = None) -> str:
    """Format a setting as TOML, which equals JSON here; None becomes an example in a comment."""
    given = json.dumps(example if value is None else value)
    return f"{'# ' if value is None else ''}{name} = {given}{f'  # {meaning}' if meaning else ''}"
