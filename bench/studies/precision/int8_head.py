"""Where the error of an int8 head comes from: the embedding's eight bits, and the factors' seven.

    python -m edgeseg.bench.studies.precision.int8_head cable.edgeseg mvtec_ad/cable

Each is rounded by itself as the export rounds it, on good images and planted defects, and compared
with the exact head on the same embedding. Rounding noise of variance v adds v |F|^2 to
every squared distance, so most of the error is one shift of all distances: ranks hardly move.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.artefact.artefact import load_artefact
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.data.datasets import open_dataset
from edgeseg.export.calibration_frames import calibration_frames, planted_copies
from edgeseg.export.precision.makers import Head, reach
from edgeseg.model.reference import ReferenceModel

_FRAMES = 8  # good ones, and as many planted


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of rounding; errors are shares of the exact map's range."""

    rounded: str = field(metadata=column("rounded"))
    mean: float = field(metadata=column("mean error", digits=5, better="low"))
    largest: float = field(metadata=column("max error", digits=5))
    shift: float = field(metadata=column("of it a shift", digits=5, signed=True))


def factor_rounded(factor: Tensor, *, levels: int) -> Tensor:
    """Factors (B, k, r) in so many levels of each sign, a scale for each block and column."""
    column_scale = factor.abs().amax(dim=1, keepdim=True) / levels
    return (factor / column_scale.clamp_min(torch.finfo().tiny)).round() * column_scale


def embedding_rounded(model: ReferenceModel, grids: Tensor, *, reach_b: Tensor) -> Tensor:
    """Embeddings (N, k, h, w) in eight bits, a range of twice the reach for each block."""
    n, k = grids.shape[:2]
    cells = np.arange(model.windows.cells)
    of_block = model.windows.by_block(cells[None, :, None])  # (B, share^2, 1)
    step = torch.empty(model.windows.cells)
    for block, members in enumerate(of_block.reshape(len(of_block), -1)):
        step[members] = 2 * reach_b[min(block, len(reach_b) - 1)] / 127
    centred = grids.reshape(n, k, -1).mT - model.mean  # (N, P, k)
    rounded = (centred / step[:, None]).round().clamp(-128, 127) * step[:, None] + model.mean
    return rounded.mT.reshape(grids.shape)


@torch.no_grad()
def rows(
    model: ReferenceModel, images: NDArray[np.uint8], seen: NDArray[np.uint8]
) -> Iterator[Row]:
    """Every part of the head rounded by itself, then both; ranges are of the images `seen`."""
    grids = torch.cat([model.embed(torch.from_numpy(image[None])) for image in images])
    head = Head(model=model, embed=model.embeddings)
    reach_b = torch.from_numpy(np.atleast_1d(reach(head, seen)))
    rounded = embedding_rounded(model, grids, reach_b=reach_b)
    exact, factor = model.to_image(model.distances(grids))[0], model.factor.clone()
    span = float(exact.max() - exact.min())
    cases = {
        "factors, seven bits": (grids, factor_rounded(factor, levels=64)),
        "factors, eight bits": (grids, factor_rounded(factor, levels=127)),
        "factors, fp16": (grids, factor.half().float()),
        "embedding, eight bits": (rounded, factor),
        "embedding and factors, as shipped": (rounded, factor_rounded(factor, levels=64)),
    }
    for name, (embedded, used) in cases.items():
        model.factor.copy_(used)
        error = (model.to_image(model.distances(embedded))[0] - exact) / span
        yield Row(
            rounded=name,
            mean=float(error.abs().mean()),
            largest=float(error.abs().max()),
            shift=float(error.mean()),
        )
    model.factor.copy_(factor)


@click.command()
@click.argument("model", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("data", type=click.Path(path_type=Path, exists=True))
def main(model: Path, data: Path) -> None:
    """Round the head of MODEL, an artefact, part by part on the good images of DATA."""
    artefact = load_artefact(model)
    seen = calibration_frames(open_dataset(data), artefact.config)
    planted = planted_copies(seen[:_FRAMES], seed=artefact.config.seed)
    images = np.concatenate([seen[:_FRAMES], planted])
    found = list(rows(artefact.model(), images, seen))
    click.echo(table_of(f"The head of {model.stem}", found).markdown())


if __name__ == "__main__":
    main()
