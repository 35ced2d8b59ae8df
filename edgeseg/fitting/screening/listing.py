"""The result of a screening for people: a line and a picture per suspect, and a JSON list."""

from collections.abc import Iterator
from pathlib import Path

from edgeseg.base.files import write_json
from edgeseg.base.plain import JsonObject
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, Sample, read_sample
from edgeseg.decision.outliers import EXPECTED_BY_CHANCE
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.fitting.screening.screen import Screening, Suspect
from edgeseg.vision.images import write_image

MOST_PICTURES = 24


def name_of(sample: Sample, dataset: Dataset) -> str:
    """Return the path of an image below its dataset, and the frame where it is a video."""
    return sample.name.removeprefix(f"{dataset.root.as_posix()}/")


def describe(suspect: Suspect) -> str:
    """Say why an image is a suspect, and where to look."""
    x, y = suspect.peak_xy
    return (
        f"score {suspect.score:.4g}, {suspect.spreads:.1f} spreads above the others, worst at "
        f"{x:.0%} from the left and {y:.0%} from the top, {suspect.extent:.1%} of the image"
    )


def lines(screening: Screening, dataset: Dataset) -> Iterator[str]:
    """Yield one line per suspect, the worst first."""
    for suspect in screening.suspects:
        yield f"{name_of(suspect.sample, dataset)}: {describe(suspect)}"


def facts(screening: Screening, dataset: Dataset) -> JsonObject:
    """Return plain JSON values."""
    return {
        "images": screening.images,
        "rounds": screening.rounds,
        "middle": screening.middle,
        "limit": screening.limit if screening.rounds else None,
        "good_images_expected_by_chance": EXPECTED_BY_CHANCE,
        "suspects": [
            {
                "image": name_of(suspect.sample, dataset),
                "score": suspect.score,
                "spreads": suspect.spreads,
                "peak_xy": list(suspect.peak_xy),
                "extent": suspect.extent,
            }
            for suspect in screening.suspects
        ],
    }


def write_suspects(
    screening: Screening, dataset: Dataset, config: FitConfig, *, beside: Path
) -> list[Path]:
    """Write OUT.suspects.json and, if there are any, OUT.suspects.png beside a model."""
    listed, sheet = (
        beside.with_name(f"{beside.name}.suspects{suffix}") for suffix in (".json", ".png")
    )
    write_json(listed, facts(screening, dataset))
    if not screening.suspects:
        sheet.unlink(missing_ok=True)  # of an earlier fit: it would be taken for this one's
        return [listed]
    shown = screening.suspects[:MOST_PICTURES]
    panels = [
        render_panel(
            read_sample(suspect.sample, config.image_hw, config.geometry)[0],
            suspect.map_hw,
            pixel_threshold=screening.map_limit,
            value_range=(0.0, 2.0 * screening.map_limit),
            caption=f"{name_of(suspect.sample, dataset)}: {suspect.spreads:.1f} spreads",
        )
        for suspect in shown
    ]
    title = f"{dataset.name}: {len(shown)} of {len(screening.suspects)} suspects, the worst first"
    write_image(sheet, contact_sheet(panels, columns=2, title=title))
    return [listed, sheet]
