"""Fit, load, predict: what `import edgeseg` offers to programs.

    model = edgeseg.fit("parts/good", out="part.edgeseg")
    result = model.predict(frame_hwc)
    if result.anomalous:
        print(result.score, result.threshold, [region.box_xywh for region in result.regions])
    model.export("part.onnx")  # for edgeseg.runtime.open, which needs no torch

A user's mistake is an EdgesegError of one sentence.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable
from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import Note, Progress, ignore, silent
from edgeseg.config import DEFAULT_PRESET, FitConfig
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.open_data import Data, Folder, KnownData, kind_order, open_data, open_known
from edgeseg.decision.explain import explained_facts, with_explanation
from edgeseg.decision.judge_pictures import judge_pictures
from edgeseg.decision.judgement import JudgedPrediction, judge
from edgeseg.decision.prediction import Prediction
from edgeseg.decision.several import PartLooks, judge_picture
from edgeseg.evaluation.evaluate import Evaluation, Visitor
from edgeseg.evaluation.evaluate import evaluate as evaluate_on
from edgeseg.export.options import ExportOptions
from edgeseg.fitting.fitting import fit as fit_artefact
from edgeseg.fitting.locator.wish import check_wish
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.variants import check_opened
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.predictor import frame_predictor, torch_scorer, variant_predictor
from edgeseg.modelfile.header import check_artefact_name, refuse_exported
from edgeseg.runtime.backends.session_options import RunBackbone
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.frames import Channels, Picture, PictureT
from edgeseg.vision.geometry import PLAIN, Geometry, Polygon, Roi, View
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.ignored import paint_ignored, read_regions
from edgeseg.vision.picture_kinds import Colour


class Model:
    """A fitted model; from `edgeseg.fit` or `edgeseg.load`."""

    def __init__(self, artefact: Artefact, *, path: Path | None = None) -> None:
        self.artefact = artefact
        self._path = path  # the file that holds this artefact, if any
        model = artefact.model()
        self._predict = frame_predictor(variant_predictor(model), artefact.config)
        self._score = torch_scorer(model, artefact.config)
        self._good_scores = artefact.calibration.statistics

    def __repr__(self) -> str:
        config, name = self.artefact.config, self.artefact.data["name"]
        height, width = config.image_hw
        return f"<edgeseg model of {name}: {config.backbone}, {height}x{width}>"

    @property
    def info(self) -> JsonObject:
        """Settings, weights, calibration, data and versions, as `edgeseg info` shows them."""
        shown = explained_facts(self.artefact.reasons, self.artefact.kinds)
        return self.artefact.header() | shown

    @property
    def fitted_colour(self) -> Colour | None:
        """The kind of the pictures of the fit, grey or colour; None where the file does not say."""
        limits = self.artefact.calibration.thresholds.appearance
        return None if limits is None else limits.colour

    @property
    def threshold(self) -> float:
        """The threshold: scores above it are anomalous."""
        return self.artefact.calibration.score_threshold

    @overload
    def predict(self, picture: Picture, *, channels: Channels = "rgb") -> JudgedPrediction: ...

    @overload
    def predict(
        self,
        picture: list[PictureT] | tuple[PictureT, ...] | Iterator[PictureT],
        *,
        channels: Channels = "rgb",
    ) -> list[JudgedPrediction]: ...

    def predict(
        self, picture: Any, *, channels: Channels = "rgb"
    ) -> JudgedPrediction | list[JudgedPrediction]:
        """Judge a picture of any size, a list of pictures, or a folder of them.

        picture: a path, or a numpy array (height, width) or (height, width, 3) of 8 or 16 bits. A
            list gives a list of results, in its order. So does a folder, by name and at any depth;
            each result has the `path` of its picture. For a type checker a path is one picture:
            write [folder].
        channels: the order in arrays of colours; "bgr" for what OpenCV has captured or read.

            result = model.predict("today/001.png")
            if result.anomalous:
                print(result.verdict, result.score, result.threshold, result.oddness)
            bad = [each.path for each in model.predict(["today"]) if each.anomalous]

        A picture is cut and resized as it was for fitting. The map covers it at the model's
        resolution (stretch it with cv2.resize); regions are in its pixels.
        """
        return judge_pictures(picture, channels, self._judge)

    def _judge(self, frame_hwc: NDArray[np.uint8], channels: Channels) -> JudgedPrediction:
        config, frame_hw = self.artefact.config, frame_hwc.shape[:2]
        config.geometry.check(frame_hw)
        thresholds = self.artefact.calibration.thresholds
        looks = PartLooks.of(frame_hwc, config.geometry, config.image_hw)
        if looks is not None:
            each = [self._score_view(frame_hwc, view, channels) for view in looks.views]
            return judge_picture(looks, each, thresholds, self._good_scores)
        found = config.geometry.find(frame_hwc)
        view = config.geometry.view(
            frame_hw, config.image_hw, None if found is None else found.look
        )
        return judge(
            self._score_view(frame_hwc, view, channels),
            thresholds=thresholds,
            good=self._good_scores,
            view=view,
            found=found,
        )

    def _score_view(
        self, frame_hwc: NDArray[np.uint8], view: View, channels: Channels
    ) -> Prediction:
        config = self.artefact.config
        resized_hwc = view.picture(frame_hwc)
        input_hwc = resized_hwc if channels == "rgb" else resized_hwc[:, :, ::-1]
        input_hwc = paint_ignored(np.ascontiguousarray(input_hwc), config.geometry)
        prediction = self._score(input_hwc, view.inside(config.grid_hw))
        if config.tiling is None:
            prediction = with_explanation(
                prediction,
                input_hwc,
                grid_hw=config.grid_hw,
                kinds=self.artefact.kinds,
                reasons=self.artefact.reasons,
            )
        return replace(prediction, appearance=appearance_of(input_hwc))

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
        """Measure how well defects are found, on the labelled test set of a dataset.

        data: the dataset's folder, with defective pictures. A figure is None where masks or
            pictures that it needs are missing.
        layout, fold: the kind of the dataset, where it is not recognised, and which of its folds.
        batch_size: pictures that are scored at once.
        max_bad: unreadable pictures that are skipped; one more is an error.
        max_pixels: the most pixels of a picture, by its header.
        note: is told what was skipped; `print` will do.
        progress: wraps the loop over batches, to show how far it is.
        visit: is called with each picture, its map, score and verdict.

            print(model.evaluate("mvtec_ad/bottle").pro)
        """
        config = self.artefact.config
        if not isinstance(data, Dataset):
            several = bool(config.variants)
            data = open_dataset(
                Path(data), layout=layout, fold=fold, seed=config.seed, variants=several
            )
        return evaluate_on(
            self._predict,
            data,
            size_hw=config.image_hw,
            geometry=config.geometry,
            grid_hw=config.grid_hw,
            thresholds=self.artefact.calibration.thresholds,
            variants=config.variants,
            batch_size=batch_size,
            max_bad=max_bad,
            max_pixels=max_pixels,
            progress=progress,
            on_bad=lambda _, reason: note(f"skipped {reason}"),
            visit=visit,
        )

    def with_accuracy(self, evaluation: Evaluation) -> "Model":
        """Return a model that keeps these figures, for its graph and the stream's report.

        evaluation: what `evaluate` has returned; it replaces an earlier one on the same dataset.
        """
        others = [
            entry for entry in self.artefact.accuracy if entry["dataset"] != evaluation.dataset
        ]
        return Model(replace(self.artefact, accuracy=[*others, evaluation.summary()]))

    def save(self, path: Folder) -> Path:
        """Write the model in one step.

        path: its file, for example part.edgeseg.
        """
        check_artefact_name(Path(path))
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
        split: bool = ExportOptions.split,
        channels: Channels = "rgb",
        allow_random_weights: bool = False,
        note: Note = ignore,
        progress: Progress = silent,
    ) -> Path:
        """Write one verified ONNX graph for `edgeseg.runtime.open` and `edgeseg stream`.

        path: the graph, a name that ends in .onnx; its sidecar, .json, is written beside it.
        precision: "fp32", "fp16", "bf16" or "int8".
        calibrate: good images to round and to compare on, as `fit` takes them; those of the fit
            will do. int8 and bf16 need some.
        backend: the session that int8 and bf16 are made for, "cpu" or "openvino".
        split: also write part.backbone.onnx for an accelerator, and part.head.onnx, which
            `edgeseg.runtime.open` runs behind it.
        channels: the order in `calibrate`, where it is arrays; "bgr" for OpenCV's.
        allow_random_weights: also export a model that means nothing, for a test.
        note: is told what was done; `print` will do.
        progress: wraps its loops, to show how far they are.

            model.export("part-int8.onnx", precision="int8", calibrate="parts/good")
        """
        from edgeseg.export.onnx_export import export_onnx  # predicting needs no onnx

        target = Path(path)
        if target.suffix != ".onnx":
            raise UsageError(f"{target}: expected a name ending in .onnx")
        options = ExportOptions(
            precision=precision,
            backend=backend,
            split=split,
            allow_random_weights=allow_random_weights,
        )
        with ExitStack() as stack:
            good = None
            if calibrate is not None:
                good = stack.enter_context(self._open_good(calibrate, channels=channels))
            exported = export_onnx(
                self.artefact,
                target,
                options=options,
                artefact_path=self._path,
                good=good,
                note=note,
                progress=progress,
            )
            if split:
                from edgeseg.export.split_export import export_halves

                export_halves(exported, self.artefact, good=good, note=note)
        return target

    def refit_head(
        self,
        head: Folder,
        *,
        backbone: RunBackbone,
        calibrate: Data,
        channels: Channels = "rgb",
        note: Note = ignore,
        progress: Progress = silent,
    ) -> Path:
        """Fit the .head.onnx of a split export again, through the accelerator that runs the rest.

        An accelerator in int8 gives other features than this model was fitted on. Mean, covariance,
        threshold and drift baseline are taken again from those, and the head is written if it still
        decides as this model does.

        head: the file of `export(..., split=True)`.
        backbone: the function that runs the other half, from uint8 frames (N, H, W, 3) to its taps.
        calibrate: good images, as `fit` takes them; all of the fit, if they are there.
        channels: the order in `calibrate`, where it is arrays; "bgr" for OpenCV's.
        note: is told what was done; `print` will do.
        progress: wraps its loops, to show how far they are.
        """
        from edgeseg.export.refit_head import refit_head

        target = Path(head)
        with self._open_good(calibrate, channels=channels) as good:
            refit_head(target, self.artefact, good, backbone=backbone, note=note, progress=progress)
        return target

    def _open_good(self, good: Data, *, channels: Channels) -> AbstractContextManager[Dataset]:
        config = self.artefact.config
        return open_data(
            good,
            size_hw=config.image_hw if config.geometry == PLAIN else None,
            channels=channels,
            seed=config.seed,
            variants=bool(config.variants),
        )


def load(path: Folder) -> Model:
    """Read a model that `edgeseg fit` or `Model.save` wrote.

    path: the .edgeseg file. A graph of `export` is opened by `edgeseg.runtime.open`.

        print(edgeseg.load("part.edgeseg").predict("today/001.png").verdict)
    """
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
    check_wish(locate)
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
    variants: bool = False,
    known: KnownData | None = None,
    smallest: int | None = None,
    options: FitOptions | None = None,
) -> Model:
    """Fit a model on pictures of good parts alone, and choose its threshold.

    data: a folder of good pictures, a dataset of a known layout, or pictures as `Model.predict`
        takes them, from a list or an iterator. Fifty different parts are a good beginning.
    out: a file to write the model to as well, such as part.edgeseg.
    preset: "edge" (fast and accurate), "paper" (the published method), or a FitConfig with
        settings of your own. The three that follow override it.
    backbone: the network that looks at pictures, such as "efficientnet_lite1" (the default, whose
        weights come with edgeseg[fit]) or "mobilenet_v3_small" (faster, and less exact).
    size_hw: height and width that pictures are resized to, (256, 256) by default. Larger finds
        smaller defects, and takes longer.
    false_alarm_rate: the share of good parts that may be called defective, 0.02 by default. It
        chooses the threshold, and needs 1 / rate - 1 different parts.
    roi: (x, y, width, height) of what to look at, in pixels of the pictures.
    ignore: polygons [(x, y), ...] of what does not matter, or a file of them: JSON, or a picture
        that is white there.
    locate: "blob" (by its outline) or "anchor:X,Y,W,H" (by that rectangle of the first picture) to
        find the part first, where parts lie anywhere; "blobs" to judge several parts in every
        picture, each by its outline; "auto" takes what finds most planted defects.
    channels: the order in arrays of colours; "bgr" for what OpenCV has captured or read.
    layout: the kind of the dataset, where it is not recognised; "folder": all pictures are good.
    fold: the fold to test on, of a dataset that has folds.
    group_by: which pictures show one part: "folder", "name:_" (the same name before the last _),
        "match:REGEX" (the same text where it matches) or "none" (each another part). By default
        near-copies are found by the pictures. Several pictures of one part count once.
    variants: whether the folders inside that of the good pictures are variants of the product. Each
        gets a mean of its own, and a prediction names the one that it shows.
    known: defects to learn from: a folder of folders by kind (with masks or outlines beside the
        pictures, if there are any), pictures, or {kind: pictures}. Good parts are stopped as seldom
        as without them. `info["known"]` tells what they taught; it is absent if that is nothing.
    smallest: the side of the smallest defect that matters, in pixels of the pictures. One that no
        pixel of the input shows is refused; `options.note` is told whether it covers a cell, and
        how many planted spots of that size are found.
    options: FitOptions with the rest: FitOptions(note=print) tells what is going on, max_bad=3
        skips up to three unreadable files, weights="file.pth" names other weights.

        model = edgeseg.fit("parts/good", out="part.edgeseg", false_alarm_rate=0.01)
        print(model.threshold, model.predict("parts/today/001.png").verdict)
        model.export("part.onnx")

    A mistake is an edgeseg.EdgesegError of one sentence.
    """
    settings = preset if isinstance(preset, FitConfig) else FitConfig.preset(preset)
    given = {"backbone": backbone, "size_hw": size_hw, "false_alarm_rate": false_alarm_rate}
    config = settings.with_options({k: v for k, v in given.items() if v is not None})
    config = replace(config, geometry=_geometry(config.geometry, roi, ignore, locate))
    options = options or FitOptions()
    if smallest is not None:
        options = replace(options, smallest=smallest)
    if group_by is not None:
        options = replace(options, group_by=GroupBy(text=group_by))
    if out is not None:
        check_artefact_name(Path(out))
        check_writable(Path(out))
    size = config.image_hw if config.geometry == PLAIN and not options.smallest else None
    with (
        open_data(
            data,
            size_hw=size,
            channels=channels,
            layout=layout,
            fold=fold,
            seed=config.seed,
            variants=variants,
        ) as dataset,
        open_known(known, size_hw=size, channels=channels) as defects,
    ):
        if variants:
            check_opened(dataset)
        if known is not None:
            options = replace(options, known=defects, kind_order=kind_order(known))
        model = Model(fit_artefact(dataset, config, options))
    if out is not None:
        model.save(out)
    return model
