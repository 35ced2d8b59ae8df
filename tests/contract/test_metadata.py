"""What a model file says of itself: text and back, and text that cannot be believed."""

import json
from typing import Any

import pytest

from edgeseg.contract.metadata import ModelMetadata
from edgeseg.errors import RuntimeFailure


def metadata(**changes: Any) -> ModelMetadata:
    values: dict[str, Any] = {
        "name": "bottle",
        "input": {"name": "frames", "channels": "RGB", "size_hw": [704, 256], "batch": [1, 1, 4]},
        "outputs": ["map", "score", "grid"],
        "preprocess": {"mean": [0.5] * 3, "std": [0.2] * 3, "inside_graph": True},
        "threshold": {"score": 12.3, "pixel": 12.3, "false_alarm_rate": 0.01, "method": "split"},
        "good_scores": {"count": 209, "mean": 8.1},
        "drift": {"d2_mean": [[1.0]], "d2_std": [[0.1]], "frame_mean": 1.0, "frame_std": 0.1},
        "grid_hw": [88, 32],
        "k": 100,
        "rank": 64,
        "backbone": {"name": "resnet18", "weights_sha256": "ab", "random_weights": False},
        "artefact_sha256": "cd",
        "precision": "fp32",
        "target": "cpu",
    }
    return ModelMetadata(**(values | changes))


def test_text_and_back():
    for original in (
        metadata(),
        metadata(onnx_sha256="ef", plan={"builder": "rtx"}, accuracy=[{}]),
    ):
        text = original.to_json()
        assert ModelMetadata.from_json(text, source="m.onnx") == original
        assert text == ModelMetadata.from_json(text, source="m.onnx").to_json()
    assert metadata().size_hw == (704, 256)


def test_what_is_absent_is_left_out():
    values = json.loads(metadata().to_json())
    assert "plan" not in values
    assert "onnx_sha256" not in values
    assert values["schema"] == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "{",
            "m.onnx: its edgeseg metadata is not JSON (Expecting property name enclosed in double "
            "quotes: line 1 column 2 (char 1)); export the model again",
        ),
        (
            "[]",
            "m.onnx: metadata schema None, expected 1; "
            "export the model again with this version of edgeseg",
        ),
        (
            '{"schema": 2}',
            "m.onnx: metadata schema 2, expected 1; "
            "export the model again with this version of edgeseg",
        ),
    ],
)
def test_text_that_is_no_metadata(text, sentence):
    with pytest.raises(RuntimeFailure) as caught:
        ModelMetadata.from_json(text, source="m.onnx")
    assert str(caught.value) == sentence


def test_keys_are_checked_both_ways():
    values = json.loads(metadata().to_json())
    del values["k"]
    values["K"] = 100
    with pytest.raises(RuntimeFailure) as caught:
        ModelMetadata.from_json(json.dumps(values), source="m.onnx")
    assert str(caught.value) == (
        "m.onnx: metadata with unknown keys ['K'] and missing keys ['k']; "
        "export the model again with this version of edgeseg"
    )
