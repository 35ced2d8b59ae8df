"""`edgeseg predict`: verdicts on pictures, as lines, as a table and as drawings."""

import csv
import io
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.files import check_writable, write_text
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE, FOLDER, PATH, listeners, quiet_option, was_typed
from edgeseg.base.plain import finite
from edgeseg.base.progress import Note
from edgeseg.cli.data_options import max_pixels_option
from edgeseg.cli.needs import FITTING, check_needs
from edgeseg.decision.doubt import Doubt
from edgeseg.decision.judgement import (
    JudgedPart,
    JudgedPrediction,
    is_alarming,
    parts_facts,
    verdicts_in_words,
)
from edgeseg.decision.prediction import Region
from edgeseg.modelfile.header import read_config
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.modelfile.signature import admit
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.scoring.detector import open_detector
from edgeseg.runtime.settings.opening_options import opening_options
from edgeseg.vision.images import (
    pictures_below,
    read_image,
    read_with_bits,
    resize_image,
    write_image,
)
from edgeseg.vision.picture_kinds import Colour, PictureKinds, is_grey
from edgeseg.vision.picture_names import PictureNames
from edgeseg.vision.unreadable import unreadable_error

OPTIONAL = ("variant", "parts", "kind", "why")  # columns where a picture has them
COLUMNS = ("path", "score", "threshold", "p_value", "verdict", "regions", "error")


class Judge(Protocol):
    """A model that scores pictures, fitted or exported."""

    @property
    def fitted_colour(self) -> Colour | None:
        """Colour of the pictures that it was fitted on."""
        ...

    def predict(self, frame_hwc: NDArray[np.uint8]) -> JudgedPrediction:
        """Score one frame of any size."""
        ...


@dataclass(frozen=True, kw_only=True)
class PredictionRow:
    """Result of one picture."""

    path: Path
    verdict: str
    score: float | None = None  # None: it could not be read, or the score is no number
    threshold: float | None = None
    p_value: float | None = None
    oddness: str | None = None  # the same in words
    regions: tuple[Region, ...] = ()
    picture: Path | None = None
    error: str | None = None  # why it could not be read
    doubt: Doubt | None = None  # why it is invalid or not_found
    variant: str | None = None  # of the product; None: the model has one product
    parts: tuple[JudgedPart, ...] = ()  # of a picture of several

    @classmethod
    def of(cls, path: Path, result: JudgedPrediction, *, picture: Path | None) -> "PredictionRow":
        """Make the row of a prediction."""
        return cls(
            path=path,
            verdict=result.verdict,
            score=finite(result.score),
            threshold=result.threshold,
            p_value=result.p_value,
            oddness=result.oddness,
            regions=result.regions,
            picture=picture,
            doubt=result.doubt,
            variant=result.variant,
            parts=result.parts,
        )

    @property
    def rank(self) -> float:
        """Score to sort by; a picture without a score comes first."""
        return math.inf if self.score is None else self.score

    def text(self) -> str:
        """Return one line of text for people."""
        if self.error is not None:
            return f"{self.path}: invalid ({self.error})"
        score = "no number" if self.score is None else f"{self.score:.3f}"
        why = "" if self.doubt is None else f" ({self.doubt})"
        odd = "" if self.oddness is None else f", {self.oddness}"
        named = "" if self.variant is None else f"{self.variant}, "
        verdict = f"{named}{self.verdict}{why}{self._counted}"
        told = None if self.verdict == "good" or not self.regions else self.regions[0].explanation
        line = f"{self.path}: {verdict}, {score}{odd} (threshold {self.threshold:.3f})"
        return f"{line}: {told}" if told else line

    @property
    def _counted(self) -> str:
        """What the parts of the picture are, where it shows several."""
        if not self.parts:
            return ""
        bad = [str(n) for n, part in enumerate(self.parts, 1) if is_alarming(part.verdict)]
        which = f", not good: {', '.join(bad)}" if bad else ""
        return f" ({len(self.parts)} parts{which})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        facts: dict[str, Any] = {
            "image": str(self.path),
            "score": self.score,
            "threshold": self.threshold,
            "p_value": self.p_value,
            "verdict": self.verdict,
            "anomalous": is_alarming(self.verdict),
            "regions": [_region_facts(region) for region in self.regions],
        }
        facts |= parts_facts(self.parts)
        if self.variant is not None:
            facts["variant"] = self.variant
        if self.picture is not None:
            facts["picture"] = str(self.picture)
        if self.error is not None:
            facts["error"] = self.error
        if self.doubt is not None:
            facts |= {"doubt": self.doubt.kind.value, "reason": str(self.doubt)}
        return facts

    def cells(self) -> list[Any]:
        """Cells in the order of COLUMNS and OPTIONAL; regions are x y width height.

        Parts are written as JSON, which a table has no other place for.
        """
        boxes = "; ".join(" ".join(map(str, region.box_xywh)) for region in self.regions)
        numbers = [self.score, self.threshold, self.p_value]
        why, parts = self.error or self.doubt, parts_facts(self.parts).get("parts")
        shown = None if parts is None else json.dumps(parts, allow_nan=False)
        cells = [self.path, *numbers, self.verdict, boxes, why, self.variant, shown]
        return [*cells, self.kind, self.why]

    @property
    def kind(self) -> str | None:
        """What the strongest region is like; None where the model knows no kinds."""
        kind = self.regions[0].kind if self.regions else None
        return None if kind is None else str(kind.words)

    @property
    def why(self) -> str | None:
        """Why the strongest region is odd; None where the model does not tell it."""
        why = self.regions[0].why if self.regions else None
        return None if why is None else str(why.words)


