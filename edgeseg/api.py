"""Fit, load, predict: what `import edgeseg` offers to programs.

    model = edgeseg.fit("parts/good", out="part.edgeseg")
    result = model.predict(frame_hwc)
    if result.anomalous:
        print(result.score, result.threshold, [region.box_xywh for region in result.regions])
    model.export("part.onnx")  # for edgeseg.runtime.open, which needs no torch

A user's mistake is an EdgesegError of one sentence.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable
from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import Note, Progress, ignore, silent
from edgeseg.config import DEFAULT_PRESET, FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.open_data import Data, Folder, open_data
from edgeseg.decision.judgement import JudgedPrediction, chance, judge
from edgeseg.decision.prediction import Prediction
from edgeseg.evaluation.evaluate import Evaluation, Visitor
from edgeseg.evaluation.evaluate import evaluate as evaluate_on
from edgeseg.export.options import ExportOptions
from edgeseg.fitting.fitting import fit as fit_artefact
from edgeseg.fitting.options import FitOptions
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.predictor import frame_predictor, torch_predictor
from edgeseg.modelfile.header import refuse_exported
from edgeseg.vision.anchor import check_locate
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.frames import Channels, check_frame
from edgeseg.vision.geometry import PLAIN, Geometry, Polygon, Roi
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.ignored import paint_ignored, read_regions
from edgeseg.vision.picture_kinds import Colour


class Model:
    """A fitted model; from `edgeseg.fit` or `edgeseg.load`."""

    def __init__(self, artefact: Artefact, *, path: Path | None = None) -> None:
        self.artefact = artefact
        self._path = path  # the file that holds this artefact, if any
        self._predict = frame_predictor(torch_predictor(artefact.model()), artefact.config)
        self._good_scores = artefact.calibration.statistics

    def __repr__(self) -> str:
        config, name = self.artefact.config, self.artefact.data["name"]
        height, width = config.image_hw
        return f"<edgeseg model of {name}: {config.backbone}, {height}x{width}>"

    @property
    def info(self) -> JsonObject:
        """Settings, weights, calibration, data and versions, as `edgeseg info` shows them."""
        return self.artefact.header()

    @property
    def fitted_colour(self) -> Colour | None:
        """The kind of the pictures of the fit, grey or colour; None where the file does not say."""
        limits = self.artefact.calibration.thresholds.appearance
        return None if limits is None else limits.colour

    @property
    def threshold(self) -> float:
        """The threshold: scores above it are anomalous."""
        return self.artefact.calibration.score_threshold

    def predict(
        self, frame_hwc: NDArray[np.uint8], *, channels: Channels = "rgb"
    ) -> JudgedPrediction:
        """Score one frame of any size; channels="bgr" for OpenCV's captures.

        The frame is cut and resized as it was for fitting. The map covers the frame at the model's
        resolution (stretch it with cv2.resize); regions are in pixels of the frame.
        """
        check_frame(frame_hwc, channels)
        config, frame_hw = self.artefact.config, frame_hwc.shape[:2]
        config.geometry.check(frame_hw)
        found = config.geometry.find(frame_hwc)
        view = config.geometry.view(
            frame_hw, config.image_hw, None if found is None else found.look
        )
        resized_hwc = view.picture(frame_hwc)
        input_hwc = resized_hwc if channels == "rgb" else resized_hwc[:, :, ::-1]
        input_hwc = paint_ignored(np.ascontiguousarray(input_hwc), config.geometry)
        inside = view.inside(config.grid_hw)
        maps, scores = self._predict(input_hwc[None], () if inside is None else (inside,))
        prediction = Prediction(
            map_hw=maps[0], score=float(scores[0]), appearance=appearance_of(input_hwc)
        )
        return judge(
            prediction,
            thresholds=self.artefact.calibration.thresholds,
            p_value=chance(prediction.score, self._good_scores),
            view=view,
            found=found,
        )

    def evaluate(
        self,
        data: Folder | Dataset,
        *,
        layout: str | None = None,
        fold: int | None = None,
        batch_size: int = FitOptions.batch_size,
        max_bad: int = FitOptions.max_bad,
        max_pixels: int = FitOptions.max_pixels,
        note: Note = ignore,
        progress: Progress = silent,
        visit: Visitor | None = None,
    ) -> Evaluation:
        """Evaluate PRO, ROC and F1 on the labelled test set in a dataset's folder."""
        config = self.artefact.config
        if not isinstance(data, Dataset):
            data = open_dataset(Path(data), layout=layout, fold=fold, seed=config.seed)
        return evaluate_on(
            self._predict,
            data,
            size_hw=config.image_hw,
            geometry=config.geometry,
            grid_hw=config.grid_hw,
            thresholds=self.artefact.calibration.thresholds,
            batch_size=batch_size,
            max_bad=max_bad,
            max_pixels=max_pixels,
            progress=progress,
            on_bad=lambda _, reason: note(f"skipped {reason}"),
            visit=visit,
        )

    def with_accuracy(self, evaluation: Evaluation) -> "Model":
        """Return a model with these figures, in place of earlier ones on the same dataset."""
        others = [
            entry for entry in self.artefact.accuracy if entry["dataset"] != evaluation.dataset
        ]
        return Model(replace(self.artefact, accuracy=[*others, evaluation.summary()]))

    def save(self, path: Folder) -> Path:
        """Write the model in one step, for example to part.edgeseg."""
        self._path = Path(path)
        save_artefact(self.artefact, self._path)
        return self._path

    def export(
        self,
        path: Folder,
        *,
        precision: str = ExportOptions.precision,
        calibrate: Data | None = None,
        backend: str = ExportOptions.backend,
        channels: Channels = "rgb",
        allow_random_weights: bool = False,
        note: Note = ignore,
        progress: Progress = silent,
    ) -> Path:
        """Write one verified ONNX graph for `edgeseg.runtime.open` and `edgeseg stream`.

        int8 needs good images in `calibrate`, a folder or arrays: those of the fit will do. They go
        through the session that will run: ONNX Runtime's, or `backend="openvino"`.
        """
        from edgeseg.export.onnx_export import export_onnx  # predicting needs no onnx

        target, config = Path(path), self.artefact.config
        if target.suffix != ".onnx":
            raise UsageError(f"{target}: expected a name ending in .onnx")
        options = ExportOptions(
            precision=precision, backend=backend, allow_random_weights=allow_random_weights
        )
        with ExitStack() as stack:
            good = None
            if calibrate is not None:
                size_hw = config.image_hw if config.geometry == PLAIN else None
                opened = open_data(calibrate, size_hw=size_hw, channels=channels, seed=config.seed)
                good = stack.enter_context(opened)
            export_onnx(
                self.artefact,
                target,
                options=options,
                artefact_path=self._path,
                good=good,
                note=note,
                progress=progress,
            )
        return target


