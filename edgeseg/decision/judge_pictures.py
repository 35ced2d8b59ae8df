"""Judge what a program passes to `predict`: one picture, a list of them, or a folder."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.decision.judgement import JudgedPrediction
from edgeseg.vision.frames import Channels, Picture, each_picture, frame_of
from edgeseg.vision.unreadable import unreadable_error

JudgeFrame = Callable[[NDArray[np.uint8], Channels], JudgedPrediction]  # (H, W, 3) of 8 bits


def judge_pictures(
    given: Any, channels: Channels, judge_frame: JudgeFrame
) -> JudgedPrediction | list[JudgedPrediction]:
    """Return the result of one picture, or a list for a folder or a list.

    Pictures of a folder come by name. All that cannot be read are named by one error.
    """
    is_path = isinstance(given, str | os.PathLike)
    if (is_path and not Path(given).is_dir()) or (not is_path and not _is_list(given)):
        return _judge(given, frame_of(given, channels), judge_frame)
    results: list[JudgedPrediction] = []
    faults: list[DatasetError] = []
    count = 0
    for count, picture in enumerate(each_picture(given), start=1):
        try:
            frame = frame_of(picture, channels, name=f"picture {count}")
        except DatasetError as error:
            faults.append(error)
            continue
        if not faults:
            results.append(_judge(picture, frame, judge_frame))
    if faults:
        raise unreadable_error(faults, of=count)
    return results


def _is_list(given: Any) -> bool:
    return hasattr(given, "__iter__") and not isinstance(given, np.ndarray)


def _judge(
    picture: Picture, frame: tuple[NDArray[np.uint8], Channels], judge_frame: JudgeFrame
) -> JudgedPrediction:
    result = judge_frame(*frame)
    if isinstance(picture, str | os.PathLike):
        return replace(result, path=Path(picture))
    return result
