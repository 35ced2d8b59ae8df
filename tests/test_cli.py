"""The commands as people type them: files, output, one-line errors and exit codes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from small_models import SIZE_HW, write_plate

from edgeseg import __version__
from edgeseg.artefact import load_artefact
from edgeseg.cli import COMMANDS, SUMMARIES, cli
from edgeseg.cli_fit import LAYOUT_NAMES, parse_layers, parse_size
from edgeseg.datasets import LAYOUTS

FIT = [
    "--backbone", "mobilenet_v3_small", "--weights", "random", "--size", "96", "-k", "16",
    "--rank", "10", "--folds", "3", "--false-alarm-rate", "0.1", "--ridge", "1e-6",
]  # fmt: skip


def run(*arguments: object) -> Result:
    """Run a command; anything but our own errors and click's keeps its traceback."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def succeed(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments: object, code: int) -> str:
    """The one line of an error."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")


@pytest.fixture
def model(small_artefact_path: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(small_artefact_path, tmp_path / "part.edgeseg"))


# --- fit -------------------------------------------------------------------------------------


def test_fit(plate, tmp_path):
    out = tmp_path / "models" / "part.edgeseg"
    result = succeed("fit", plate, "--out", out, *FIT)
    assert result.stdout == ""  # nothing here is data
    first, last = result.stderr.splitlines()[0], result.stderr.splitlines()[-1]
    assert first == "fitting on 10 good images of plate"
    assert last.startswith(f"wrote {out} (1.0 MB) in ")
    assert last.endswith(f" s; next: edgeseg eval {out} {plate}")
    loaded = load_artefact(out)
    assert (loaded.config.k, loaded.config.rank, loaded.config.size_hw) == (16, 10, SIZE_HW)


def test_fit_is_the_fit_of_the_library(plate, tmp_path, small_artefact_path):
    succeed("fit", plate, "--out", tmp_path / "a.edgeseg", *FIT, "--batch-size", "4", "--quiet")
    ours, theirs = (load_artefact(path) for path in (tmp_path / "a.edgeseg", small_artefact_path))
    assert ours.config == theirs.config
    assert (tmp_path / "a.edgeseg").read_bytes() == small_artefact_path.read_bytes()


def test_fit_quietly(plate, tmp_path):
    result = succeed("fit", plate, "--out", tmp_path / "m.edgeseg", *FIT, "-k", "500", "--quiet")
    assert result.output == ""


def test_fit_says_that_k_is_cut(plate, tmp_path):
    result = succeed("fit", plate, "--out", tmp_path / "m.edgeseg", *FIT, "-k", "500")
    assert result.stderr.splitlines()[0] == "k=500 is cut to 88, all features of mobilenet_v3_small"


def test_fit_with_the_papers_settings(plate, tmp_path):
    out = tmp_path / "m.edgeseg"
    succeed("fit", plate, "--out", out, "--preset", "paper", *FIT, "--rank", "0")
    config = load_artefact(out).config
    assert (config.stride, config.interpolation, config.pool, config.share) == (4, "nearest", 1, 1)
    assert (config.calibration, config.k) == ("holdout", 16)


def test_fit_a_rectangle_and_some_layers(plate, tmp_path):
    out = tmp_path / "m.edgeseg"
    succeed("fit", plate, "--out", out, *FIT, "--size", "96x64", "--layers", "1,3", "--no-moments")
    loaded = load_artefact(out)
    assert (loaded.config.size_hw, loaded.config.layers) == ((96, 64), (1, 3))
    assert loaded.moments is None


def test_fit_on_a_folder_of_good_images(plate, tmp_path):
    out = tmp_path / "m.edgeseg"
    succeed("fit", plate / "train/good", "--out", out, *FIT)
    assert load_artefact(out).data["layout"] == "folder"


def test_fit_with_anomalies(plate, tmp_path):
    out = tmp_path / "m.edgeseg"
    scratches = next(path for path in (plate / "test").iterdir() if path.name != "good")
    succeed("fit", plate, "--out", out, *FIT, "--anomalies", scratches)
    method = "best F1, 10 good images and 1 anomalies"
    assert load_artefact(out).calibration.method == method
    facts = json.loads(succeed("info", out, "--json").stdout)
    assert facts["calibration"]["method"] == method


def test_fit_skips_bad_images_when_told_to(tmp_path):
    data = write_plate(tmp_path / "plate")
    (data / "train/good/004.png").write_bytes(b"")
    out = tmp_path / "m.edgeseg"
    assert "--max-bad N" in fail("fit", data, "--out", out, *FIT, code=1)
    assert not out.exists()
    result = succeed("fit", data, "--out", out, *FIT, "--max-bad", "1")
    assert any(line.startswith("skipped ") for line in result.stderr.splitlines())
    assert load_artefact(out).data["unreadable"] == ["004.png"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-k", "0"], "k=0: expected a whole number from 1"),
        (["--ridge", "0"], "ridge=0.0: expected above 0, or a constant pixel has no inverse"),
        (["--sigma", "inf"], "sigma=inf: expected 0 (no blur) up to the size of the image"),
        (["--rank", "2.5"], "rank=2.5: expected a share below 1, a whole number or 0"),
        (
            ["--layers", "2,1"],
            "layers=(2, 1): expected increasing layer numbers from 1, such as 1,2,3",
        ),
        (
            ["--layers", "1,5"],
            "layers=(1, 5): mobilenet_v3_small has layers 1 to 3; choose among them",
        ),
        (["--size", "16"], "size_hw=(16, 16): expected at least 32x32"),
        (
            ["--size", "100"],
            "size 100x100: both sides must be multiples of 16 for mobilenet_v3_small "
            "with stride 8 and share 2; try 96x96",
        ),
        (
            ["--backbone", "vgg"],
            "backbone 'vgg' is unknown; expected one of ('resnet18', 'wide_resnet50_2', "
            "'mobilenet_v3_small', 'mobilenet_v3_large', 'efficientnet_lite0')",
        ),
        (
            ["--stride", "12", "--share", "1"],
            "stride=12: must divide or be divided by 8, the stride of features.3; try 4, 8 or 16",
        ),
        (["--false-alarm-rate", "1"], "false_alarm_rate=1.0: expected between 0 and 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_fit_refuses_what_cannot_be_meant(plate, tmp_path, options, sentence):
    assert fail("fit", plate, "--out", tmp_path / "m", *FIT, *options, code=2) == sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--size", "12x"], "Invalid value for '--size': '12x': expected HEIGHTxWIDTH such as"),
        (["--size", "1x2x3"], "Invalid value for '--size': '1x2x3': expected HEIGHTxWIDTH such as"),
        (
            ["--layers", "1;2"],
            "Invalid value for '--layers': '1;2': expected layer numbers such as",
        ),
        (["--preset", "fast"], "Invalid value for '--preset': 'fast' is not one of"),
        (["--max-bad", "-1"], "Invalid value for '--max-bad'"),
        (["--batch-size", "0"], "Invalid value for '--batch-size'"),
        (["--sigmma", "3"], "No such option"),
        (["--anomalies", "/nowhere"], "Invalid value for '--anomalies'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_fit_refuses_what_cannot_be_read(plate, tmp_path, options, fragment):
    assert fragment in fail("fit", plate, "--out", tmp_path / "m", *FIT, *options, code=2)


def test_fit_needs_a_place_for_its_result(plate):
    assert "Missing option '--out'" in fail("fit", plate, *FIT, code=2)


def test_fit_on_data_that_is_not_there(tmp_path):
    data, out = tmp_path / "none", tmp_path / "m"
    assert fail("fit", data, "--out", out, *FIT, code=1) == f"{data}: no such folder"
    (tmp_path / "empty").mkdir()
    sentence = fail("fit", tmp_path / "empty", "--out", out, *FIT, code=1)
    assert sentence.startswith(f"{tmp_path / 'empty'}: no good pictures to fit on")
    assert "has no folds" in fail(
        "fit", tmp_path / "empty", "--out", out, *FIT, "--fold", "1", code=2
    )


def test_fit_with_an_empty_folder_of_anomalies(plate, tmp_path):
    (tmp_path / "empty").mkdir()
    sentence = fail(
        "fit", plate, "--out", tmp_path / "m", *FIT, "--anomalies", tmp_path / "empty", code=2
    )
    assert sentence == (
        f"--anomalies {tmp_path / 'empty'}: no images; expected pictures of defective parts"
    )


def test_fit_with_weights_that_are_not_there(plate, tmp_path):
    weights = tmp_path / "none.pth"
    assert fail("fit", plate, "--out", tmp_path / "m", *FIT, "--weights", weights, code=1) == (
        f"--weights {weights}: no such file; give a .pth file of mobilenet_v3_small"
    )


def test_fit_into_a_place_that_cannot_be_written(plate, tmp_path):
    (tmp_path / "file").write_text("in the way")
    sentence = fail("fit", plate, "--out", tmp_path / "file" / "m.edgeseg", *FIT, code=1)
    assert sentence == (
        f"{tmp_path / 'file'}: File exists; look at the path, its permissions and the disk"
    )


# --- eval ------------------------------------------------------------------------------------


def test_eval(plate, model, tmp_path):
    before = model.read_bytes()
    report, pictures = tmp_path / "r.json", tmp_path / "out"
    result = succeed("eval", model, plate, "--json", report, "--pictures", pictures)
    values = json.loads(report.read_text())
    assert set(values) >= {
        "pro", "pixel_auroc", "image_auroc", "f1", "threshold", "images", "anomalies", "seconds",
        "config",
    }  # fmt: skip
    assert (values["images"], values["anomalies"], values["dataset"]) == (7, 4, "plate")
    assert values["config"] == load_artefact(model).config.to_dict()
    assert values["threshold"] == load_artefact(model).calibration.score_threshold
    lines = result.stdout.splitlines()
    assert lines[0] == f"pro          {values['pro']:.4f}"
    assert lines[6].endswith("(cross-conformal, 3 folds, 10 good images)")
    assert result.stderr.splitlines() == [f"wrote {report}", f"wrote {pictures / 'sheet.png'}"]
    assert (pictures / "sheet.png").is_file()
    assert len(list(pictures.rglob("*.png"))) == 7 + 1
    assert model.read_bytes() == before  # only --store changes it


def test_eval_stores_its_figures(plate, model):
    for _ in range(2):  # twice: the second replaces the first
        result = succeed("eval", model, plate, "--store")
        assert result.stderr == f"stored in {model}; next: edgeseg export {model}\n"
    loaded = load_artefact(model)
    assert [entry["dataset"] for entry in loaded.accuracy] == ["plate"]
    assert loaded.accuracy[0]["images"] == 7


def test_eval_quietly(plate, model, tmp_path):
    result = succeed("eval", model, plate, "--json", tmp_path / "r.json", "--store", "--quiet")
    assert result.stderr == ""
    assert result.stdout.startswith("pro ")  # the figures are data


def test_eval_without_a_test_set(plate, model):
    sentence = fail("eval", model, plate / "train/good", code=1)
    assert sentence.startswith(f"{plate / 'train/good'}: no test images; evaluation needs")


def test_eval_of_what_is_no_model(plate, tmp_path):
    path = tmp_path / "m.edgeseg"
    assert fail("eval", path, plate, code=1) == (
        f"{path}: no such file; make one with `edgeseg fit DATA --out {path}`"
    )
    path.write_bytes(b"hello, this is a text file\n" * 9)
    assert fail("eval", path, plate, code=1).startswith(f"{path}: not an edgeseg artefact (")


# --- predict, info, synthesize ---------------------------------------------------------------


def test_predict(plate, model, tmp_path):
    images = [plate / "test/good/000.png", plate / "test/good/001.png"]
    result = succeed("predict", model, *images, "--out", tmp_path / "out")
    threshold = load_artefact(model).calibration.score_threshold
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    for path, line in zip(images, lines, strict=True):
        assert line.startswith((f"{path}: good, ", f"{path}: anomalous, "))
        assert line.endswith(f" (threshold {threshold:.3f})")
        assert (tmp_path / "out" / path.name).is_file()
    assert result.stderr.startswith(f"wrote 2 pictures to {tmp_path / 'out'} in ")


def test_predict_json(plate, model, tmp_path):
    """Two images of one name: two rows and two pictures."""
    images = sorted((plate / "test").glob("*/000.png"))[:2]
    result = succeed("predict", model, *images, "--out", tmp_path / "out", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["image"] for row in rows] == [str(path) for path in images]
    assert len({row["picture"] for row in rows}) == 2
    for row in rows:
        assert row["anomalous"] == (row["score"] > row["threshold"])
        assert Path(row["picture"]).is_file()
    assert result.stderr == ""


def test_predict_a_picture_that_is_not_there(model, tmp_path):
    sentence = fail("predict", model, tmp_path / "none.png", "--out", tmp_path / "out", code=1)
    assert sentence.startswith(f"{tmp_path / 'none.png'}: ")
    assert "Missing argument" in fail("predict", model, "--out", tmp_path / "out", code=2)


def test_info(model):
    lines = succeed("info", model).stdout.splitlines()
    assert lines[0] == f"{model} ({model.stat().st_size / 1e6:.1f} MB)"
    assert any(line.split() == ["backbone", "mobilenet_v3_small"] for line in lines)
    threshold = str(load_artefact(model).calibration.score_threshold)
    assert any(line.split() == ["score_threshold", threshold] for line in lines)


def test_info_json(model, small_artefact):
    facts = json.loads(succeed("info", model, "--json").stdout)
    size = facts.pop("size_bytes")
    assert size == model.stat().st_size
    assert facts == json.loads(json.dumps(small_artefact.header()))


def test_info_of_nothing(tmp_path):
    assert fail("info", tmp_path / "m.edgeseg", code=1).startswith(
        f"{tmp_path / 'm.edgeseg'}: no such file"
    )


def test_synthesize(tmp_path):
    out = tmp_path / "plate"
    options = ["--size", "64x48", "--train", "2", "--test-good", "1", "--test-defective", "1"]
    result = succeed("synthesize", out, *options)
    assert result.stderr == f"wrote {out}; next: edgeseg fit {out} --out plate.edgeseg\n"
    assert len(list((out / "train/good").glob("*.png"))) == 2
    assert len(list((out / "ground_truth").rglob("*_mask.png"))) == 4
    assert "Invalid value for '--train'" in fail("synthesize", out, "--train", "0", code=2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    assert fail("synthesize", tmp_path / "mine", code=2) == (
        f"{tmp_path / 'mine'}: exists and was not written by edgeseg; choose another folder"
    )
    assert (tmp_path / "mine" / "letter.txt").read_text() == "keep me"


# --- the group -------------------------------------------------------------------------------


def test_help_lists_every_command():
    text = " ".join(succeed("--help").stdout.split("Commands:")[1].split())
    assert text == " ".join(f"{name} {summary}" for name, summary in SUMMARIES.items())
    assert list(SUMMARIES) == list(COMMANDS)
    assert succeed("-h").stdout == succeed("--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_resolves_and_has_help(name):
    """Its help begins with the sentence of the list, and gives an example to copy."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    text = " ".join(succeed(name, "--help").stdout.split())
    assert SUMMARIES[name] in text
    assert f"edgeseg {name}" in text.split("Options:")[0].split("Usage:")[1]


