"""The JSON header of an .edgeseg file, read without torch and without the tensors."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import ArtefactError, EdgesegError, UsageError
from edgeseg.base.memory_limit import out_of_memory
from edgeseg.base.plain import JsonObject, Malformed, record
from edgeseg.config import FitConfig
from edgeseg.decision.calibration import CalibrationFacts
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.container import (
    Container,
    Foreign,
    Truncated,
    read_container,
    replace_stored,
)
from edgeseg.modelfile.metadata import MODEL_SUFFIXES

SCHEMA = 2
KEY = "edgeseg"  # of our header among the metadata of the file
# Settings that files of 0.2.0 do not name, and what was meant by that.
UNNAMED: JsonObject = {"map_layers": [], "map_ridge": 1.0, "promise": "conformal"}


@dataclass(frozen=True, kw_only=True)
class _Header:
    """The fields that everybody relies on; other fields belong to those who read them."""

    config: JsonObject
    weights: JsonObject
    calibration: JsonObject
    data: JsonObject
    accuracy: tuple[JsonObject, ...]
    versions: JsonObject
    history: tuple[JsonObject, ...]


def refuse_exported(path: Path) -> None:
    """Refuse a graph or an engine: it is not a fitted model and has commands of its own."""
    if path.suffix in MODEL_SUFFIXES:
        raise UsageError(
            f"{path}: an exported model, expected a file of edgeseg fit; run it with "
            "`edgeseg stream`, or with edgeseg.runtime.open in Python"
        )


def check_artefact_name(path: Path) -> None:
    """Refuse to write a fitted model under the name of an exported one: nothing would read it."""
    if path.suffix in MODEL_SUFFIXES:
        raise UsageError(
            f"{path}: `edgeseg fit` writes .edgeseg files, and `edgeseg export` makes the "
            f"{path.suffix} of one; expected a name such as {path.with_suffix('.edgeseg')}"
        )


def read_artefact_file(path: Path) -> Container:
    """Read a fitted model without its tensors, and check its hash and its header."""
    refuse_exported(path)
    if not path.is_file():
        raise ArtefactError(f"{path}: no such file; make one with `edgeseg fit DATA --out {path}`")
    try:
        file = read_container(path, KEY)
    except Foreign as error:
        raise ArtefactError(f"{path}: {error}; expected one from edgeseg fit") from None
    except Malformed as error:
        kind = "truncated" if isinstance(error, Truncated) else "not an edgeseg artefact"
        raise ArtefactError(
            f"{path}: {kind} ({error}); expected a whole file written by edgeseg fit"
        ) from None
    _check_schema(path, file.header.get("schema"))
    try:
        record(_Header, _known_fields(_Header, file.header))
        calibration_facts(file.header)
    except Malformed as error:
        raise damage_error(path, error) from None
    return file


def read_header(path: Path) -> JsonObject:
    """Read the values that `edgeseg info` shows of a fitted model."""
    return read_artefact_file(path).header


def read_config(path: Path) -> FitConfig:
    """Read the settings that a model was fitted with."""
    header = read_header(path)
    try:
        return stored_config(header["config"])
    except (LookupError, TypeError, ValueError, ArithmeticError, EdgesegError) as error:
        raise damage_error(path, error) from None


def stored_config(values: JsonObject) -> FitConfig:
    """Return the settings that a file keeps: all of them, whatever the defaults are by now."""
    config = FitConfig.from_dict(UNNAMED | values)
    missing = sorted(set(config.to_dict()) - set(values) - set(UNNAMED))
    if missing:
        raise Malformed(f"config: missing keys {missing}")
    return config


def calibration_facts(header: JsonObject) -> CalibrationFacts:
    """Return the thresholds of a header; Malformed says what is wrong with them."""
    stored = header["calibration"]
    return record(CalibrationFacts, _known_fields(CalibrationFacts, stored), place="calibration")


@dataclass(frozen=True, kw_only=True)
class NamedScore:
    """The score of a good image and the name of its file."""

    image: str
    score: float


def highest_scores(path: Path, header: JsonObject) -> tuple[NamedScore, ...]:
    """Return the good images with the highest scores, the highest first, where names are known."""
    stored = header["data"].get("highest", ())
    try:
        if not isinstance(stored, list | tuple):
            raise Malformed(f"data.highest: a {type(stored).__name__}, expected a list")
        return tuple(record(NamedScore, each, place="data.highest") for each in stored)
    except Malformed as error:
        raise damage_error(path, error) from None


def damage_error(path: Path, error: Exception) -> ArtefactError:
    """Return the error for an artefact that is damaged or edited."""
    return unless_memory(
        error,
        ArtefactError(f"{path}: damaged or edited artefact ({error}); fit the model again"),
    )


def unless_memory(error: Exception, otherwise: ArtefactError) -> ArtefactError:
    """Return the error of a file, or one about memory: a whole file may need more than there is."""
    if not out_of_memory(error):
        return otherwise
    return ArtefactError(
        "needs more memory than this process gets; close other programs or raise the limit "
        f"(ulimit -v), and only if that does not help: {otherwise}"
    )


def read_floats(path: Path, name: str) -> NDArray[np.float32] | None:
    """Read the finite values of a float32 tensor; None without such a tensor."""
    try:
        values = read_artefact_file(path).floats(name)
        if values is not None and not np.isfinite(values).all():
            raise Malformed(f"{name} holds values that are not finite")
    except Malformed as error:
        raise damage_error(path, error) from None
    return values


def replace_header(path: Path, header: JsonObject) -> None:
    """Write another header in one step; the tensors are copied as they are."""
    replace_stored(path, KEY, header | {"schema": SCHEMA})


def store_thresholds(
    path: Path, chosen: Thresholds, *, rule: str, rate: float | None, images: int, when: str
) -> Path:
    """Store chosen thresholds in the header with a line of history, and return the file.

    `rate` is the requested rate; None where a value was chosen.
    """
    header = read_header(path)
    before = calibration_facts(header).score_threshold
    header["calibration"] |= {
        "score_threshold": chosen.score,
        "pixel_threshold": chosen.pixel,
        "requested_rate": chosen.requested_rate,
        "answered_rate": chosen.false_alarm_rate,
        "unsure_threshold": chosen.unsure,
        "unsure_rate": chosen.unsure_rate,
        "choice": None if chosen.choice is None else asdict(chosen.choice),
        "promise": chosen.promise,
    }
    change = f"{rule}: {before:.4f} to {chosen.score:.4f}"
    header["history"].append(
        {"action": "threshold", "images": images, "from": change, "when": when, "rate": rate}
    )
    replace_header(path, header)
    return path


def _known_fields(kind: type, values: JsonObject) -> JsonObject:
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def _check_schema(path: Path, schema: Any) -> None:
    """Refuse a header that another version wrote."""
    if isinstance(schema, int) and schema > SCHEMA:
        raise ArtefactError(
            f"{path}: schema {schema} is newer than {SCHEMA}, the newest this edgeseg reads; "
            "run `pip install --upgrade edgeseg`"
        )
    if schema != SCHEMA:
        raise ArtefactError(f"{path}: schema {schema!r}, expected {SCHEMA}; fit the model again")