def load(path: Folder) -> Model:
    """Read a model that `edgeseg fit` or `Model.save` wrote."""
    path = Path(path)
    refuse_exported(path)
    return Model(load_artefact(path), path=path)


def _geometry(
    geometry: Geometry,
    roi: tuple[int, int, int, int] | None,
    ignore: Folder | Iterable[Polygon],
    locate: str,
) -> Geometry:
    """Return the geometry of the settings with the regions and the locator given beside them."""
    if roi is not None:
        geometry = replace(geometry, roi=Roi.parse(",".join(map(str, roi))))
    regions = (
        read_regions(Path(ignore))
        if isinstance(ignore, str | os.PathLike)
        else tuple(tuple((float(x), float(y)) for x, y in polygon) for polygon in ignore)
    )
    check_locate(locate)
    return replace(geometry, ignore=(*geometry.ignore, *regions), locate=locate or geometry.locate)


def fit(
    data: Data,
    *,
    out: Folder | None = None,
    preset: str | FitConfig = DEFAULT_PRESET,
    backbone: str | None = None,
    size_hw: tuple[int, int] | None = None,
    false_alarm_rate: float | None = None,
    roi: tuple[int, int, int, int] | None = None,
    ignore: Folder | Iterable[Polygon] = (),
    locate: str = "",
    channels: Channels = "rgb",
    layout: str | None = None,
    fold: int | None = None,
    group_by: str | None = None,
    options: FitOptions | None = None,
) -> Model:
    """Fit a model on good images: a folder, or uint8 arrays (height, width, 3) from any source.

    `preset` is "edge", "paper" or a FitConfig with settings of your own; backbone, size and rate
    override it. `roi` is x, y, width and height of what to look at, `ignore` polygons of what not
    to, or a file of them, in pixels of the images; `locate` is "blob" or "anchor:x,y,w,h" where
    parts lie anywhere. `group_by` says which images show one part: "folder", "name:_", "match:..."
    or "none"; otherwise near-copies are found by the images. `out` also writes the model.
    FitOptions has the rest: weights, batch size, who is told what is going on.
    """
    settings = preset if isinstance(preset, FitConfig) else FitConfig.preset(preset)
    given = {"backbone": backbone, "size_hw": size_hw, "false_alarm_rate": false_alarm_rate}
    config = settings.with_options({k: v for k, v in given.items() if v is not None})
    config = replace(config, geometry=_geometry(config.geometry, roi, ignore, locate))
    options = options or FitOptions()
    if group_by is not None:
        options = replace(options, group_by=GroupBy(text=group_by))
    if out is not None:
        check_writable(Path(out))
    with open_data(
        data,
        size_hw=config.image_hw if config.geometry == PLAIN else None,
        channels=channels,
        layout=layout,
        fold=fold,
        seed=config.seed,
    ) as dataset:
        model = Model(fit_artefact(dataset, config, options))
    if out is not None:
        model.save(out)
    return model
