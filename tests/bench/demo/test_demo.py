"""`edgeseg demo`: its steps are commands that exist, and its page says what they found."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import click
import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.bench.demo.demo import Demo
from edgeseg.bench.demo.demo_page import MOST_KINDS, write_demo_report
from edgeseg.data.planted.kinds import KINDS
from edgeseg.decision.score_origin import percent
from edgeseg.runtime.capture.image_files import image_paths
from edgeseg.vision.images import images_in, read_image, write_image
from tests.support import KEPT
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.documents import parse_command
from tests.support.small_models import write_plate


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of a demo, taken down instead of run."""
    lines: list[list[str]] = []

    def note(self: Demo, *arguments: object) -> str:
        lines.append([str(word) for word in arguments])
        if arguments[0] == "synthesize":
            write_plate(Path(str(arguments[1])))
        return "{}"

    monkeypatch.setattr(Demo, "_edgeseg", note)
    return lines


@pytest.mark.parametrize("labelled", [True, False])
def test_every_step_is_a_command_that_parses(tmp_path, typed, labelled):
    data = write_plate(tmp_path / "photos")
    if not labelled:
        data = data / "train/good"
    for run in (Demo(tmp_path / "own", data), Demo(tmp_path / "synthetic", None)):
        run.fit_and_evaluate("efficientnet_lite1")
        run.export()
        run.compare("efficientnet_lite1")
        run.stream()
    names = [line[0] for line in typed]
    assert names.count("fit") == 3 + labelled  # the published method, where it can be compared
    assert names.count("stream") == 2
    assert names.count("synthesize") == 1
    assert names.count("eval") == 1 + labelled
    assert names.count("threshold") == 2
    assert names.count("predict") == 1 - labelled, "of planted defects, where there are no others"
    for line in typed:
        parse_command(line)


@pytest.mark.parametrize(
    "line",
    [
        "stream --model part.onnx --source 0 --sever 8080",
        "stream --model part.onnx",
        "stream --model part.onnx --source 0 --serve page",
        "fit parts --out part.edgeseg --preset edgy",
        "eval part.edgeseg",
        "bench latency --rounds 0 part.onnx --out out",
    ],
)
def test_lines_that_do_not_parse(line):
    """Of the reader itself: it also holds the commands of the documents."""
    with pytest.raises(click.UsageError):
        parse_command(line.split())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """What the commands of a demo leave behind, in little."""
    for name in ("part.onnx", "part-int8.onnx"):
        write_brightness_model(tmp_path / name, metadata=brightness_metadata())
    source = "synthetic:fps=0,frames=3,height=64,width=96"
    settings = ("--report", tmp_path / "latency.json", "--threads", 1, "--backend", "cpu")
    succeed("stream", "--model", tmp_path / "part.onnx", "--source", source, *settings)
    return tmp_path


def write(out: Path, *, synthetic: bool = True) -> str:
    page = write_demo_report(
        out=out,
        models={"edge, fp32": out / "part.onnx", "edge, int8": out / "part-int8.onnx"},
        latency=out / "latency.json",
        plan={"plan_bytes": 10_300_000, "build": {"build_seconds": 0.7}},
        threshold=json.loads(succeed("threshold", KEPT / "part.edgeseg", "--json").stdout),
        seconds=90,
        synthetic=synthetic,
    )
    return page.read_text(encoding="utf-8")


def test_the_page_says_what_was_found(made):
    evaluation = {"images": 30, "anomalies": 20, "recall": 0.95, "false_alarms": 1}
    (made / "eval.json").write_text(json.dumps(evaluation))
    for kind in ("good", *"abcdefg"):
        (made / "pictures" / kind).mkdir(parents=True)
        cv2.imwrite(str(made / "pictures" / kind / "000.png"), np.zeros((90, 200, 3), np.uint8))
    text = write(made)
    assert "19 of 20 defective parts were found and 1 of 10 good ones flagged." in text
    assert "A TensorRT-RTX plan of 10.3 MB was built in 0.7 s" in text
    assert "synthetic part" in text
    assert "Accuracy against time" in text
    assert text.count("<td>float32</td><td>no</td>") == 2, "beside the times of each model"
    assert text.count("streamed p50 ms") >= 1
    assert "On ONNX Runtime CPU, 1 thread, float32, no spin. Capture age" in text
    assert text.index("capture age") < text.index("<td>infer") < text.index("<td>end to end")
    height = cv2.imread(str(made / "found.png")).shape[0]
    assert (MOST_KINDS + 1) * 90 < height < (MOST_KINDS + 2.5) * 90 + MOST_KINDS * 40


def test_a_page_without_masks_has_dashes_for_pro(made):
    row = {"dataset": "d", "pro": None, "image_auroc": 0.91, "images": 3, "anomalies": 1}
    for name in ("part.onnx", "part-int8.onnx"):
        metadata = replace(brightness_metadata(), accuracy=(row,))
        write_brightness_model(made / name, metadata=metadata)
    text = write(made)
    assert text.count("0.910") == 2
    assert "Accuracy against time" not in text


def test_own_images_without_labels(made):
    text = write(made, synthetic=False)
    assert "synthetic part" not in text
    assert "defective parts" not in text
    assert "frames a second got a verdict" in text
    assert not (made / "found.png").exists()


def test_good_images_alone_show_threshold_promise_and_planted_defects(made, plate, typed):
    run = Demo(made, plate / "train/good")
    assert run._plant()
    planted = {path.stem: read_image(path) for path in run.planted.iterdir()}
    assert planted.keys() == {*KINDS, "good"}
    pictures = [read_image(path) for path in images_in(plate / "train/good")]
    for kind, picture in planted.items():
        changed = min(np.count_nonzero((picture != good).any(axis=2)) for good in pictures)
        assert (0 < changed < picture.shape[0] * picture.shape[1] / 2) == (kind != "good")
        write_image(made / "pictures" / f"{kind}.png", picture)
    text = write(made, synthetic=False)
    facts = json.loads(succeed("threshold", KEPT / "part.edgeseg", "--json").stdout)
    stored = next(
        row for row in facts["rates"] if row["requested_rate"] == facts["stored"]["requested_rate"]
    )
    assert stored["kept"]
    promise = f"at most {percent(stored['promised_rate'])} of good parts are stopped by mistake"
    assert f"The threshold is {stored['score']:.4f}: {promise}." in text
    assert f"{stored['recall']:.0%} of {facts['planted']['count']} defects planted on" in text
    assert facts["guarantee"] in text
    assert (made / "found.png").is_file()


def test_a_stream_of_own_images_finds_them_at_any_depth(tmp_path, plate, typed):
    """A data set and a folder of folders, whose root has no picture of its own."""
    shutil.copytree(plate / "train/good", tmp_path / "photos/monday")
    shutil.copytree(plate / "train/good", tmp_path / "photos/tuesday")
    for data, count in ((plate, len(list((plate / "test").rglob("*.png")))), (tmp_path, 20)):
        run = Demo(tmp_path / "out", data)
        run.stream()
        assert len(image_paths(typed[-1][typed[-1].index("--source") + 1])) == count


def test_a_wrong_folder_is_told_before_anything_is_made(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="no good pictures to fit on"):
        Demo(tmp_path / "out", tmp_path / "empty")
    assert not (tmp_path / "out").exists()