def test_version():
    assert succeed("--version").stdout == f"edgeseg, version {__version__}\n"


def test_unknown_command():
    assert "No such command 'fitt'" in fail("fitt", code=2)


def test_layout_names_are_those_of_the_datasets():
    """Written twice, so that the help needs no imports; this holds them together."""
    assert tuple(LAYOUTS) == LAYOUT_NAMES


def test_parsers():
    assert parse_size("256") == (256, 256)
    assert parse_size("704X256") == (704, 256)
    assert parse_layers("1, 3") == (1, 3)
    for text in ("", "x", "²", "-1", "1x"):
        with pytest.raises(click.BadParameter):
            parse_size(text)
    for text in ("", "1,", "a"):
        with pytest.raises(click.BadParameter):
            parse_layers(text)


def test_interrupting(monkeypatch, model):
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgeseg.artefact.read_header", interrupted)
    assert fail("info", model, code=130) == "interrupted"


def test_a_bug_keeps_its_traceback(monkeypatch, model):
    def broken(path: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("edgeseg.artefact.read_header", broken)
    with pytest.raises(ZeroDivisionError):
        run("info", model)


# --- in a process of its own -----------------------------------------------------------------


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def loaded(code: str) -> set[str]:
    """The heavy packages that some code brings in."""
    heavy = "{'torch', 'torchvision', 'onnx', 'onnxruntime', 'cv2', 'numpy', 'safetensors'}"
    done = python(f"import sys; {code}; print(*({heavy} & set(sys.modules)))")
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    ["import edgeseg", "from edgeseg.cli import cli; cli(['--help'], standalone_mode=False)"],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded_too_early(code):
    assert loaded(code) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_loads_no_torch_and_no_onnx(name):
    found = loaded(f"from edgeseg.cli import cli; cli(['{name}', '--help'], standalone_mode=False)")
    assert not found & {"torch", "torchvision", "onnx", "onnxruntime"}


def test_a_missing_package_is_named_with_the_command_that_installs_it(plate):
    code = "import sys; sys.modules['torch'] = None; from edgeseg.cli import main; main()"
    done = python(code, "fit", plate, "--out", "m.edgeseg")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: `edgeseg fit` needs torch, which is not installed; "
        "run: pip install 'edgeseg[fit]'\n"
    )


def test_python_dash_m(plate):
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg", "synthesize", str(plate / "test")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {plate / 'test'}: exists and was not written by edgeseg; choose another folder\n"
    )
