"""Models for the studies that anyone can make: small fits on made-up parts."""

from pathlib import Path

import edgeseg
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.fitting.options import FitOptions
from edgeseg.progress import Note

IMAGES = 12  # of good parts: the time of an inference does not depend on how many
PICTURE_HW = (320, 320)


def make_models(
    folder: Path,
    backbones: tuple[str, ...],
    *,
    random_weights: bool,
    note: Note,
) -> tuple[Path, ...]:
    """A graph for each backbone, each of other parts; weights are found as `edgeseg fit` does."""
    options = FitOptions(weights="random" if random_weights else None, note=note)
    paths = []
    for index, backbone in enumerate(backbones):
        parts = folder / f"parts-{index + 1}"
        write_dataset(
            parts, size_hw=PICTURE_HW, train=IMAGES, test_good=0, test_defective=0, seed=index
        )
        model = edgeseg.fit(parts / "train" / "good", backbone=backbone, options=options)
        path = folder / f"{index + 1}-{backbone}.onnx"
        paths.append(model.export(path, allow_random_weights=random_weights, note=note))
    return tuple(paths)
