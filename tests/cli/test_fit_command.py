"""`edgeseg fit` and `edgeseg synthesize`: files, notes, one-line errors and exit codes."""

import json
import shlex
import shutil
from types import SimpleNamespace

import pytest

from edgeseg.cli.fit_command import next_command
from edgeseg.cli.fit_settings import FitPlan
from edgeseg.cli.threshold_report import UNDERSTATES
from edgeseg.data.datasets import Dataset, Sample
from edgeseg.model.artefact import load_artefact
from edgeseg.modelfile.header import read_header
from edgeseg.runtime.backends.model_file import file_metadata
from tests.support.backbone_graphs import graph_path
from tests.support.commands import FIT, fail, succeed
from tests.support.export_models import SHORT, data
from tests.support.small_models import SIZE_HW, SMALL, write_plate


def test_fit(plate, tmp_path):
    out = tmp_path / "models" / "part.edgeseg"
    result = succeed("fit", plate, "--out", out, *FIT)
    assert result.stdout == ""  # nothing here is data
    first, last = result.stderr.splitlines()[0], result.stderr.splitlines()[-1]
    assert first == "fitting on 10 good images of plate"
    assert last.startswith(f"wrote {out} (1.1 MB) in ")
    assert last.endswith(f" s; next: edgeseg eval {out} {plate}")
    loaded = load_artefact(out)
    assert (loaded.config.k, loaded.config.rank, loaded.config.size_hw) == (16, 10, SIZE_HW)


def following(result):
    """The commands that a fit names as the next ones."""
    last = result.stderr.splitlines()[-1]
    names = last.partition("; next: ")[2].split(", or ")
    return [shlex.split(name.removeprefix("edgeseg ")) for name in names]


def test_what_comes_next_fits_a_folder_without_labels(plate, tmp_path):
    """There is nothing to measure on, and both commands run as they are printed."""
    good, out = tmp_path / "my photos", tmp_path / "part.edgeseg"
    shutil.copytree(plate / "train/good", good)
    predict, export = following(succeed("fit", good, "--out", out, *FIT))
    assert (predict[0], export[0]) == ("predict", "export")
    pictures = {"PICTURES": plate / "test", "drawn": tmp_path / "drawn"}
    succeed(*(pictures.get(word, word) for word in predict))
    succeed(*export, "--allow-random-weights")
    assert (tmp_path / "part.onnx").is_file()


def test_what_comes_next_names_the_layout_and_the_fold(plate, tmp_path):
    out = tmp_path / "part.edgeseg"
    (command,) = following(succeed("fit", plate, "--dataset", "mvtec", "--out", out, *FIT))
    assert command == ["eval", str(out), str(plate), "--dataset", "mvtec"]
    succeed(*command)
    layout = Dataset(
        name="part", layout="kolektor", root=plate, train=(Sample(image=plate),),
        test=(Sample(image=plate),),
    )  # fmt: skip
    plan = FitPlan(config=SMALL, dataset=layout, out=out)
    job = SimpleNamespace(graph=None, images=SimpleNamespace(layout=None, fold=0))
    assert next_command(job, plan, plate) == f"edgeseg eval {out} {plate} --fold 0"


def test_what_comes_next_on_a_device_needs_no_torch(tmp_path):
    """Through the graph that was named, or that is found again."""
    out, graph = tmp_path / "part.edgeseg", graph_path(SHORT)
    (command,) = following(succeed("fit", data(), "--out", out, "--graph", graph))
    assert command == ["export", str(out), "--graph", str(graph)]
    succeed(*command)
    assert (tmp_path / "part.onnx").is_file()


def test_the_name_of_an_exported_model_is_a_mistake(plate, tmp_path):
    for command in ("fit", "moments"):
        shard = ("--shard", "0/1") * (command == "moments")
        said = fail(command, plate, "--out", tmp_path / "x.onnx", *shard, *FIT, code=2)
        assert said.startswith(f"{tmp_path / 'x.onnx'}: `edgeseg fit` writes .edgeseg files, and ")
    assert list(tmp_path.iterdir()) == []


