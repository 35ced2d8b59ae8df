"""One `edgeseg` command with its seconds and its memory, and the cost of a frame by its parts."""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.model.moments import Moments

FIGURES = "EDGESEG_SCALING_FIGURES"  # where each process leaves its figures: a prefix of a path
# What two hosts on a common network exchange; the reduction is once per fit, so it hardly counts.
LINK_BYTES_S = 1e9


def frame_costs(data: Path, *, backbone: str, size: int, weights: str | None) -> dict[str, float]:
    """Seconds of one process per frame, on its GPU or one thread, and what comes once per fit."""
    import torch

    from edgeseg.config import FitConfig
    from edgeseg.data.datasets import open_dataset, read_sample
    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.fitting.group_sums import group_factors
    from edgeseg.fitting.parallel.torchrun import choose_device
    from edgeseg.progress import ignore

    torch.set_num_threads(1)
    device = choose_device()
    config = FitConfig(backbone=backbone, size_hw=(size, size))
    space = FeatureSpace.load(config, weights=weights, note=ignore)
    samples = open_dataset(data).train[:16]
    started = time.perf_counter()
    frames = [read_sample(sample, config.size_hw)[0] for sample in samples]
    decode_s = (time.perf_counter() - started) / len(frames)
    moments = space.windows.new_moments(space.k)
    embed_s, moments_s = _pass_seconds(space, moments, frames, device)
    started = time.perf_counter()
    group_factors(config, space.windows.pooled(moments))
    factors_s = time.perf_counter() - started
    whole = moments.count.nbytes + moments.mean.nbytes + moments.scatter.nbytes
    # A thread of the CPU does all of it; a GPU computes while two threads decode ahead.
    work_s = embed_s + moments_s
    frame_s = decode_s + work_s if device == "cpu" else max(decode_s / 2, work_s)
    return {
        "decode_s": decode_s,
        "embed_s": embed_s,
        "moments_s": moments_s,
        "frame_s": frame_s,
        "factors_s": factors_s,
        "finish_s": (1 + config.folds) * factors_s,  # the model, and one for each fold
        "reduced_bytes": whole * (1 + config.folds / config.share**2),  # folds are pooled first
        "link_bytes_s": LINK_BYTES_S,
    }


def _pass_seconds(
    space: "FeatureSpace",
    moments: "Moments",
    frames: "list[NDArray[np.uint8]]",
    device: str,
) -> tuple[float, float]:
    """Seconds per frame to embed it and to add it to the moments, the better of two batches."""
    import numpy as np

    embed = space.embedder(device)
    batches = [np.stack(frames[start : start + 8]) for start in (0, 8)]
    embed_s, moments_s = [], []
    for batch in [batches[0], *batches]:  # the first warms up
        started = time.perf_counter()
        embedded = embed(batch)
        middle = time.perf_counter()
        space.windows.add_(moments, space.inputs(embedded), images=len(embedded))
        embed_s.append((middle - started) / len(batch))
        moments_s.append((time.perf_counter() - middle) / len(batch))
    return min(embed_s[1:]), min(moments_s[1:])


def main() -> None:
    """Run the command line and leave the figures of this process."""
    import torch

    from edgeseg.bench.harness.machine import peak_mb
    from edgeseg.cli.group import cli

    # Imports are not a part of the work.
    for module in ("fitting", "parallel.shards", "update", "parallel.torchrun", "checkpoint"):
        importlib.import_module(f"edgeseg.fitting.{module}")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    before = peak_mb()
    started = time.perf_counter()
    cli(sys.argv[1:], prog_name="edgeseg", standalone_mode=False)
    seconds = time.perf_counter() - started
    figures = {"seconds": seconds, "peak_mb": peak_mb(), "base_mb": before}
    target = Path(f"{os.environ[FIGURES]}{os.environ.get('RANK', '0')}.json")
    target.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
