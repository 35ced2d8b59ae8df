"""A model's backbone alone, up to its last tap, as ONNX: what a fused graph is compared with."""

import sys
from pathlib import Path

import click
import torch
from torch import Tensor, nn

from edgeseg.artefact.artefact import load_artefact
from edgeseg.export.graph import INPUT, OPSET, fold_scale
from edgeseg.files import atomic_path
from edgeseg.model.reference import Model


class _Backbone(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.preprocess, self.backbone = model.preprocess, model.backbone

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.backbone(self.preprocess(frames)))


@click.command()
@click.argument("artefact", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
def main(artefact: Path, out: Path) -> None:
    """Write ARTEFACT's backbone, with the same input and the same folding, to OUT."""
    loaded = load_artefact(artefact)
    model = loaded.model()
    fold_scale(model)
    frames = torch.zeros(1, *loaded.config.size_hw, 3, dtype=torch.uint8)
    program = torch.onnx.export(
        _Backbone(model).eval(),
        (frames,),
        dynamo=True,
        opset_version=OPSET,
        input_names=[INPUT],
        external_data=False,
        verbose=False,
    )
    if program is None:
        sys.exit("the exporter of torch returned no graph")
    with atomic_path(out) as temporary:
        temporary.write_bytes(program.model_proto.SerializeToString())


if __name__ == "__main__":
    main()
