"""Use an exported model in programs: frames in, judged predictions out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.progress import Note
from edgeseg.decision.judge_pictures import judge_pictures
from edgeseg.decision.judgement import JudgedPrediction, judge
from edgeseg.decision.prediction import Prediction, blend_tiles
from edgeseg.decision.several import PartLooks, judge_picture, whole_prediction
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.signature import Statement
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.scoring.model_input import InputMaker, cut, fit_into, look_over
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.frames import Channels, Picture, PictureT, frame_of
from edgeseg.vision.geometry import View
from edgeseg.vision.picture_kinds import Colour


class Detector:
    """A model on one backend; from `edgeseg.runtime.open`. One thread at a time."""

    def __init__(self, session: Session, *, threshold: float | None = None) -> None:
        self._session = session
        self.thresholds = session.metadata.thresholds(threshold)
        self._inputs = InputMaker(session.metadata)

    def __repr__(self) -> str:
        return f"<edgeseg detector of {self.metadata.name}: {self.backend}>"

    @property
    def backend(self) -> str:
        """The backend, for people: "ONNX Runtime CPU, 2 threads"."""
        return self._session.backend

    @property
    def runs_on(self) -> str:
        """The backend and all settings that times depend on: "..., float32, no spin"."""
        return self._session.runs_on

    @property
    def entry(self) -> str:
        """The backend, for programs: cpu, openvino, cuda or tensorrt."""
        return self._session.entry

    @property
    def statement(self) -> Statement | None:
        """The signed statement on the file, where keys are trusted."""
        return self._session.statement

    @property
    def metadata(self) -> ModelMetadata:
        """The file's metadata."""
        return self._session.metadata

    @property
    def fitted_colour(self) -> Colour | None:
        """Whether the fit's pictures were grey or coloured; None if the file does not say."""
        limits = self.thresholds.appearance
        return None if limits is None else limits.colour

    @property
    def threshold(self) -> float:
        """The score threshold; higher scores are anomalous."""
        return self.thresholds.score

    @property
    def pixel_threshold(self) -> float:
        """The pixel threshold; higher pixels of the map are marked."""
        return self.thresholds.pixel

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

        A picture is resized as it was for fitting, and cut if the model was fitted on a region or
        on tiles. The map covers it at the model's resolution; regions are in its pixels.
        """
        return judge_pictures(picture, channels, self._judge)

    def _judge(self, frame_hwc: NDArray[np.uint8], channels: Channels) -> JudgedPrediction:
        looks = self._inputs.find_parts(frame_hwc)
        if looks is not None:
            each = self._score_parts(frame_hwc, looks, channels=channels)
            return judge_picture(looks, each, self.thresholds, self.metadata.good_scores)
        found = self._inputs.find_part(frame_hwc)
        view = self._inputs.view(frame_hwc.shape[:2], None if found is None else found.look)
        prediction = self._score_view(frame_hwc, view, channels=channels)
        return judge(
            prediction,
            thresholds=self.thresholds,
            good=self.metadata.good_scores,
            view=view,
            found=found,
        )

    def score(self, picture: Picture, *, channels: Channels = "rgb") -> Prediction:
        """Score a picture without a verdict; a part that is not found is scored as if it were."""
        frame_hwc, channels = frame_of(picture, channels)
        looks = self._inputs.find_parts(frame_hwc)
        if looks is not None:
            return whole_prediction(looks, self._score_parts(frame_hwc, looks, channels=channels))
        found = self._inputs.find_part(frame_hwc)
        view = self._inputs.view(frame_hwc.shape[:2], None if found is None else found.look)
        return self._score_view(frame_hwc, view, channels=channels)

    def picture(self, frame_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the part of a frame that the model sees, at the size of its input.

        Of several parts that is the whole frame, in which each of them is looked for.
        """
        if self._inputs.geometry.several is not None:
            return frame_hwc
        found = self._inputs.find_part(frame_hwc)
        view = self._inputs.view(frame_hwc.shape[:2], None if found is None else found.look)
        return view.picture(frame_hwc)

    def _score_parts(
        self, frame_hwc: NDArray[np.uint8], looks: PartLooks, *, channels: Channels
    ) -> list[Prediction]:
        self._inputs.geometry.check(frame_hwc.shape[:2])
        swap = channels != self.metadata.input.channels.lower()
        input_nhwc = np.empty((len(looks.views), *self.metadata.size_hw, 3), np.uint8)
        for view, slot_hwc in zip(looks.views, input_nhwc, strict=True):
            self._inputs.into(frame_hwc, slot_hwc, view=view, swap=swap)
        predictions = self._session.infer(input_nhwc) if looks.views else []
        return self._inputs.count_parts(predictions, input_nhwc, looks)

    def _score_view(
        self, frame_hwc: NDArray[np.uint8], view: View, *, channels: Channels
    ) -> Prediction:
        swap = channels != self.metadata.input.channels.lower()
        self._inputs.geometry.check(frame_hwc.shape[:2])
        tiling = self.metadata.tiling
        if tiling is None:
            input_nhwc = np.empty((1, *self.metadata.size_hw, 3), np.uint8)
            self._inputs.into(frame_hwc, input_nhwc[0], view=view, swap=swap)
            prediction = self._inputs.mask_ignored(self._session.infer(input_nhwc)[0], view)
            prediction = self._inputs.explain(prediction, input_nhwc[0])
            return replace(prediction, appearance=appearance_of(input_nhwc[0]))
        crop_hwc = view.crop(frame_hwc)
        pieces = cut(crop_hwc, tiling)
        input_nhwc = np.empty((len(pieces), *self.metadata.size_hw, 3), np.uint8)
        for piece_hwc, slot_hwc in zip(pieces, input_nhwc, strict=True):
            fit_into(piece_hwc, slot_hwc, swap=swap)
        blended = blend_tiles(self._session.infer(input_nhwc), tiling)
        return replace(blended, appearance=look_over(crop_hwc, tiling, swap=swap))

    def close(self) -> None:
        """Release the device."""
        self._session.close()

    def __enter__(self) -> "Detector":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_detector(
    model: Path, options: SessionOptions, *, threshold: float | None = None, note: Note
) -> Detector:
    """Load the model; the session is closed again if it has no threshold."""
    session = open_session(model, options, note=note)
    try:
        return Detector(session, threshold=threshold)
    except Exception:
        session.close()
        raise
