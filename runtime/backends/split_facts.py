"""The facts that bind the two halves of a split model, in a property of both .onnx files.

frames -offset, channels first-> pixels -backbone, on an accelerator-> taps -head, here-> the score

The head carries the model's metadata too. It names the backbone by its hash, and no other one runs
with it. Heads of several fits may share a backbone.
"""

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.seal import KEY as SEAL
from edgeseg.modelfile.seal import check_text, seal_json
from edgeseg.runtime.backends.onnx_properties import graph_sha256, property_text

KEY = "edgeseg-split"  # of the property
SCHEMA = 1
HEAD_SUFFIX, BACKBONE_SUFFIX = ".head.onnx", ".backbone.onnx"


@dataclass(frozen=True, kw_only=True)
class TapShape:
    """A tensor of the backbone that the head reads, in float32."""

    name: str
    shape: tuple[int, int, int, int]  # (N, C, h, w)


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """What a half says of itself and of the other one."""

    half: Literal["backbone", "head"]
    backbone_sha256: str  # of the backbone's file without this text
    pixels: TapShape  # the backbone's input
    offset: tuple[float, float, float]  # of red, green and blue in 0..255, subtracted from frames
    taps: tuple[TapShape, ...]  # in the order of the backbone's outputs
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema: {self.schema}, expected {SCHEMA}")

    def normalise(self, frames_nhwc: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return frames as the backbone takes them, where no tool normalises by itself."""
        pixels = frames_nhwc.astype(np.float32) - np.asarray(self.offset, np.float32)
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))

    def to_json(self) -> str:
        """Write stable text with a hash of itself."""
        return seal_json(asdict(self))


def read_split(model: Path, *, files: Files = DISK) -> SplitFacts | None:
    """Read the facts of a half; None for any other file."""
    text = property_text(model, key=KEY, files=files)
    if text is None:
        return None
    try:
        if not check_text(text):
            raise Malformed("the hash of itself is missing")
        values = parse_json(text)
        if isinstance(values, dict):
            values.pop(SEAL, None)
        return record(SplitFacts, values)
    except Malformed as error:
        raise RuntimeFailure(
            f"{model}: its split cannot be used ({error}); export both halves again with "
            "`edgeseg export --split`"
        ) from None


def backbone_path(head: Path) -> Path:
    """Return where the other half of a head lies: part.backbone.onnx beside part.head.onnx."""
    stem = head.name.removesuffix(".onnx").removesuffix(".head")  # people rename files
    return head.with_name(stem + BACKBONE_SUFFIX)


def split_sha256(file: BinaryIO) -> str:
    """Compute the hash that names a backbone."""
    return graph_sha256(file, key=KEY)


def backbone_of(head: Path, facts: SplitFacts) -> bytes:
    """Read the other half of a head; one that is missing or another one is refused."""
    path = backbone_path(head)
    if not path.is_file():
        raise RuntimeFailure(
            f"{head}: {path.name}, its other half, is not beside it; copy both, or give the "
            "function that runs it: edgeseg.runtime.open(head, backbone=run)"
        )
    data = path.read_bytes()
    try:
        found = split_sha256(io.BytesIO(data))
    except Malformed as error:
        raise RuntimeFailure(f"{path}: not an ONNX file ({error}); copy it again") from None
    if found != facts.backbone_sha256:
        raise RuntimeFailure(
            f"{path}: SHA-256 {found[:12]}..., and {head.name} is for the backbone "
            f"{facts.backbone_sha256[:12]}...; copy both of one export again"
        )
    return data
