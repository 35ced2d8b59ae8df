"""The release: built twice with the same bytes, installed and run; locks, bill of materials."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import setuptools

from edgeseg import __version__
from tests.support import HANGS_S, REPO

LOCKS = ("build", "device", "jetson", "fit", "dev")
_PIN = re.compile(r"^([A-Za-z0-9._\-]+)==", re.M)


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=REPO,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )


def pins(lock: str) -> list[str]:
    return _PIN.findall((REPO / f"release/{lock}.lock").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` writes, by the backend at hand; it compares two builds itself."""
    if run("git", "rev-parse", "HEAD").returncode != 0:
        pytest.skip("no git, which tells what belongs to a release")
    folder = tmp_path_factory.mktemp("dist")
    # What lies on the path of the caller is not taken.
    other = tmp_path_factory.mktemp("other") / "setuptools"
    other.mkdir()
    (other / "__init__.py").write_text("raise ImportError('another setuptools')\n")
    backend = Path(setuptools.__file__).parent.parent
    build = (sys.executable, "release/dist.py", "--out", folder, "--backend", backend)
    done = run(*build, PYTHONPATH=str(other.parent))
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_the_release_is_complete_and_its_sums_are_right(dist: Path) -> None:
    sums = dict(
        reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines()
    )
    stem = f"edgeseg-{__version__}"
    assert set(sums) == {f"{stem}-py3-none-any.whl", f"{stem}.tar.gz", f"{stem}.cdx.json"}
    for name, digest in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_the_sdist_gives_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / f"edgeseg-{__version__}.tar.gz") as archive:
        members = archive.getmembers()
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # 3.11.4 and later
        archive.extractall(tmp_path)
    times = {member.mtime for member in members}
    assert len(times) == 1
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / f"edgeseg-{__version__}",
        env=os.environ | {"SOURCE_DATE_EPOCH": str(int(times.pop()))},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.read_bytes() == (dist / wheel.name).read_bytes()


def test_the_wheel_runs_in_a_fresh_environment(dist: Path, tmp_path: Path) -> None:
    """Its own environment and command; what it depends on is borrowed from this one."""
    venv = tmp_path / "venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", venv).returncode == 0
    (wheel,) = dist.glob("*.whl")
    python = venv / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    installed = run(*pip, wheel)
    assert installed.returncode == 0, installed.stderr
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    said = run(venv / "bin/edgeseg", "--version", PYTHONPATH="")
    assert said.stdout == f"edgeseg, version {__version__}\n", said.stderr
    where = run(python, "-I", "-c", "import edgeseg; print(edgeseg.__file__)", PYTHONPATH="")
    assert where.stdout.startswith(str(site)), where.stdout
    source = "synthetic:fps=0,frames=2,height=48,width=64"
    model = tmp_path / "m.onnx"
    code = (
        "from pathlib import Path; from tests.support.brightness_model import *; "
        f"write_brightness_model(Path({str(model)!r}), metadata=brightness_metadata())"
    )
    assert run(sys.executable, "-c", code, PYTHONPATH=str(REPO)).returncode == 0
    streamed = run(
        venv / "bin/edgeseg", "stream", "--model", model, "--source", source, "--backend", "cpu",
        PYTHONPATH="",
    )  # fmt: skip
    assert streamed.returncode == 0, streamed.stderr


