"""The doctor reports, and never fails because something is missing."""

import json
import os
import subprocess
import sys

from click.testing import CliRunner

from edgeseg.base.extras import extras
from edgeseg.cli import doctor_command as module
from edgeseg.cli.doctor_command import PURPOSES, doctor, examine


def test_every_package_has_a_line_and_a_missing_one_has_its_command(monkeypatch):
    monkeypatch.setattr(module, "version_of", lambda name: None)
    lines = {finding.name: finding for finding in examine() if finding.topic == "packages"}
    assert set(lines) == set(PURPOSES)
    assert set(lines) >= {*extras()[""], *extras()["fit"], *extras()["trt"]}
    assert lines["torch"].fix == "pip install 'edgeseg[fit]'"
    assert lines["numpy"].fix == "pip install edgeseg"
    assert not any(finding.ok for finding in lines.values())


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
        "print(sorted({'torch', 'onnx'} & set(sys.modules)))"
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