def test_fit_is_the_fit_of_the_library(plate, tmp_path, small_artefact_path):
    succeed("fit", plate, "--out", tmp_path / "a.edgeseg", *FIT, "--batch-size", "4", "--quiet")
    ours, theirs = (load_artefact(path) for path in (tmp_path / "a.edgeseg", small_artefact_path))
    assert ours.config == theirs.config
    assert (tmp_path / "a.edgeseg").read_bytes() == small_artefact_path.read_bytes()


def test_fit_ends_with_what_the_threshold_costs_and_rests_on(plate, tmp_path):
    out, report = tmp_path / "part.edgeseg", tmp_path / "report"
    result = succeed("fit", plate, "--out", out, *FIT, "--report", report, "--planted", 6)
    lines = result.stderr.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("false alarms"))
    rates = [line.split(" %")[0] for line in lines[head + 1 : head + 6]]
    assert rates == ["0.5", "1", "2", "5", "10"]
    model = load_artefact(out)
    recall = float((model.planted.scores > model.calibration.score_threshold).mean())
    assert f"{recall:.0%}" in lines[head + 5].split()
    calibration = model.calibration
    assert lines[head + 6 : head + 9] == [
        "found: share of planted defects above the threshold",
        UNDERSTATES,
        f"stored: score {calibration.score_threshold:.4f} decides, "
        f"pixel {calibration.pixel_threshold:.4f} marks ({calibration.method})",
    ]
    at = next(place for place, line in enumerate(lines) if line.startswith("score  "))
    highest = model.data["highest"][0]
    assert lines[at + 1].split()[0] == f"{highest['score']:.4f}"
    assert lines[at + 1].endswith(f"{plate}/train/good/{highest['image']}")
    written = (report / "fit.txt").read_text().splitlines()
    assert written == lines[head : head + len(written)]
    assert (report / "highest.png").is_file()
    assert sorted(path.name for path in report.iterdir()) == ["fit.txt", "highest.png"]


def test_fit_without_planted_defects(plate, tmp_path):
    out = tmp_path / "part.edgeseg"
    result = succeed("fit", plate, "--out", out, *FIT, "--planted", 0)
    assert "no planted defects were scored" in result.stderr
    assert load_artefact(out).planted is None
    assert "Invalid value for '--planted'" in fail(
        "fit", plate, "--out", out, *FIT, "--planted", -1, code=2
    )


def test_fit_quietly(plate, tmp_path):
    result = succeed("fit", plate, "--out", tmp_path / "m.edgeseg", *FIT, "-k", "500", "--quiet")
    assert result.output == ""


def test_fit_tells_machines(plate, tmp_path):
    out = tmp_path / "part.edgeseg"
    record = json.loads(succeed("fit", plate, "--out", out, *FIT, "--json").stdout)
    header = read_header(out)
    assert record["model"] == str(out)
    assert record["images"] == header["data"]["fitted"]
    assert record["threshold"] == header["calibration"]["score_threshold"]
    assert record["size_bytes"] == out.stat().st_size


def test_fit_says_that_k_is_cut(plate, tmp_path):
    result = succeed("fit", plate, "--out", tmp_path / "m.edgeseg", *FIT, "-k", "500")
    assert result.stderr.splitlines()[0].startswith("k=500 is cut to 88, ")


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


def test_fit_with_layers_for_the_map(plate, tmp_path):
    """A model, what it says of itself, its pixels' threshold, and a graph that shows its cells."""
    models = {}
    for words in ("1,2", "none"):
        out = models[words] = tmp_path / f"{words}.edgeseg"
        succeed("fit", plate, "--out", out, *FIT, "--map-layers", words, "--map-ridge", "0.5")
    shown, plain = (load_artefact(out) for out in models.values())
    assert (shown.config.map_layers, plain.config.map_layers) == ((1, 2), ())
    assert shown.config.map_ridge == plain.config.map_ridge == 0.5
    assert (shown.factors.shown is None, plain.factors.shown is None) == (False, True)
    for out, layers in zip(models.values(), ("[1, 2]", "[]"), strict=True):
        said = [line.split(maxsplit=1) for line in succeed("info", out).stdout.splitlines()]
        assert ["map_layers", layers] in said
        assert ["map_ridge", "0.5"] in said
        graph = out.with_suffix(".onnx")
        succeed("export", out, "--out", graph, "--allow-random-weights", "--no-verify")
        outputs = file_metadata(graph).outputs
        assert ("map_grid" in outputs) == (layers != "[]")


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
    assert "decide it" not in succeed("threshold", out).stdout  # defects did, too
    facts = json.loads(succeed("info", out, "--json").stdout)
    assert facts["calibration"]["method"] == method