def test_the_bill_of_materials_names_what_the_lock_pins(dist: Path) -> None:
    bill = json.loads((dist / f"edgeseg-{__version__}.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert re.fullmatch(r"urn:uuid:[0-9a-f\-]{36}", bill["serialNumber"])
    assert bill["metadata"]["component"]["version"] == __version__
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert [one["name"] for one in bill["components"]] == pins("device")
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(set(references)) == len(references)
    for one in bill["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name'].lower()}@{one['version']}"
        assert all(re.fullmatch("[0-9a-f]{64}", item["content"]) for item in one["hashes"])
    click = next(one for one in bill["components"] if one["name"] == "click")
    assert click["licenses"] == [{"license": {"name": "BSD-3-Clause"}}]
    assert all(one["licenses"] for one in bill["components"])


def test_licences_are_stated_of_every_version_and_as_the_packages_do() -> None:
    """In the repository: what is installed here is only compared with it."""
    stated = json.loads((REPO / "release/licences.json").read_text(encoding="utf-8"))
    licences = load("licences")
    lock = (REPO / "release/device.lock").read_text(encoding="utf-8")
    assert set(stated) == {f"{name}=={version}" for name, version in licences.pinned(lock)}
    compared = 0
    for pin, licence in stated.items():
        name, version = pin.split("==")
        try:
            told = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        if told["Version"] == version:
            assert licences.licence(told.json) == licence, pin
            compared += 1
    assert compared


def test_a_package_whose_licence_nobody_stated_makes_no_bill() -> None:
    with pytest.raises(SystemExit, match=r"no licence of click==0\.0\.1; run release/licences\.py"):
        load("sbom").components("click==0.0.1 \\\n")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPO / f"release/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_by_hash_and_names_no_index(lock: str) -> None:
    text = (REPO / f"release/{lock}.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.findall(r"^\s*-(?!-hash=sha256:)", text, re.M), "an option of pip"
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        assert _PIN.match(entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_locks_hold_what_pyproject_asks_for() -> None:
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")

    def asked(key: str) -> set[str]:
        inside = re.search(rf"^{key} = \[(.*?)\]", text, re.M | re.S)
        assert inside is not None
        names = re.findall(r'"([A-Za-z0-9_\-]+)(?=[><=~])', inside[1])
        return {name.lower().replace("_", "-") for name in names}

    base = asked("dependencies")
    rooms = {
        "device": ("cpu", "openvino", "web", "teach", "sign", "mqtt", "opcua"),
        "jetson": ("web", "teach", "sign", "mqtt", "opcua"),
        "fit": ("fit",),
        "dev": ("dev", "fit", "web", "openvino", "mqtt", "opcua", "sign"),
    }
    for lock, extras in rooms.items():
        assert base.union(*map(asked, extras)) <= set(pins(lock)), lock
    (others,) = re.findall(r'"edgeseg\[([a-z,]+)\]",\n    "pymodbus', text)
    assert {"dev", *others.split(",")} == set(rooms["dev"])
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    for lock in ("device", "jetson"):
        made = re.search(rf"^.*{lock}\.lock$", makefile, re.M)
        assert made is not None
        assert tuple(re.findall(r"--extra (\w+)", made[0])) == rooms[lock]
    backend = re.findall(r'^requires = \["([^"]+)"\]', text, re.M)
    assert re.findall(r"echo '(.*)' \| .*build\.lock$", makefile, re.M) == backend
    assert pins("build") == ["setuptools"]


fetches = pytest.mark.skipif(
    "EDGESEG_TEST_INSTALL" not in os.environ,
    reason="needs the package index; set EDGESEG_TEST_INSTALL=1 to install from the locks",
)


@fetches
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_all_that_an_installation_needs(lock: str, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--ignore-installed", "--dry-run")
    report = tmp_path / "report.json"
    locked = ("--require-hashes", "-r", REPO / f"release/{lock}.lock", "--report", report)
    done = run(*pip, *locked)
    assert done.returncode == 0, done.stderr
    chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    assert {each["metadata"]["name"].lower().replace("_", "-") for each in chosen} <= {
        name.lower().replace("_", "-") for name in pins(lock)
    }
    assert len(chosen) > 5 or lock == "build"


@fetches
def test_two_computers_build_the_same_release(tmp_path: Path) -> None:
    """Whatever setuptools, and plugins of it, each of them has."""
    sums = []
    for number, packages in enumerate((["setuptools==77.0.3", "setuptools-scm"], ["setuptools"])):
        venv, out = tmp_path / f"venv{number}", tmp_path / f"dist{number}"
        assert run(sys.executable, "-m", "venv", venv).returncode == 0
        python = venv / "bin/python"
        installed = run(python, "-m", "pip", "install", "--quiet", "--upgrade", *packages)
        assert installed.returncode == 0, installed.stderr
        done = run(python, "release/dist.py", "--out", out)
        assert done.returncode == 0, done.stderr
        sums.append((out / "SHA256SUMS").read_text())
    assert sums[0] == sums[1]


@fetches
def test_the_device_lock_installs_and_runs_the_wheel(dist: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    assert run(sys.executable, "-m", "venv", venv).returncode == 0
    pip = (venv / "bin/python", "-m", "pip", "install", "--quiet")
    locked = run(*pip, "--require-hashes", "-r", REPO / "release/device.lock")
    assert locked.returncode == 0, locked.stderr
    (wheel,) = dist.glob("*.whl")
    assert run(*pip, "--no-deps", "--no-index", wheel).returncode == 0
    said = run(venv / "bin/edgeseg", "doctor", PYTHONPATH="")
    assert "onnxruntime" in said.stdout, said.stderr
    here = run(venv / "bin/python", "-c", "import asyncua, openvino, paho.mqtt", PYTHONPATH="")
    assert here.returncode == 0, here.stderr
