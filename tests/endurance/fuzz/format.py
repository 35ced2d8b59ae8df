"""One kind of input: whole files of it, and the code that reads one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.endurance.fuzz.seeds import Seed

Load = Callable[[bytes, Seed, Path], object]


@dataclass(frozen=True, kw_only=True)
class Format:
    """An entry of FORMATS."""

    seeds: Callable[[Path], Iterator[Seed]]
    load: Load
    json: Literal["text", "safetensors", "onnx"] | None = None  # where its JSON is, if it has any
    # What a refusal may be beside an EdgesegError: that of a message, whose caller answers it.
    refusals: tuple[type[Exception], ...] = field(default=())


def write(data: bytes, folder: Path, name: str) -> Path:
    """A file with these bytes."""
    path = folder / name
    path.write_bytes(data)
    return path


def lay(data: bytes, seed: Seed, folder: Path) -> Path:
    """A file with these bytes under its seed's name, and what has to lie beside it."""
    for name, whole in seed.beside:
        write(whole, folder, name)
    return write(data, folder, seed.name)
