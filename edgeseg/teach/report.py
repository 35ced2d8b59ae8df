"""The report of a fit for `judge`: scores of pictures that were not fitted on, and maps.

report.json  {"when", "images", "good": [{"name", "score", "peak", "part", "foreign"}],
              "planted": [score], "bad": [{"name", "score", "verdict"}], "lost", "rise",
              "smallest", "spots": [score]}
maps         JPEG of the worst good ones and of the bad ones
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.base.utc import utc_time
from edgeseg.decision.judgement import JudgedPrediction
from edgeseg.decision.operating_point import OperatingPoint, operating_point
from edgeseg.decision.score_origin import Promise
from edgeseg.runtime.sinks.overlay import annotate
from edgeseg.teach.project import Project
from edgeseg.teach.thumbnails import shrunk_jpeg
from edgeseg.vision.images import images_in, read_image
from edgeseg.vision.part_groups import highest_of_parts

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact
    from edgeseg.runtime.scoring.detector import Detector
    from edgeseg.teach.job_progress import JobProgress

FILE = "report.json"
WORST = 24  # good pictures that get a map
_MOST_BAD = 200
_MAP_WIDTH = 800


@dataclass(frozen=True, kw_only=True)
class GoodScore:
    """Score of a good picture, by a model that was fitted without it."""

    name: str  # "": not known
    score: float
    peak: float
    part: int | None = None  # pictures of one part have one number; None: a part of its own
    foreign: bool = False  # far outside the scores of the others


@dataclass(frozen=True, kw_only=True)
class BadScore:
    """Score of a known bad part."""

    name: str
    score: float | None  # None: the model gave no number
    verdict: str


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """The content of report.json."""

    when: str
    images: int  # fitted
    good: tuple[GoodScore, ...]
    planted: tuple[float, ...] = ()
    bad: tuple[BadScore, ...] = ()
    # By learnings that one person decided alone, since the fit or since a second one agreed:
    lost: float = 0.0  # share of the planted defects
    rise: float = 1.0  # of the threshold, as a factor
    promise: Promise = "conformal"  # how a rate becomes a threshold
    smallest: int = 0  # side of the smallest defect that matters, in pixels; 0: not said
    spots: tuple[float, ...] = ()  # scores of planted ones of that size

    def of_parts(self) -> tuple[list[float], list[float]]:
        """Scores and peaks of parts: the highest of each part's pictures."""
        own = [item.part if item.part is not None else -1 - at for at, item in enumerate(self.good)]
        groups = np.array(own)
        scores, peaks = (
            highest_of_parts(np.array(values), groups).tolist()
            for values in zip(*((item.score, item.peak) for item in self.good), strict=True)
        )
        return scores, peaks

    def point(self, per_thousand: float) -> OperatingPoint:
        """Compute the operating point of a false-alarm rate."""
        scores, peaks = self.of_parts()
        return operating_point(
            scores,
            peaks,
            rate=per_thousand / 1000,
            promise=self.promise,
            planted=self.planted,
            pictures=len(self.good),
        )


def read_report(folder: Path) -> FitReport:
    """Read the report of a fit that ended well."""
    try:
        return record(FitReport, parse_json((folder / FILE).read_bytes()))
    except FileNotFoundError:
        raise UsageError(Message("fit_nothing")) from None
    except (OSError, Malformed) as error:
        name = str(folder / FILE)
        raise UsageError(Message("fit_unusable", name=name, why=str(error))) from None


def store_report(folder: Path, report: FitReport) -> None:
    """Write report.json."""
    write_json(folder / FILE, asdict(report))


def good_scores(artefact: "Artefact", names: Sequence[str]) -> tuple[GoodScore, ...]:
    """Collect the held-out scores of an artefact; with names where their number is the same."""
    from edgeseg.fitting.odd_inputs import foreign_images  # the service fits nothing

    good = artefact.calibration.good
    foreign = set(foreign_images(good))
    known = [PurePosixPath(name).name for name in good.images] or list(names)
    if len(known) != good.count:
        known = [""] * good.count
    parts = good.groups.astype(int).tolist() if good.groups.size else [None] * good.count
    rows = zip(known, good.scores.tolist(), good.peaks.tolist(), parts, strict=True)
    return tuple(
        GoodScore(name=name, score=score, peak=peak, part=part, foreign=place in foreign)
        for place, (name, score, peak, part) in enumerate(rows)
    )


def write_report(
    project: Project,
    folder: Path,
    artefact: "Artefact",
    *,
    names: Sequence[str] = (),
    job: "JobProgress",
) -> FitReport:
    """Judge the bad pictures and draw maps with the graph in a folder; write all of it there."""
    from edgeseg.runtime import open as open_model

    planted = artefact.planted
    good = good_scores(artefact, names)
    bad: list[BadScore] = []
    worst = [item.name for item in sorted(good, key=lambda item: -item.score)[:WORST]]
    pictures = [
        *((project.pictures("bad") / path.name, True) for path in _bad(project)),
        *((project.pictures("good") / name, False) for name in worst if name),
    ]
    (folder / "maps").mkdir(exist_ok=True)
    with open_model(folder / "model.onnx") as detector:
        for done, (path, is_bad) in enumerate(pictures):
            looking = Message("work_looking", name=path.name)
            job.at("work_looking", looking, part=done / len(pictures))
            if not path.is_file():
                continue
            judged = draw_map(detector, read_image(path), folder / "maps" / f"{path.stem}.jpg")
            if is_bad:
                score = judged.score if np.isfinite(judged.score) else None
                bad.append(BadScore(name=path.name, score=score, verdict=judged.verdict))
    report = FitReport(
        when=utc_time(),
        images=int(artefact.data["fitted"]),
        good=good,
        planted=() if planted is None else tuple(planted.scores.tolist()),
        bad=tuple(bad),
        promise=artefact.calibration.promise,
        **_spots_of(artefact),
    )
    store_report(folder, report)
    return report


def _spots_of(artefact: "Artefact") -> dict[str, Any]:
    facts = artefact.data.get("smallest")
    return {} if facts is None else {"smallest": facts["px"], "spots": tuple(facts["scores"])}


def draw_map(detector: "Detector", image_hwc: NDArray[np.uint8], target: Path) -> JudgedPrediction:
    """Judge a picture, and write a JPEG that shows where it is odd.

    A picture that was fitted on seldom reaches the threshold: its oddest place is shown all the
    same, for people to say whether it is good.
    """
    judged = detector.predict(image_hwc)
    peak = float(np.max(judged.map_hw)) if np.isfinite(judged.score) else 0.0
    picture_hwc = annotate(
        image_hwc,
        map_hw=judged.map_hw,
        regions=judged.regions,
        score=judged.score,
        threshold_score=judged.threshold,
        threshold_pixel=min(judged.pixel_threshold, peak) or judged.pixel_threshold,
        verdict=judged.verdict,
        strip=False,
    )
    target.write_bytes(shrunk_jpeg(picture_hwc, width=_MAP_WIDTH))
    return judged


def _bad(project: Project) -> list[Path]:
    return images_in(project.pictures("bad"))[:_MOST_BAD]
