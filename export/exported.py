"""What an export has made."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.modelfile.metadata import ModelMetadata

if TYPE_CHECKING:
    from edgeseg.export.verify import Agreement


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A file, what it says of itself, and how it was made and checked."""

    path: Path
    metadata: ModelMetadata
    report: dict[str, Any]
    agreements: "tuple[Agreement, ...]"
