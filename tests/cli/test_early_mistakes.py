"""Simple mistakes are seen before torch is loaded: that takes seconds, to look at a path none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import HANGS_S

# Every command line in one process: whatever one of them loads stays loaded for the next.
CODE = """
import json, sys
from click.testing import CliRunner
from edgeseg.cli.group import cli

heavy = {"torch", "torchvision", "onnx", "onnxruntime", "safetensors"}
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(cli, arguments)
    print(json.dumps([result.exit_code, result.stderr, sorted(heavy & set(sys.modules))]))
"""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_nothing_heavy_is_loaded_for_a_mistake(plate, small_artefact_path, empty, tmp_path):
    gone, blocked, out = tmp_path / "gone", tmp_path / "file" / "x", tmp_path / "x"
    blocked.parent.write_text("in the way")
    model, image = small_artefact_path, plate / "test/good/000.png"
    shard = ("--shard", "0/2")
    no_folder, no_file = f"{gone}: no such folder", f"{gone}: no such file; make one with `edgeseg"
    no_images, in_the_way = f"{empty}: no good pictures to fit on", str(tmp_path / "file")
    cases = {
        ("fit", gone, "--out", out): no_folder,
        ("fit", empty, "--out", out): no_images,
        ("fit", plate, "--out", blocked): in_the_way,
        ("fit", plate, "--out", out, "-k", 0): "--k 0: expected a whole number from 1",
        ("fit", plate, "--out", out, "--anomalies", empty): f"--anomalies {empty}: no images",
        ("fit", plate, "--out", tmp_path): f"--out {tmp_path}: a folder",
        ("fit", gone, "--all", "--out", out): no_folder,
        ("fit", empty, "--all", "--out", out): f"{empty}: no folders below it",
        ("moments", gone, "--out", out, *shard): no_folder,
        ("moments", empty, "--out", out, *shard): no_images,
        ("moments", plate, "--out", blocked, *shard): in_the_way,
        ("moments", plate, "--out", out, "--shard", "2/2"): "shard",
        ("merge", gone, model, "--out", out): no_file,
        ("merge", model, model, "--out", out): "a file is named twice",
        ("merge", model, "--out", out, "--calibrate", gone): f"--calibrate {gone}: no such folder",
        ("merge", model, "--out", blocked): in_the_way,
        ("update", gone, plate): no_file,
        ("update", model, gone): f"MORE {gone}: no such folder",
        ("update", model, empty): no_images,
        ("update", model): "nothing to do",
        ("update", model, plate, "--decay", 2): "--decay 2: expected above 0, up to 1",
        ("update", model, plate, "--out", blocked): in_the_way,
        ("eval", gone, plate): no_file,
        ("eval", model, gone): no_folder,
        ("eval", model, empty): no_images,
        ("eval", model, plate, "--json", blocked): in_the_way,
        ("eval", model, plate, "--pictures", blocked): in_the_way,
        ("eval", "part.onnx", plate): "part.onnx: an exported model",
        ("predict", gone, image, "--out", out): no_file,
        ("predict", model, gone, "--out", out): f"{gone}: cannot be read (No such file",
        ("predict", model, image, "--out", blocked): in_the_way,
        ("predict", model, image, "--csv", blocked): in_the_way,
        ("predict", model, empty): f"{empty}: no pictures in this folder or below it",
        ("fit", plate, "--out", out, "--report", blocked): in_the_way,
        ("fit", plate, "--out", out, "--report", out, "--all"): "--report is of one dataset",
        ("export", gone): no_file,
        ("export", model, "--out", blocked.with_suffix(".onnx")): in_the_way,
        ("export", model, "--calibrate", empty): no_images,
        ("export", model, "--out", "x.txt"): "--out x.txt: expected a name ending in .onnx",
        ("export", model, "--dla-core", 0): "--dla-core: a setting of TensorRT plans; add --trt",
        ("info", gone): no_file,
    }
    lines = [list(map(str, arguments)) for arguments in cases]
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(lines)],
        capture_output=True, text=True, timeout=HANGS_S, cwd=tmp_path,
        env=os.environ | {"LANG": "C"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    for line, sentence, (code, said, loaded) in zip(lines, cases.values(), results, strict=True):
        assert said.startswith(f"Error: {sentence}"), (line, said)
        assert code in (1, 2), line
        assert loaded == [], line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