def test_fit_skips_bad_images_when_told_to(tmp_path):
    data = write_plate(tmp_path / "plate")
    (data / "train/good/004.png").write_bytes(b"")
    out = tmp_path / "m.edgeseg"
    assert "--max-bad 1" in fail("fit", data, "--out", out, *FIT, code=1)
    assert not out.exists()
    result = succeed("fit", data, "--out", out, *FIT, "--max-bad", "1")
    assert any(line.startswith("skipped ") for line in result.stderr.splitlines())
    assert load_artefact(out).data["unreadable"] == ["004.png"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-k", "0"], "--k 0: expected a whole number from 1"),
        (["--ridge", "0"], "--ridge 0.0: expected above 0, or a constant pixel has no inverse"),
        (["--sigma", "inf"], "--sigma inf: expected 0 (no blur) up to the size of the image"),
        (["--rank", "2.5"], "--rank 2.5: expected a share below 1, a whole number or 0"),
        (
            ["--layers", "2,1"],
            "--layers 2,1: expected increasing layer numbers from 1, such as 1,2,3",
        ),
        (
            ["--layers", "1,5"],
            "--layers 1,5: mobilenet_v3_small has layers 1 to 3; choose among them",
        ),
        (
            ["--layers", "2,3", "--map-layers", "1,2"],
            "--map-layers 1,2: expected some of the layers 2,3 in their order, or none",
        ),
        (
            ["--map-layers", "1", "--top", "1"],
            "--map-layers 1: the score never uses them, and with --top 1 it is the map's maximum; "
            "leave one of them out",
        ),
        (
            ["--map-ridge", "0"],
            "--map-ridge 0.0: expected above 0, or a constant pixel has no inverse",
        ),
        (["--size", "16"], "--size 16x16: expected at least 32x32"),
        (
            ["--size", "100"],
            "size 100x100: both sides must be multiples of 16 for mobilenet_v3_small "
            "with stride 8 and share 2; try 96x96",
        ),
        (
            ["--stride", "12", "--share", "1"],
            "--stride 12: must divide or be divided by 8, the stride of features.3; try 4, 8 or 16",
        ),
        (["--false-alarm-rate", "1"], "--false-alarm-rate 1.0: expected between 0 and 1"),
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
        (
            ["--map-layers", "no"],
            "Invalid value for '--map-layers': 'no': expected layer numbers such as 1,2, or none",
        ),
        (["--preset", "fast"], "Invalid value for '--preset': 'fast' is not one of"),
        (
            ["--backbone", "vgg"],
            "Invalid value for '--backbone': 'vgg' is not one of 'resnet18', 'wide_resnet50_2', "
            "'mobilenet_v3_small', 'mobilenet_v3_large', 'efficientnet_lite0', "
            "'efficientnet_lite1', 'efficientnet_lite2'",
        ),
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
    said = fail("fit", plate, "--out", tmp_path / "m", *FIT, "--weights", weights, code=1)
    assert said.startswith(f"--weights {weights}: no such file; ")


def test_fit_into_a_place_that_cannot_be_written(plate, tmp_path):
    (tmp_path / "file").write_text("in the way")
    sentence = fail("fit", plate, "--out", tmp_path / "file" / "m.edgeseg", *FIT, code=1)
    assert sentence == (
        f"{tmp_path / 'file'}: File exists; look at the path, its permissions and the disk"
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
