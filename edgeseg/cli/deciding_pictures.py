"""Pictures of the good images that decide a threshold, for whoever knows the parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.deciding_images import DecidingImage
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.vision.images import pictures_below, read_image, resize_image

if TYPE_CHECKING:
    from edgeseg.cli.predict_command import Judge

Picture = NDArray[np.uint8]  # (H, W, 3) RGB


def pictures_by_name(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Find pictures below a folder by their names; none of a name that several have."""
    known: dict[str, list[Path]] = {}
    for path in pictures_below(folder):
        known.setdefault(path.name, []).append(path)
    found = {name: known[name][0] for name in names if len(known.get(name, ())) == 1}
    if not found:
        raise UsageError(
            Setting("good", folder),
            f": none of {', '.join(names)} is there under one place; expected the folder of the "
            "good pictures of the fit",
        )
    return found


def judged_sheet(
    judge: "Judge",
    images: Sequence[DecidingImage],
    found: Mapping[str, Path],
    *,
    name: str,
    max_pixels: int,
) -> Picture:
    """Draw the pictures that were found, and where the model finds them odd."""
    panels = []
    for row in images:
        if row.image in found:
            frame_hwc = read_image(found[row.image], max_pixels=max_pixels)
            result = judge.predict(frame_hwc)
            shown = resize_image(frame_hwc, result.map_hw.shape)
            panels.append(deciding_panel(row, shown, result.map_hw, pixel=result.pixel_threshold))
    return deciding_sheet(panels, name=name)


def deciding_panel(
    row: DecidingImage, frame_hwc: Picture, map_hw: NDArray[np.float32], *, pixel: float
) -> Picture:
    """Draw one image and where the fitted model finds it odd."""
    return render_panel(
        frame_hwc,
        map_hw,
        pixel_threshold=pixel,
        value_range=(0.0, max(pixel, 1e-6)),  # good images stay below it
        caption=f"{Path(row.image).name}: {row.score:.4f}, p-value {row.p_value:.3g}",
    )


def deciding_sheet(panels: Sequence[Picture], *, name: str) -> Picture:
    """Arrange the images of a data set that decide."""
    title = f"{name}: good images with the highest scores, the highest first"
    return contact_sheet(panels, columns=2, title=title)
