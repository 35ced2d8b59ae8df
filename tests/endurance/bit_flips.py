"""One bit of every tensor that decides, flipped a hundred times: how many files are refused?

    python -m tests.endurance.bit_flips [MODEL.edgeseg MODEL.onnx ...] \
        --out out

Without a model those of the fuzzer are taken that have hashes: artefacts, graphs, sidecars, a plan,
a shard, a checkpoint. Also how long the look at the hash takes when a file is opened. The exit code
is 1 if one was loaded.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import EdgesegError
from edgeseg.base.plain import Malformed
from edgeseg.modelfile.container import read_container
from edgeseg.modelfile.header import KEY as ARTEFACT
from edgeseg.modelfile.header import read_artefact_file
from edgeseg.modelfile.metadata import MODEL_SUFFIXES, PLAN_SUFFIXES
from edgeseg.runtime.backends.model_file import file_metadata
from tests.endurance.fuzz import seeds
from tests.endurance.fuzz.format import lay
from tests.endurance.report import write_rows

_KEYS = {".edgeseg": ARTEFACT, ".shard": "edgeseg-shard", ".moments": "edgeseg-checkpoint"}
_SEEDS = (
    *(seeds.artefacts, seeds.graphs, seeds.sidecars, seeds.plans, seeds.shards, seeds.checkpoints),
)


def pieces(path: Path) -> dict[str, tuple[int, int]]:
    """Where the bytes of each tensor are in a file, and of all that stands around them."""
    anywhere = {"anywhere": (0, path.stat().st_size)}
    if path.suffix in _KEYS:
        file = read_container(path, _KEYS[path.suffix])
        found = {
            name: (file.begin + place.data_offsets[0], file.begin + place.data_offsets[1])
            for name, place in file.tensors.items()
            if not name.startswith("backbone.") and place.data_offsets[1] > place.data_offsets[0]
        }
        return {"header": (0, file.begin), **found}
    if path.suffix != ".onnx":
        return anywhere
    import onnx

    data, found = path.read_bytes(), {}
    for tensor in onnx.load(path).graph.initializer:
        at = data.find(tensor.raw_data) if len(tensor.raw_data) >= 64 else -1
        if at >= 0:
            found[tensor.name] = (at, at + len(tensor.raw_data))
    return anywhere | found


def read(path: Path) -> None:
    """What every command does before it parses the file."""
    if path.suffix == ".json":
        plans = [path.with_suffix(suffix) for suffix in PLAN_SUFFIXES]
        model = next((plan for plan in plans if plan.is_file()), path.with_suffix(".onnx"))
        file_metadata(model)
    elif path.suffix == ".edgeseg":
        read_artefact_file(path)
    elif path.suffix in _KEYS:
        read_container(path, _KEYS[path.suffix])
    else:
        file_metadata(path)


def refused(path: Path, span: tuple[int, int], *, count: int, dice: random.Random) -> int:
    """How many of so many flips within a span are refused; the file is as it was afterwards."""
    whole, total = path.read_bytes(), 0
    for _ in range(count):
        at, mask = dice.randrange(*span), 1 << dice.randrange(8)
        damaged = bytearray(whole)
        damaged[at] ^= mask
        path.write_bytes(damaged)
        try:
            read(path)
        except (EdgesegError, Malformed):
            total += 1
    path.write_bytes(whole)
    return total


def _models(folder: Path, given: tuple[Path, ...]) -> Iterator[Path]:
    """Copies that may be damaged, each in a folder of its own."""
    for path in given:
        copy = folder / path.name
        copy.write_bytes(path.read_bytes())
        sidecar = path.with_suffix(".json")
        if path.suffix in MODEL_SUFFIXES and sidecar.is_file():  # without it no flip would be read
            copy.with_suffix(".json").write_bytes(sidecar.read_bytes())
        yield copy
    for number, make in enumerate(() if given else _SEEDS):
        place = folder / str(number)
        place.mkdir()
        whole = [seed for seed in make(place) if seed.sealed]
        for path in place.iterdir():
            path.unlink()
        for version, seed in enumerate(whole):
            own = place / str(version)
            own.mkdir()
            yield lay(seed.data, seed, own)


@click.command()
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=100, show_default=True, help="Flips in every tensor.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report.")
def main(models: tuple[Path, ...], count: int, seed: int, out: Path | None) -> None:
    """Flip bits and count refusals."""
    rows: list[dict[str, Any]] = []
    loaded = 0
    with tempfile.TemporaryDirectory(prefix="edgeseg-flips-") as place:
        for path in _models(Path(place), models):
            dice, refusals = random.Random(seed), {}
            started = time.perf_counter()
            read(path)
            opened_ms = 1000 * (time.perf_counter() - started)
            for name, span in pieces(path).items():
                refusals[name] = refused(path, span, count=count, dice=dice)
            tried, caught = count * len(refusals), sum(refusals.values())
            loaded += tried - caught
            row = {
                "model": str(path.relative_to(place)),
                "bytes": path.stat().st_size,
                "look_ms": round(opened_ms, 1),
                "flips_each": count,
                "refused": refusals,
            }
            rows.append(row)
            click.echo(
                f"{path.name}: {caught} of {tried} flips in {len(refusals)} pieces refused; "
                f"hash and header take {opened_ms:.0f} ms for {path.stat().st_size / 1e6:.1f} MB"
            )
    if out is not None:
        write_rows(out, "flips", title="A bit turned over", rows=rows)
    sys.exit(1 if loaded else 0)


if __name__ == "__main__":
    main()
