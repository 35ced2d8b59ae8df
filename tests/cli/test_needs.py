"""Every command says what it needs before it begins, by one sentence with the command for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgeseg.base import extras
from edgeseg.base.errors import EdgesegError
from edgeseg.cli.needs import EXPORTING
from edgeseg.config import FitConfig
from edgeseg.fitting.graph import known_graphs
from edgeseg.teach.project import Project, ProjectSettings
from tests.support.backbone_graphs import graph_path
from tests.support.commands import fail, run

BY_TORCH = "run: pip install 'edgeseg[fit]'"
WITHOUT = "; or, without torch: pip install 'edgeseg[teach]' edgeseg-efficientnet-lite1"
TEACH = "needs safetensors and the graph of efficientnet_lite1, which are not installed; run: pip "


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let this computer have these modules, and no others that may be missing."""

    def only(*modules: str) -> None:
        monkeypatch.setattr(extras, "find_spec", lambda name: name if name in modules else None)

    only("onnxruntime")  # a device
    return only


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (["fit", "PLATE", "--out", "OUT"], BY_TORCH + WITHOUT),
        (["fit", "PLATE", "--all", "--out", "OUT"], BY_TORCH + WITHOUT),
        (["moments", "PLATE", "--shard", "0/2", "--out", "OUT"], BY_TORCH + WITHOUT),
        (["predict", "MODEL", "PLATE/test/good", "--out", "OUT"], BY_TORCH),
        (["eval", "MODEL", "PLATE", "--pictures", "OUT"], BY_TORCH),
        (["export", "MODEL", "--out", "OUT.onnx"], BY_TORCH),
        (["update", "MODEL", "PLATE/train/good", "--out", "OUT"], BY_TORCH),
        (["threshold", "MODEL", "--defects", "PLATE/test"], BY_TORCH),
        (["export-backbone", "OUT.onnx"], BY_TORCH),
        (["demo", "--out", "OUT"], BY_TORCH),
        (["demo", "--data", "PLATE", "--out", "OUT"], BY_TORCH),
        (["tune", "PLATE", "--budget-ms", "5", "--out", "OUT"], BY_TORCH),
        (["bench", "small", "--out", "OUT"], BY_TORCH),
        (["bench", "compare", "PLATE", "--out", "OUT"], BY_TORCH),
        (["merge", "MODEL", "OTHER", "--out", "OUT"], "run: pip install 'edgeseg[teach]'"),
        (
            ["ignore", "MODEL", "--region", "0,0,9,9", "--out", "OUT"],
            "run: pip install 'edgeseg[teach]'",
        ),
        (
            ["teach", "OUT", "--good", "PLATE/train/good"],
            f"`edgeseg teach` {TEACH}install 'edgeseg[teach]' edgeseg-efficientnet-lite1",
        ),
        (
            ["teach", "OUT", "--serve", "0"],
            f"`edgeseg teach` {TEACH}install 'edgeseg[teach]' edgeseg-efficientnet-lite1",
        ),
    ],
)
def test_a_device_is_told_at_once(install, plate, small_artefact_path, tmp_path, words, ends):
    other = tmp_path / "other.edgeseg"
    other.write_bytes(small_artefact_path.read_bytes())
    stand_ins = {"PLATE": plate, "MODEL": small_artefact_path, "OTHER": other}
    stand_ins["OUT"] = tmp_path / "out"
    typed = [str(word) for word in words]
    for name, path in stand_ins.items():
        typed = [word.replace(name, str(path)) for word in typed]
    said = fail(*typed, code=1)
    assert said.endswith(ends)
    assert f"`edgeseg {' '.join(words[: 1 + (words[0] == 'bench')])}` needs " in said
    made = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [path.name for path in made] in ([], ["project.toml"]), "nothing was begun"


def test_what_is_there_is_not_asked_for(install, plate, tmp_path):
    """By torch, or through a graph: each is enough, and nothing is said of the other."""
    words = ("fit", plate / "absent", "--out", tmp_path / "m.edgeseg")
    install(*EXPORTING)
    assert "no such folder" in fail(*words, code=1)
    install("openvino", "safetensors")
    assert "no such folder" in fail(*words, "--graph", graph_path(), code=1)
    install("safetensors")
    assert fail(*words, "--graph", graph_path(), code=1) == (
        "`edgeseg fit` needs onnxruntime, which is not installed; run: pip install 'edgeseg[cpu]'"
    )


def test_a_graph_of_other_settings_has_no_package(install):
    install("onnxruntime", "safetensors")
    with pytest.raises(EdgesegError, match="no graph of efficientnet_lite1 with these settings"):
        known_graphs.check_through_graph("it", FitConfig(size_hw=(512, 512)))
    with pytest.raises(EdgesegError, match="no graph of resnet18 with these settings"):
        known_graphs.check_through_graph("it", FitConfig(backbone="resnet18"))
    with pytest.raises(EdgesegError, match="needs the graph of efficientnet_lite0, which is not"):
        known_graphs.check_through_graph("it", FitConfig(backbone="efficientnet_lite0"))
    known_graphs.check_through_graph("it", FitConfig(), graph_path())


def test_teaching_begins_with_the_default_backbone(install, tmp_path):
    """The one whose package README installs, whatever the command."""
    assert ProjectSettings().backbone == FitConfig().backbone
    install("onnxruntime", "safetensors")
    said = fail("teach", tmp_path / "line3", "--good", tmp_path, code=1)
    assert said.endswith(f"run: pip install {known_graphs.package_of(FitConfig().backbone)}")
    assert Project.open(tmp_path / "line3").settings().backbone == FitConfig().backbone
    for command in ("demo", "teach", "fit"):
        text = " ".join(run(command, "--help").output.split())
        assert f"[default: {FitConfig().backbone}" in text


def test_a_graph_that_is_none_is_refused_before_pictures_are_collected(install, tmp_path):
    install("onnxruntime", "safetensors")
    (tmp_path / "other.onnx").write_bytes(b"")
    words = ("teach", tmp_path / "line3", "--serve", 0, "--graph", tmp_path / "other.onnx")
    assert "not the graph of a backbone" in fail(*words, code=2)


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (["--serve", 0], "prometheus-client", "web"),
        (["--trigger", "mqtt", "--mqtt", "mqtt://broker/line3"], "paho-mqtt", "mqtt"),
        (["--trigger", "opcua", "--opcua", 4840], "asyncua", "opcua"),
    ],
)
def test_a_stream_is_told_before_its_model_is_opened(install, tmp_path, words, module, extra):
    said = fail(
        "stream", "--model", tmp_path / "absent.onnx", "--source", "synthetic:", *words,
        code=1,
    )  # fmt: skip
    assert said.endswith(
        f"needs {module}, which is not installed; run: pip install 'edgeseg[{extra}]'"
    )
