"""An anchor's pictures come from a file: they are bounded and checked when it is read."""

import base64
import json
from dataclasses import asdict, replace
from typing import Any

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.plain import Malformed, record
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.vision.anchor import Anchor
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.locate import Blob
from tests.endurance.fuzz.located import camera_picture, geometry, located
from tests.support.brightness_model import brightness_metadata


def anchor() -> Anchor:
    locator = geometry().locator
    assert isinstance(locator, Anchor)
    return locator


def png(height: int, width: int) -> str:
    return base64.b64encode(cv2.imencode(".png", np.zeros((height, width), np.uint8))[1]).decode()


DAMAGED = {
    "empty": ("", "not a picture"),
    "not base64": ("***", "anchor: "),
    "not ASCII": ("ä" * 8, "anchor: "),
    "not a picture": (base64.b64encode(b"GIF89a").decode(), "a GIF picture, which cannot be read"),
    "cut": (anchor().pictures[0][:40], "truncated"),
    "oversized": (png(2000, 2000), "2000x2000 pixels by its header"),
    "of another size": (png(9, 9), "a picture of 9x9, expected 16x24 of its rectangle"),
}


@pytest.mark.parametrize(("text", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_picture_is_refused_in_one_sentence(text: str, said: str) -> None:
    pictures = (text, *anchor().pictures[1:])
    with pytest.raises(UsageError, match="fit the model again") as caught:
        replace(anchor(), pictures=pictures)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", [text for text, _ in DAMAGED.values()], ids=DAMAGED)
def test_and_with_it_the_model_that_holds_it(text: str) -> None:
    told = located(brightness_metadata())
    values = json.loads(told.to_json())
    values["geometry"]["locator"]["pictures"][0] = text
    del values["seal"]
    with pytest.raises(RuntimeFailure, match=r"part\.onnx: its edgeseg metadata cannot be used"):
        ModelMetadata.from_json(json.dumps(values | {"schema": 1}), source="part.onnx")


def test_a_whole_one_comes_back_and_finds_its_part() -> None:
    stored = json.loads(json.dumps(asdict(geometry())))
    assert record(Geometry, stored) == geometry()
    found = geometry().find(camera_picture())
    assert found is not None
    assert found.ok


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("limit",), 3.0),
        (("places", "farthest"), 0.0),
        (("places", "most_turned"), -1.0),
        (("pictures",), []),
    ],
)
def test_what_no_part_could_be_held_against_is_refused(place: tuple[str, ...], value: Any) -> None:
    stored = json.loads(json.dumps(asdict(geometry())))
    holder = stored["locator"]
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    with pytest.raises(Malformed, match=r"geometry|locator"):
        record(Geometry, stored, place="geometry")


@pytest.mark.parametrize("name", ["area", "length", "area_spread", "length_spread"])
def test_an_outline_without_a_size_is_refused(name: str) -> None:
    sizes = {"area": 9.0, "length": 2.0, "area_spread": 0.1, "length_spread": 0.1}
    with pytest.raises(UsageError, match=f"blob: {name} 0.0, expected more than 0"):
        Blob(
            home_xy=(1.0, 1.0),
            degrees=0.0,
            turns="full",
            limit=1.0,
            free=True,
            **sizes | {name: 0.0},
        )


def test_a_rectangle_beyond_the_picture_is_not_found() -> None:
    far = replace(anchor(), box=replace(anchor().box, x=10_000))
    assert far.match(camera_picture()) is None
