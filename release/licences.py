"""Write down the licence of every package of the device lock, as its own metadata state it.

    python release/licences.py

Needs the package index. A licence that is known of this very version stays as it is; the rest is
asked of the package itself, whether it is installed here or not.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # for sbom.py, also when loaded by its path
from sbom import LICENCES, REPO, pinned, stated_licences

_PYTHONS = ("3.11", "3.12", "3.10")  # the lock is for all of them


def main() -> None:
    """Bring release/licences.json up to date with release/device.lock."""
    lock = (REPO / "release/device.lock").read_text(encoding="utf-8")
    known = stated_licences() if LICENCES.is_file() else {}
    stated: dict[str, str] = {}
    for name, version in pinned(lock):
        pin = f"{name}=={version}"
        stated[pin] = known.get(pin) or licence(told_by_index(pin))
        if not stated[pin]:
            sys.exit(f"{pin}: its metadata state no licence; look it up, and write it down by hand")
    LICENCES.write_text(json.dumps(stated, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {LICENCES.relative_to(REPO)}: {len(stated)} packages")


def told_by_index(pin: str) -> dict[str, Any]:
    """The metadata of one version, without installing it; some are for other Pythons alone."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps")
    for python in _PYTHONS:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            foreign = ("--only-binary=:all:", "--python-version", python, "--target", scratch)
            asked = ("--ignore-installed", *foreign, "--report", str(report), pin)
            done = subprocess.run([*pip, *asked], capture_output=True, text=True)
            if done.returncode == 0:
                (told,) = json.loads(report.read_text(encoding="utf-8"))["install"]
                metadata: dict[str, Any] = told["metadata"]
                return metadata
    sys.exit(f"{pin}: the index has no wheel of it\n{done.stderr[-1000:]}")


def licence(told: Mapping[str, Any]) -> str:
    """An expression, a short text, or what the classifiers say; empty: nothing is stated."""
    expression = told.get("license_expression") or ""
    text = (told.get("license") or "").strip()
    short = text.splitlines()[0].strip() if text else ""
    classified = [
        line.rpartition("::")[2].strip()
        for line in told.get("classifier", ())
        if line.startswith("License ::")
    ]
    says_nothing = short in ("UNKNOWN", "Dual License") or short.startswith("Copyright")
    return expression or ("" if says_nothing else short[:80]) or "; ".join(classified)


if __name__ == "__main__":
    main()
