"""A software bill of materials (CycloneDX 1.5, JSON) of the device install, from its lock.

Licences are those of release/licences.json, where each stands beside the version that it was read
of: what happens to be installed has no say. release/licences.py writes the file.
"""

import json
import re
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
LICENCES = REPO / "release/licences.json"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._\-]+)==(?P<version>[^\s;\\]+)(?P<marker>\s*;[^\\]*)?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def write_sbom(lock: Path, folder: Path, *, epoch: int) -> Path:
    """Write edgeseg-VERSION.cdx.json; the same lock and commit give the same bytes."""
    project = _project()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).isoformat(),
            "component": _component(project["name"], project["version"], kind="application")
            | {"licenses": [{"license": {"id": project["license"]}}]},
        },
        "components": components(lock.read_text(encoding="utf-8")),
    }
    name = f"urn:edgeseg:{json.dumps(bill, sort_keys=True)}"
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}"
    target = folder / f"{project['name']}-{project['version']}.cdx.json"
    target.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return target


def pinned(lock: str) -> list[tuple[str, str]]:
    """Names and versions of a lock, in its order."""
    pins = map(_PIN.match, lock.splitlines())
    return [(pin["name"], pin["version"]) for pin in pins if pin is not None]


def stated_licences() -> dict[str, str]:
    """Licences by `name==version`."""
    stated: dict[str, str] = json.loads(LICENCES.read_text(encoding="utf-8"))
    return stated


def components(lock: str) -> list[dict[str, Any]]:
    """One entry for every pinned package, with the hashes of all its files."""
    licences = stated_licences()
    missing = [f"{name}=={version}" for name, version in pinned(lock)]
    missing = [pin for pin in missing if pin not in licences]
    if missing:
        sys.exit(f"{LICENCES.name}: no licence of {', '.join(missing)}; run release/licences.py")
    found: list[dict[str, Any]] = []
    for line in lock.splitlines():
        pin = _PIN.match(line)
        if pin is not None:
            found.append(_component(pin["name"], pin["version"], kind="library"))
            licence = licences[f"{pin['name']}=={pin['version']}"]
            found[-1]["licenses"] = [{"license": {"name": licence}}]
            if pin["marker"]:
                marker = pin["marker"].strip(" ;")
                found[-1]["properties"] = [{"name": "marker", "value": marker}]
        found_hash = _HASH.search(line)
        if found_hash is not None and found:
            hashes = found[-1].setdefault("hashes", [])
            hashes.append({"alg": "SHA-256", "content": found_hash[1]})
    return found


def _component(name: str, version: str, *, kind: str) -> dict[str, Any]:
    address = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {"type": kind, "name": name, "version": version, "purl": address, "bom-ref": address}


def _project() -> dict[str, str]:
    """Name, version and licence, as pyproject.toml has them: Python 3.10 cannot read TOML."""
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    keys = ("name", "version", "license")
    return {key: re.findall(rf'^{key} = "([^"]+)"', text, re.M)[0] for key in keys}
