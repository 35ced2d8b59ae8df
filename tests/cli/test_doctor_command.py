"""The doctor reports, and never fails because something is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base import extras as extras_of
from edgeseg.cli import doctor_command as module
from edgeseg.cli.doctor_command import PURPOSES, doctor, examine
from edgeseg.cli.needs import EXPORTING
from edgeseg.config import FitConfig
from edgeseg.fitting.graph import known_graphs
from tests.support.backbone_graphs import graph_path
from tests.support.export_models import SHORT


def packages():
    return {finding.name: finding for finding in examine() if finding.topic == "packages"}


def test_every_package_is_told_and_a_missing_one_has_its_command(monkeypatch):
    monkeypatch.setattr(module, "version_of", lambda name: "1.0")
    assert set(packages()) == set(PURPOSES)
    monkeypatch.setattr(module, "version_of", lambda name: None)
    lines = packages()
    told = " ".join(finding.text for finding in lines.values())
    assert all(name in told for name in PURPOSES)
    assert "torch, " in lines["[fit]"].text
    assert lines["[fit]"].fix == "pip install 'edgeseg[fit]'"
    assert "numpy" in lines["edgeseg"].text
    assert (lines["edgeseg"].fix, lines["edgeseg"].optional) == ("pip install edgeseg", False)
    assert not any(finding.ok for finding in lines.values())


def on_a_computer_with(monkeypatch, *modules, graph=False):
    """What the doctor prints where these modules and no others are installed."""
    here = {"cv2", "numpy", "click", *modules}
    bring = {"cv2": "opencv-python-headless", "tensorrt_rtx": "tensorrt-rtx"}
    installed = {bring.get(name, name) for name in here}
    monkeypatch.setattr(module, "version_of", lambda name: "1.0" if name in installed else None)
    monkeypatch.setattr(extras_of, "find_spec", lambda name: True if name in here else None)
    monkeypatch.setattr(known_graphs, "graph_for", lambda config: Path("graph") if graph else None)
    return CliRunner().invoke(doctor, []).output


TEACH = "; to teach, run: pip install 'edgeseg[teach]' edgeseg-efficientnet-lite1"
FIT = "; to fit and export with torch, run: pip install 'edgeseg[fit]'"


@pytest.mark.parametrize(
    ("modules", "graph", "ends"),
    [
        (["onnxruntime"], False, f"ready to stream{TEACH}{FIT}"),
        (["openvino"], False, f"ready to stream{TEACH}{FIT}"),
        (["onnxruntime", "safetensors"], True, f"ready to stream, to teach{FIT}"),
        (
            ["onnxruntime", "safetensors"],
            False,
            f"ready to stream; to teach, run: pip install edgeseg-efficientnet-lite1{FIT}",
        ),
        (EXPORTING, False, "ready to stream, to teach, to fit and export with torch"),
    ],
)
def test_it_ends_with_what_this_computer_can_do(monkeypatch, modules, graph, ends):
    printed = on_a_computer_with(monkeypatch, *modules, graph=graph)
    assert printed.splitlines()[-1] == ends
    assert "✗" not in printed, "a computer that does its work has nothing to be mended"


def test_without_a_backend_nothing_runs(monkeypatch):
    printed = on_a_computer_with(monkeypatch)
    assert printed.splitlines()[-1].startswith(
        "not ready; to stream, run: pip install 'edgeseg[cpu]'; to teach, run: pip install "
        "'edgeseg[cpu,teach]' edgeseg-efficientnet-lite1;"
    )


def test_graphs_of_backbones_are_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (none,) = (finding for finding in examine() if finding.topic == "backbone graphs")
    assert (none.ok, none.optional) == (False, True)
    assert none.fix == f"pip install {known_graphs.package_of(FitConfig.backbone)}"
    made = known_graphs.cache_folder() / "made.onnx"
    made.parent.mkdir(parents=True)
    made.write_bytes(graph_path().read_bytes())
    (found,) = (finding for finding in examine() if finding.topic == "backbone graphs")
    assert (found.ok, found.name) == (True, SHORT.backbone)
    assert str(made) in found.text


def test_an_edgeseg_that_was_never_installed(monkeypatch):
    monkeypatch.setattr(module, "extras", dict)
    (line,) = (finding for finding in examine() if finding.topic == "packages")
    assert (line.name, line.ok) == ("edgeseg", False)
    assert line.text == "not installed, so its packages are not known"


def test_bf16_is_a_line_of_its_own(monkeypatch, tmp_path):
    def text(flags):
        (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
        monkeypatch.setattr(module, "CPU_INFO", tmp_path / "cpuinfo")
        (line,) = (finding for finding in examine() if finding.name == "bf16")
        return line.text

    assert text("avx512f avx512_bf16") == "yes: --precision bf16 in OpenVINO"
    assert text("avx512f avx512_vnni") == "no: bf16 files are for other computers"


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(monkeypatch):
    def broken():
        raise RuntimeError("driver fell over")

    monkeypatch.setattr(module, "_gpu", broken)
    findings = examine()
    assert any("driver fell over" in finding.text for finding in findings)
    assert {"versions", "packages", "disk"} <= {finding.topic for finding in findings}


def test_json_has_the_same_findings_as_the_text():
    printed = CliRunner().invoke(doctor, ["--json"])
    assert printed.exit_code == 0
    names = [finding["name"] for finding in json.loads(printed.output)]
    text = CliRunner().invoke(doctor, []).output
    assert all(name in text for name in names)


def test_the_doctor_needs_neither_torch_nor_onnx():
    code = (
        "import sys; from edgeseg.cli.doctor_command import examine; examine(); "
        "print(sorted({'torch', 'onnx', 'safetensors'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert result.stdout.strip() == "[]"


def test_an_output_without_ticks_gets_other_signs():
    result = subprocess.run(
        [sys.executable, "-m", "edgeseg", "doctor"],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},  # of pipes on Windows
    )
    text = result.stdout.decode("cp1252")
    assert "  + edgeseg " in text
    assert "\x1b" not in text  # nor colours: this is no terminal