def _region_facts(region: Region) -> dict[str, Any]:
    return {
        "box_xywh": region.box_xywh,
        "area_px": region.area_px,
        "peak": finite(region.peak),
        **region.explanation_facts(),
    }


class Drawings:
    """Pictures of predictions in a folder, with one range of colours for all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = PictureNames()

    def draw(self, path: Path, image_hwc: NDArray[np.uint8], result: JudgedPrediction) -> Path:
        """Write the picture of one image."""
        from edgeseg.evaluation.panels import render_panel

        height, width = result.map_hw.shape
        limit = result.pixel_threshold
        panel = render_panel(
            resize_image(image_hwc, (height, width)),
            result.map_hw,
            pixel_threshold=limit,
            value_range=(0.0, 2.0 * max(limit, 1e-6)),  # as in the pictures of `edgeseg eval`
            marked_hw=result.marked_hw,
        )
        target = self._names.free(self.folder, path)
        write_image(target, panel)
        return target


@click.command()
@click.argument("model", type=PATH)
@click.argument("images", nargs=-1, required=True, type=PATH)
@click.option(
    "--out", "-o", type=FOLDER, help="Folder for pictures that show where the images are wrong."
)
@click.option("--csv", "table", type=FILE, help="Write a table of all images to this file.")
@click.option(
    "--sort", "worst_first", is_flag=True, help="Print the worst first, after all are scored."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per image.")
@max_pixels_option
@opening_options
@quiet_option
def predict(
    model: Path,
    images: tuple[Path, ...],
    out: Path | None,
    table: Path | None,
    worst_first: bool,
    as_json: bool,
    max_pixels: int,
    opening: SessionOptions,
    quiet: bool,
) -> None:
    """Score IMAGES and draw where they are wrong.

    MODEL is an .edgeseg, .onnx or .plan file; IMAGES are pictures, or folders of pictures. One
    that cannot be read, or does not show this part at all, is `invalid`, never good. Backend,
    threads and spin are those of `edgeseg stream`, for .onnx and .plan files.

    \b
    edgeseg predict bottle.edgeseg part1.png part2.png --out out/
    edgeseg predict part.onnx parts/today --csv out.csv --sort
    """
    paths = pictures_in(images)
    if model.suffix not in MODEL_SUFFIXES:
        _check_fitted(model, opening)
    for target in (table, out and out / "picture.png"):
        if target is not None:
            check_writable(target)
    note, progress = listeners(quiet=quiet)
    started = time.perf_counter()
    with open_judge(model, opening, note=note) as judge:
        drawings = None if out is None else Drawings(out)
        kinds = PictureKinds()
        judged = (_judge(judge, path, drawings, kinds, max_pixels=max_pixels) for path in paths)
        scored = progress(judged, length=len(paths), label="Scoring")
        rows = _print_rows(scored, worst_first=worst_first, as_json=as_json)
        for sentence in kinds.sentences(judge.fitted_colour):
            note(sentence)
    if table is not None:
        write_text(table, _csv(rows))
    seconds = time.perf_counter() - started
    if out is not None:
        drawn = sum(row.picture is not None for row in rows)
        note(f"wrote {drawn} pictures to {out} in {seconds:.1f} s")
    note(_summary(rows, table, seconds=seconds))
    if all(row.error is not None for row in rows):
        raise unreadable_error([f"{row.path}: {row.error}" for row in rows], of=len(rows))


def pictures_in(given: Sequence[Path]) -> list[Path]:
    """List pictures and all pictures below folders, by name; a wrong path is an error."""
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            below = pictures_below(path)
            if not below:
                raise UsageError(f"{path}: no pictures in this folder or below it")
            paths += below
        else:
            if not path.is_file():
                read_image(path)  # says so
            paths.append(path)
    return paths


def _check_fitted(model: Path, opening: SessionOptions) -> None:
    """Refuse options that are for exported models alone, and a file without a trusted signature."""
    typed = next(filter(was_typed, ("backend", "threads", "spin")), None)
    if typed is not None:
        raise UsageError(
            Setting(typed),
            f": is for .onnx and .plan files, and {model} is a fitted model; export it, or leave ",
            Setting(typed),
            " out",
        )
    admit(model, opening.trust)
    read_config(model)


@contextmanager
def open_judge(model: Path, opening: SessionOptions, *, note: Note) -> Iterator[Judge]:
    """Open a model of any kind, ready to predict."""
    if model.suffix not in MODEL_SUFFIXES:
        check_needs(*FITTING)

        from edgeseg.api import load

        yield load(model)
        return
    with open_detector(model, opening, note=note) as detector:
        yield detector


def _judge(
    judge: Judge, path: Path, drawings: Drawings | None, kinds: PictureKinds, *, max_pixels: int
) -> PredictionRow:
    try:
        image_hwc, used_bits = read_with_bits(path, max_pixels=max_pixels)
    except DatasetError as error:
        return PredictionRow(
            path=path, verdict="invalid", error=str(error).removeprefix(f"{path}: ")
        )
    kinds.add(grey=is_grey(image_hwc), used_bits=used_bits)
    result = judge.predict(image_hwc)
    picture = None if drawings is None else drawings.draw(path, image_hwc, result)
    return PredictionRow.of(path, result, picture=picture)


def _print_rows(
    scored: Iterator[PredictionRow], *, worst_first: bool, as_json: bool
) -> list[PredictionRow]:
    """Print each row as soon as its turn has come, and return all of them."""
    rows = []
    ordered = sorted(scored, key=lambda row: -row.rank) if worst_first else scored
    for row in ordered:
        click.echo(json.dumps(row.to_dict(), allow_nan=False) if as_json else row.text())
        rows.append(row)
    return rows


def _csv(rows: Sequence[PredictionRow]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    given = [name for name in OPTIONAL if any(getattr(row, name) for row in rows)]
    columns = (*COLUMNS, *given)
    table.writerow(columns)
    every = (*COLUMNS, *OPTIONAL)
    table.writerows(
        [cell for name, cell in zip(every, row.cells(), strict=True) if name in columns]
        for row in rows
    )
    return text.getvalue()


def _summary(rows: Sequence[PredictionRow], table: Path | None, *, seconds: float) -> str:
    verdicts = verdicts_in_words(Counter(row.verdict for row in rows))
    wrote = "" if table is None else f"; wrote {table}"
    return f"scored {len(rows)} images in {seconds:.1f} s: {verdicts}{wrote}"
