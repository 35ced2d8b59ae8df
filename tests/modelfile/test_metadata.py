"""What a model file says of itself: text and back, and text that cannot be believed."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.metadata import DriftBaseline, ModelMetadata, TileLayout
from edgeseg.modelfile.seal import seal_json
from tests.endurance.fuzz.mutators import sealed_again
from tests.support.brightness_model import PLAN, brightness_metadata
from tests.support.thresholds import made_up_thresholds

METADATA = brightness_metadata()
TILED = replace(METADATA, tiles=TileLayout(frame_hw=(64, 96), overlap=8))


@pytest.mark.parametrize(
    "original", [METADATA, TILED, replace(METADATA, onnx_sha256="e", plan=PLAN)]
)
def test_text_and_back(original):
    text = original.to_json()
    assert ModelMetadata.from_json(text, source="m.onnx") == original
    assert ModelMetadata.from_json(text.encode(), source="m.onnx").to_json() == text
    assert original.size_hw == (32, 48)


def test_what_is_absent_is_left_out():
    values = json.loads(METADATA.to_json())
    assert "plan" not in values
    assert "onnx_sha256" not in values
    assert values["schema"] == 2


def refusal(text: str | bytes) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        ModelMetadata.from_json(text, source="m.onnx")
    message = str(caught.value)
    begin = "m.onnx: its edgeseg metadata cannot be used: "
    end = "; export the model again with this version of edgeseg"
    assert message.startswith(begin)
    assert message.endswith(end)
    return message[len(begin) : -len(end)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes"),
        ("[]", "schema None, expected 2"),
        ('{"schema": 3}', "schema 3, expected 2"),
        ('{"schema": 2}', "the hash of itself is missing"),
        ("[" * 100_000, "not JSON (nested too deeply)"),
        ('{"schema": ' + "9" * 5000 + "}", "not JSON (a whole number of 5000 digits"),
        (b'{"schema": "\xff\xfe"}', "not JSON ("),
        ('{"schema": NaN}', "not JSON (NaN is no number)"),
    ],
    ids=["cut", "list", "newer", "unsealed", "nested", "digits", "encoding", "nan"],
)
def test_text_that_is_no_metadata(text, reason):
    assert refusal(text).startswith(reason)


def test_every_changed_letter_of_the_text_is_refused():
    text = TILED.to_json(indent=2).encode()
    for at in range(0, len(text), 7):
        edited = bytearray(text)
        edited[at] ^= 1
        assert refusal(bytes(edited))


def test_a_changed_number_is_named_as_damage():
    text = TILED.to_json().replace('"score": 200.0', '"score": 201.0')
    assert refusal(text).endswith("as it says itself: damaged, or edited by hand")


def test_a_newline_at_the_end_is_no_change():
    text = TILED.to_json(indent=2)
    assert ModelMetadata.from_json(f"{text}\n", source="m.json") == TILED


def changed(*path: str | int, to: Any) -> str:
    """The text with one value replaced, or removed where it becomes ..., with a hash that fits."""
    values: Any = json.loads(TILED.to_json())
    del values["seal"]
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    if to is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return seal_json(values)


@pytest.mark.parametrize(
    ("path", "to", "reason"),
    [
        (("k",), ..., "missing keys ['k']"),
        (("K",), 100, "unknown keys ['K']"),
        (("k",), "100", "k: '100', expected a whole number"),
        (("k",), True, "k: True, expected a whole number"),
        (("name",), None, "name: None, expected text"),
        (("input",), [], "input: [], expected named values"),
        (("input", "layout"), "NCHW", "input.layout: 'NCHW', expected one of ['NHWC']"),
        (("input", "channels"), "GRAY", "input.channels: 'GRAY', expected one of ['RGB', 'BGR']"),
        (("input", "size_hw"), [32], "input.size_hw: 1 values, expected 2"),
        (("input", "size_hw"), [0, 4], "input.size_hw: [0, 4], expected at least 1x1"),
        (("input", "size_hw", 1), 4.5, "input.size_hw[1]: 4.5, expected a whole number"),
        (("input", "batch"), [2, 1, 4], "input.batch: [2, 1, 4], expected 1 <= min <= opt <= max"),
        (("outputs",), ["score"], "outputs: ['score'], expected also ['map']"),
        (("threshold", "score"), ..., "threshold: missing keys ['score']"),
        (("threshold", "score"), None, "threshold.score: None, expected a finite number"),
        (("threshold", "pixel"), "12", "threshold.pixel: '12', expected a finite number"),
        (("threshold", "score"), -1.0, "threshold.score: -1.0, expected a finite number from 0"),
        (("threshold", "score"), 10**400, "not JSON (a whole number of 401 digits)"),
        (("threshold", "score"), 1e6, "threshold.score: 1000000.0, over 1000 times the highest"),
        (("threshold", "false_alarm_rate"), 2, "threshold.false_alarm_rate: 2, expected from 0"),
        (("good_scores", "count"), -1, "good_scores.count: -1 from 90.0 to 150.0, expected some"),
        (("name",), "\ud800", "not JSON (half of a letter)"),
        (("threshold", "extra"), 1, "threshold: unknown keys ['extra']"),
        (("drift", "d2_mean"), [[1.0]], "drift.d2_mean: expected two grids of the same size"),
        (("drift", "d2_std", 0, 0), -1.0, "drift.d2_std: expected values from 0"),
        (("drift", "d2_std", 0), 3, "drift.d2_std[0]: 3, expected a list"),
        (("good_scores", "quantiles", "0.5"), "x", "good_scores.quantiles.0.5: 'x', expected a f"),
        (("backbone", "random_weights"), 0, "backbone.random_weights: 0, expected true or false"),
        (("accuracy", 0, "pro"), [1], "accuracy[0].pro: [1], expected a finite number"),
        (("tiles", "frame_hw"), [8, 8], "tiles: a frame of 8x8 is smaller than a tile"),
        (("plan",), {"builder": "rtx"}, "plan: missing keys ['build_seconds', 'builder_version'"),
        (("versions",), {"edgeseg": 1}, "versions.edgeseg: 1, expected text"),
    ],
)
def test_a_damaged_part_is_refused_by_name(path, to, reason):
    assert refusal(changed(*path, to=to)).startswith(reason)


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_a_threshold_that_is_no_number_is_refused(value):
    values = json.loads(TILED.to_json())
    del values["seal"]
    values["threshold"]["pixel"] = 12345.0
    text = sealed_again(seal_json(values).replace("12345.0", value).encode(), text=True).decode()
    assert value in text
    assert "no number" in refusal(text) or "threshold.pixel: inf, expected" in refusal(text)


def test_thresholds_of_the_model_or_of_the_user():
    metadata = replace(METADATA, threshold=made_up_thresholds(10.0, pixel=8.0))
    assert metadata.thresholds() is metadata.threshold
    half = metadata.thresholds(5.0)
    assert (half.score, half.pixel) == (5.0, 4.0), "both move alike"
    zero = replace(METADATA, threshold=made_up_thresholds(0.0))
    assert (zero.thresholds(5.0).score, zero.thresholds(5.0).pixel) == (5.0, 5.0)
    for value in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match=f"threshold={value}: expected a finite number from 0"):
            metadata.thresholds(value)
    with pytest.raises(UsageError, match=r"threshold=150001\.0: over 1000 times the highest score"):
        metadata.thresholds(150_001.0)
    assert metadata.thresholds(150_000.0).score == 150_000.0


def test_a_drift_baseline_of_arrays():
    mean_hw = np.array([[1.23456, 2.0], [3.0, 4.0]], np.float32)
    frame_d2 = np.array([1.0, 3.0], np.float32)
    baseline = DriftBaseline.of(mean_hw=mean_hw, std_hw=mean_hw / 2, frame_d2=frame_d2)
    assert baseline.d2_mean == ((1.235, 2.0), (3.0, 4.0)), "four digits"
    assert (baseline.frame_mean, baseline.frame_std) == (2.0, 1.0)
    np.testing.assert_array_equal(baseline.mean_hw, np.float32([[1.235, 2.0], [3.0, 4.0]]))


def test_a_plan_is_asked_of_a_graph():
    with pytest.raises(RuntimeFailure, match="brightness: its metadata does not describe a plan"):
        _ = METADATA.plan_facts
