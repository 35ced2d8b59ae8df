"""Mahalanobis distances for every embedding size at once.

With C + ridge I = L L' (Cholesky), y = L^-1 x gives d^2 = |y|^2. The leading k x k block of L is
the Cholesky factor of the leading block of the matrix, so the first k entries of y are those of the
embedding with W's first k columns: d_k^2 = y_1^2 + ... + y_k^2. One factorisation with all F
columns therefore gives the whole curve over k, exactly. The same holds for eigenvectors in the
order of their variances, which gives the `lower` and `higher` curves from one decomposition.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from edgeseg.base.errors import UsageError
from edgeseg.bench.paper.features import FeatureBank, Projector
from edgeseg.model.embedding import embedding_matrix

METHODS = ("inverse", "global", "eigen")
FULL = 1 << 20  # a size beyond any backbone's features: all of them
_CHUNK_BYTES = 192 << 20  # float64 work space of one thread


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to approximate the precision matrix, at one or several sizes k."""

    embedding: str
    sizes: tuple[int, ...]  # increasing; W has as many columns as the last says
    seed: int = 0
    method: str = "inverse"
    layers: tuple[int, ...] = (1, 2, 3)
    ridge: float = 0.01
    stride: int = 4
    interpolation: str = "nearest"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"method {self.method!r}: expected one of {METHODS}")
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)) or self.sizes[0] < 1:
            raise UsageError(f"sizes {self.sizes}: expected increasing numbers from 1")

    @property
    def label(self) -> str:
        """Name of the variant, unique among variants."""
        first, last = self.sizes[0], self.sizes[-1]
        size = "all" if first >= FULL else f"k{first}" if first == last else f"k{first}-{last}"
        layers = "" if self.layers == (1, 2, 3) else f" layers {','.join(map(str, self.layers))}"
        method = "" if self.method == "inverse" else f" {self.method}"
        return f"{self.embedding} {size}{layers}{method} seed {self.seed}"

    @property
    def cost(self) -> float:
        """Estimated seconds on two cores with ResNet-18 at 256 x 256."""
        k = min(self.sizes[-1], 448)
        seconds = 2 + 30 * (k / 448) ** 2
        return (100 if self.method == "eigen" else seconds) + 2 * len(self.sizes)

    def weight(self, bank: FeatureBank) -> Tensor:
        """Make W (F, k), with zero rows for layers that are left out."""
        chosen = _channels_of(bank, self.layers)
        inside = embedding_matrix(
            self.embedding, features=len(chosen), k=self.sizes[-1], seed=self.seed
        )
        weight = torch.zeros(bank.features, inside.shape[1], dtype=torch.float64)
        weight[chosen] = inside
        return weight

    def fitting(self, bank: FeatureBank) -> tuple[int, ...]:
        """List the sizes that exist: none is larger than the number of features."""
        largest = len(_channels_of(bank, self.layers))
        return tuple(dict.fromkeys(min(size, largest) for size in self.sizes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"sizes": list(self.sizes), "layers": list(self.layers)}


@torch.no_grad()
def distance_grids(bank: FeatureBank, variant: Variant) -> dict[str, Tensor]:
    """Compute distances (N, h, w) of test images by size: "100", or "lower 100", "higher 100"."""
    projector = Projector(
        bank, variant.weight(bank), stride=variant.stride, interpolation=variant.interpolation
    )
    height, width = projector.grid_hw
    sizes = variant.fitting(bank)
    names = [str(size) for size in sizes]
    if variant.method == "eigen":
        names = [f"{order} {size}" for order in ("lower", "higher") for size in sizes]
    grids = {name: torch.empty(bank.count("test"), height, width) for name in names}
    shared = _global_covariance(bank, projector) if variant.method == "global" else None

    def fill(start: int, stop: int) -> None:
        mean, covariance = _moments(projector.rows("train", start, stop), shared)
        offset = projector.rows("test", start, stop) - mean[:, None]  # (P', n, k)
        if variant.method == "eigen":
            distances = _eigen_distances(covariance, offset, variant.ridge, sizes)
        else:
            distances = _inverse_distances(covariance, offset, variant.ridge, sizes)
        for name, d in zip(names, distances, strict=True):  # d (P', n)
            grids[name][:, start:stop] = d.t().reshape(-1, stop - start, width).to(torch.float32)

    _by_rows(fill, bank, projector)
    return grids


@torch.no_grad()
def eigenvalues(
    bank: FeatureBank, variant: Variant, *, threshold: float, every: int = 1
) -> tuple[Tensor, float]:
    """Compute the mean eigenvalues of W'CW over locations, falling, and the share above a value.

    `every` takes one row of the grid out of so many.
    """
    projector = Projector(
        bank, variant.weight(bank), stride=variant.stride, interpolation=variant.interpolation
    )
    height = projector.grid_hw[0]
    rows: dict[int, Tensor] = {}

    def fill(start: int, stop: int) -> None:
        for row in range(start, stop):
            if row % every == 0:
                _, covariance = _moments(projector.rows("train", row, row + 1), None)
                rows[row] = torch.linalg.eigvalsh(covariance).flip(1)  # (w, k)

    _by_rows(fill, bank, projector)
    values = torch.cat([rows[row] for row in range(0, height, every)])
    return values.mean(dim=0), float((values > threshold).double().mean())


def _channels_of(bank: FeatureBank, layers: Sequence[int]) -> list[int]:
    ends = torch.tensor([tap.channels for tap in bank.taps]).cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    return [c for layer in layers for c in range(starts[layer - 1], ends[layer - 1])]


def _moments(x_pnk: Tensor, shared: Tensor | None) -> tuple[Tensor, Tensor]:
    mean = x_pnk.mean(dim=1)
    if shared is not None:
        return mean, shared[None]
    centred = x_pnk - mean[:, None]
    return mean, centred.mT @ centred / x_pnk.shape[1]


def _inverse_distances(
    covariance: Tensor, offset: Tensor, ridge: float, sizes: Sequence[int]
) -> list[Tensor]:
    k = covariance.shape[1]
    lower = torch.linalg.cholesky(covariance + ridge * torch.eye(k, dtype=torch.float64))
    lower = lower.expand(offset.shape[0], k, k)
    y = torch.linalg.solve_triangular(lower, offset.mT, upper=False)  # (P', k, n)
    d2 = y.square().cumsum(dim=1)
    return [d2[:, size - 1].sqrt() for size in sizes]


def _eigen_distances(
    covariance: Tensor, offset: Tensor, ridge: float, sizes: Sequence[int]
) -> list[Tensor]:
    variance, vectors = torch.linalg.eigh(covariance)  # ascending
    y = (offset @ vectors) * (variance.clamp(min=0.0) + ridge).rsqrt()[:, None]  # (P', n, k)
    lower, higher = y.square().cumsum(dim=2), y.flip(2).square().cumsum(dim=2)
    return [d2[:, :, size - 1].sqrt() for d2 in (lower, higher) for size in sizes]


def _global_covariance(bank: FeatureBank, projector: Projector) -> Tensor:
    """Compute one covariance (k, k) of all locations' deviations from their own means."""
    parts: list[Tensor] = []

    def add(start: int, stop: int) -> None:
        for row in range(start, stop):
            x = projector.rows("train", row, row + 1)  # (w, N, k)
            centred = (x - x.mean(dim=1, keepdim=True)).flatten(0, 1)
            parts.append(centred.mT @ centred)

    _by_rows(add, bank, projector)
    cells = projector.grid_hw[0] * projector.grid_hw[1]
    return torch.stack(parts).sum(dim=0) / (cells * bank.count("train"))


def _by_rows(work: Callable[[int, int], None], bank: FeatureBank, projector: Projector) -> None:
    """Process all rows of the grid, one LAPACK thread for each of the cores."""
    (height, width), k = projector.grid_hw, projector.size
    images = max(bank.count("train"), bank.count("test"), k)
    step = max(1, min(height, _CHUNK_BYTES // (8 * width * k * images)))
    spans = [(start, min(start + step, height)) for start in range(0, height, step)]
    with _single_threaded() as threads, ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda span: work(*span), spans))


@contextmanager
def _single_threaded() -> Iterator[int]:
    # LAPACK's own threads slow small eigenproblems down, many times on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
