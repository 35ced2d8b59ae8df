"""Make the damaged model files of tests/kept/fuzz anew, of the kept files and with hashes that fit.

    python -m tests.endurance.fuzz.found_before

Each is called FORMAT--WHAT--NAME after what the fuzzer found: a reader that ended in a traceback.
The others of that folder are of no version, and stay as they were found.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgeseg.runtime.backends.onnx_properties import graph_sha256
from tests.endurance.fuzz import seeds
from tests.endurance.fuzz.mutators import sealed_again
from tests.endurance.fuzz.seeds import Seed
from tests.endurance.scratch import scratch
from tests.support import REPO

FOLDER = REPO / "tests" / "kept" / "fuzz"
Change = Callable[[dict[str, Any]], object]  # of the header of all tensors


def _container(seed: Seed, change: Change, *, header: Change | None = None) -> bytes:
    """A safetensors file with another list of tensors, or another header of ours."""
    length = int.from_bytes(seed.data[:8], "little")
    whole = json.loads(seed.data[8 : 8 + length])
    ((key, text),) = whole["__metadata__"].items()
    ours = json.loads(text)
    change(whole)
    if header is not None:
        header(ours)
    whole["__metadata__"][key] = json.dumps(ours)
    packed = json.dumps(whole).encode()
    return sealed_again(
        len(packed).to_bytes(8, "little") + packed + seed.data[8 + length :], text=False
    )


def _ours(seed: Seed, change: Change) -> bytes:
    return _container(seed, lambda whole: None, header=change)


def _mean(seed: Seed, value: float) -> bytes:
    """A shard with one row of means of this value."""
    length = int.from_bytes(seed.data[:8], "little")
    place = json.loads(seed.data[8 : 8 + length])["moments.mean"]
    first = 8 + length + place["data_offsets"][0]
    row = np.full(place["shape"][1], value, "<f8").tobytes()
    return sealed_again(seed.data[:first] + row + seed.data[first + len(row) :], text=False)


def _text(seed: Seed, change: Change) -> bytes:
    values = json.loads(seed.data)
    change(values)
    return sealed_again(json.dumps(values, sort_keys=True).encode(), text=True)


def _renamed(seed: Seed, name: bytes) -> bytes:
    """A graph with a name that is not UTF-8."""
    sized = bytes([len(name)]) + name
    head, _, rest = seed.data.rpartition(sized)
    return head + sized[:-1] + b"\x9d" + rest


def _hashed(seed: Seed, damaged: bytes) -> bytes:
    """A damaged graph under the hash that it should have."""
    before, after = (graph_sha256(io.BytesIO(data)).encode() for data in (seed.data, damaged))
    start = damaged.index(b'{"')
    text = damaged[start : damaged.rindex(b"}", start) + 1]  # the metadata are the file's end
    return damaged.replace(text, sealed_again(text.replace(before, after), text=True))


def make(folder: Path) -> None:
    """Write all of them."""
    with scratch("found") as place:
        located = list(seeds.artefacts(place))[-1]
        (shard,) = seeds.shards(place)
        (fp32, int8, _), (backbone,) = seeds.graphs(place), seeds.backbones(place)
        sidecar = next(seed for seed in seeds.sidecars(place) if b"anchor" in seed.data)
        plan = next(seed for seed in seeds.plans(place) if seed.has_json)
    files = {
        "artefact--bytes--part.edgeseg": _container(
            located, lambda whole: whole["good.peaks"]["data_offsets"].__setitem__(0, 3)
        ),
        "shard--context--part-0-of-2.shard": _ours(shard, lambda ours: ours["config"].pop("ridge")),
        "shard--grid--part-0-of-2.shard": _ours(
            shard, lambda ours: ours["config"].update(share=40484027)
        ),
        "shard--newest--part-0-of-2.shard": _ours(shard, lambda ours: ours.update(newest=1e308)),
        "shard--shapes--part-0-of-2.shard": _ours(
            shard, lambda ours: ours["config"].update(stride=True)
        ),
        "shard--offsets--part-0-of-2.shard": _container(
            shard, lambda whole: whole["moments.scatter"].update(shape=[16])
        ),
        "shard--eigenvalues--part-0-of-2.shard": _mean(shard, 1e300),
        "shard--score--part-0-of-2.shard": _mean(shard, 1e150),
        "graph--names--part-int8.onnx": _hashed(int8, _renamed(int8, b"QuantizeLinear")),
        "graph--grown--part-fp32.onnx": fp32.data[:2000] + b"[" * 2700 + fp32.data[2000:],
        "backbone--names--backbone.onnx": _renamed(backbone, b"frames"),
        "sidecar--box--part-fp32.json": _text(
            sidecar, lambda told: told["geometry"]["locator"]["places"].update(y=2**64)
        ),
        "sidecar--corners--part-fp32.json": _text(
            sidecar, lambda told: told["ignored_here"][0][1].__setitem__(0, 2**64)
        ),
        "plan--outputs--part.json": _text(
            plan, lambda told: told.update(outputs=["map", "score", "grit"])
        ),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    make(FOLDER)
