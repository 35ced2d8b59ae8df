"""The memory that a fit needs, computed before anything is allocated."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.files import size_text
from edgeseg.base.messages import Setting
from edgeseg.config import FitConfig
from edgeseg.data.samples import MOST_PIXELS
from edgeseg.model.factors import kept_directions, map_rank
from edgeseg.model.map_layers import map_width
from edgeseg.model.windows import Windows

# Moments of single cells up to this size are kept: they can be pooled anew. Beyond it, moments of
# whole windows (windows.py) are kept instead, which is share x share times less.
MOST_BYTES_OF_CELLS = 1 << 30
# Python, torch and the backbone before the first image; decoded frames ahead of the fit.
BASE_BYTES = 1_000_000_000
# Of the backbone, per pixel that goes through it at once: 131 to 164 were measured for ResNet-18,
# 74 to 247 for the others.
ACTIVATION_BYTES = 250
# Mapped by threads, their heaps and libraries that load later, whatever the size of the fit.
_LOADED_BYTES = 1_000_000_000
_LARGEST_SHARE = 16
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container; "max" without a limit


@dataclass(frozen=True, kw_only=True)
class FitMemory:
    """The bytes of the parts of a fit."""

    moments: int
    factors: int
    activations: int
    calibration: int

    @property
    def peak(self) -> int:
        """The highest need: while images are embedded, or while folds are taken out."""
        return BASE_BYTES + max(self.moments + self.activations, self.calibration)


def fit_memory(config: FitConfig) -> FitMemory:
    """Apply the formulas of docs/large.md; k counts as requested, though it may become smaller."""
    windows = Windows.of(config)
    of_cells, of_blocks = (count * config.k**2 * 8 for count in (windows.cells, windows.count))
    rank, width = kept_directions(config.rank, config.k), map_width(config)
    numbers = config.k * rank + width * map_rank(width, kept=rank, k=config.k)
    factors = windows.covariances * numbers * 4
    height, width = config.size_hw
    # The whole, one fold, and the whole without it.
    kept, pooling = of_blocks, 0
    if config.moments == "cells":
        kept = of_cells
        # Moments of cells are there twice while a fold is pooled, columns first.
        pooling = of_cells + of_cells // config.share + of_blocks
    return FitMemory(
        moments=kept,
        factors=factors,
        activations=max(height * width, MOST_PIXELS) * ACTIVATION_BYTES,
        calibration=kept + pooling + 2 * of_blocks + 2 * factors,
    )


def with_moments(config: FitConfig) -> FitConfig:
    """Return the settings with the kind of moments that suits the size of the grid."""
    windows = Windows.of(config)
    if windows.are_cells or windows.cells * config.k**2 * 8 <= MOST_BYTES_OF_CELLS:
        return config
    return replace(config, moments="blocks")


def check_memory(config: FitConfig, *, have: int, largest_stride: int) -> None:
    """Refuse a fit that this machine cannot hold, and name settings that it can."""
    need = fit_memory(config).peak
    if need <= have:
        return
    height, width = config.size_hw
    raise UsageError(
        f"size {height}x{width} with stride {config.stride}, share {config.share} and ",
        Setting("k", config.k),
        f" needs about {size_text(need)} of memory, this machine has {size_text(have)}; try ",
        *_that_fit(config, have, largest_stride),
    )


def check_limit(config: FitConfig, *, left: int | None, largest_stride: int) -> None:
    """Refuse a fit that exceeds a memory limit of the process.

    Beyond such a limit libraries do not raise: threads that cannot start end the process.
    """
    need = fit_memory(config).peak - BASE_BYTES + _LOADED_BYTES
    if left is None or need <= left:
        return
    raise UsageError(
        f"this fit needs about {size_text(need)} of address space, and the limit of this process "
        f"(ulimit -v) leaves {size_text(left)}; raise it, or try ",
        *_that_fit(config, BASE_BYTES + left - _LOADED_BYTES, largest_stride),
    )


def _that_fit(config: FitConfig, have: int, largest_stride: int) -> list[str | Setting]:
    """Name settings that fit, as parts of an error."""
    ways: list[str | Setting] = []
    for share in range(config.share + 1, _LARGEST_SHARE + 1):
        other = with_moments(replace(config, share=share, moments="cells"))
        step = size_step(other, largest_stride=largest_stride)
        need = fit_memory(other).peak
        if need <= have and not any(side % step for side in config.size_hw):
            ways += [Setting("share", share), f" ({size_text(need)})"]
            break
    if config.frame_hw is None and min(config.size_hw) > 512:
        ways += [" or "] * bool(ways) + ["tiles of 512x512"]
    return ways or ["a smaller size or k, or tiles"]


def size_step(config: FitConfig, *, largest_stride: int) -> int:
    """Return the step of the input's sides with which blocks cover the grid exactly."""
    return math.lcm(largest_stride, config.stride * config.share)


def machine_bytes() -> int:
    """Return the memory of this machine, or of the container if it has less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="utf-8").strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdecimal() else whole
