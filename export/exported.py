"""The result of an export."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.modelfile.metadata import ModelMetadata

if TYPE_CHECKING:
    from edgeseg.export.verify import Agreement

ExportReport = dict[str, Any]  # plain values, for JSON


@dataclass(frozen=True, kw_only=True)
class SplitExport:
    """Two halves of a model, and how they compare with the fitted one when they run in sequence."""

    backbone: Path
    head: Path
    agreement: "Agreement"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported file, its metadata, and how it was made and checked."""

    path: Path
    metadata: ModelMetadata
    report: ExportReport
    agreements: "tuple[Agreement, ...]"
    halves: SplitExport | None = None  # where they were asked for
