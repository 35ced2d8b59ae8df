"""The image: an archive that others read, the same bytes again, a clip streamed inside of it."""

import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support import HANGS_S, REPO
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.clips import write_clip

IMAGE = REPO / "release/image"
DEPLOY = REPO / "docs/deploy"


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleType]:
    """Scripts of release/image, which is no package; two of their names are common ones."""
    before = sys.path[:]
    names = ("oci", "build", "inside", "arm64_report", "arm64_station")
    sys.path.insert(0, str(IMAGE))
    try:
        return {name: __import__(name) for name in names}
    finally:
        sys.path[:] = before
        for name in names:
            sys.modules.pop(name, None)


def fill(folder: Path, names: list[str], *, second: int) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
        os.utime(path, (second, second))
    (folder / "usr/bin/run").chmod(0o755 if second % 2 else 0o700)
    (folder / "link").symlink_to("usr/bin/run")
    (folder / "empty").mkdir()
    return folder


def archive_of(modules: dict[str, ModuleType], folder: Path, target: Path) -> Path:
    oci, build = modules["oci"], modules["build"]
    layer = oci.write_layer(
        folder, target.with_suffix(".gz"), epoch=7, comment="files", owners={"b": 9}
    )
    told = {
        "architecture": "arm64",
        "tag": "edgeseg:1",
        "epoch": 7,
        "created": "2026-01-01T00:00:00Z",
    }
    oci.write_archive(target, [layer], config=build.CONFIG, **told)
    return target


NAMES = ["usr/bin/run", "a", "usr/lib/z", "b/c"]


@pytest.fixture
def archive(modules: dict[str, ModuleType], tmp_path: Path) -> Path:
    return archive_of(modules, fill(tmp_path / "files", NAMES, second=99), tmp_path / "one.tar")


def blobs(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    data = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert len(data) == descriptor["size"]
    return data


def test_the_same_files_give_the_same_bytes_and_others_do_not(
    modules: dict[str, ModuleType], archive: Path, tmp_path: Path
) -> None:
    again = fill(tmp_path / "later", NAMES[::-1], second=1001)
    assert archive_of(modules, again, tmp_path / "two.tar").read_bytes() == archive.read_bytes()
    (again / "a").write_text("of A")
    assert archive_of(modules, again, tmp_path / "two.tar").read_bytes() != archive.read_bytes()


def test_bytecode_does_not_depend_on_what_the_builder_has_in_memory(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    code = tmp_path / "root/lib"
    code.mkdir(parents=True)
    (code / "part.py").write_text('SIGN = "\\xf7"\n')  # one string a letter, whoever has it
    modules["build"]._compile(tmp_path / "root", code)
    (compiled,) = code.rglob("*.pyc")
    alone = compiled.read_bytes()
    assert b"/lib/part.py" in alone
    assert str(tmp_path).encode() not in alone
    compiled.unlink()
    sys.intern("\xf7")
    modules["build"]._compile(tmp_path / "root", code)
    assert compiled.read_bytes() == alone


def test_every_digest_of_the_archive_is_that_of_its_content(archive: Path) -> None:
    files = blobs(archive)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    (layer,) = manifest["layers"]
    unpacked = gzip.decompress(blob(files, layer))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]
    assert (config["architecture"], config["os"]) == ("arm64", "linux")
    (older,) = json.loads(files["manifest.json"])
    assert {older["Config"], *older["Layers"]} <= set(files)


def test_a_layer_belongs_to_root_but_for_what_is_named_and_others_may_not_write(
    modules: dict[str, ModuleType], archive: Path, tmp_path: Path
) -> None:
    inside = modules["inside"].unpack(archive, tmp_path / "unpacked")
    assert {str(p.relative_to(inside.root)) for p in inside.root.rglob("*") if p.is_file()} == {
        *NAMES,
        "link",
    }
    assert (inside.root / "link").readlink() == Path("usr/bin/run")
    assert (inside.root / "b/c").read_text() == "of b/c"
    (layer,) = json.loads(blobs(archive)["manifest.json"])[0]["Layers"]
    (tmp_path / "layer").write_bytes(blobs(archive)[layer])
    with tarfile.open(tmp_path / "layer") as tar:
        members = tar.getmembers()
    assert [m.name for m in members] == sorted(m.name for m in members)
    assert {(m.uid, m.gid) for m in members if m.name != "b"} == {(0, 0)}
    assert next((m.uid, m.gid) for m in members if m.name == "b") == (9, 9)
    assert {(m.uname, m.mtime) for m in members} == {("", 7)}
    assert not [m.name for m in members if m.mode & 0o022 and not m.issym()]


def test_another_program_reads_the_archive(archive: Path) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("needs skopeo (sudo apt install skopeo)")
    for kind in ("oci-archive", "docker-archive"):
        done = subprocess.run(
            ["skopeo", "inspect", "--config", f"{kind}:{archive}"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["config"]["Entrypoint"] == ["edgeseg"]


def test_the_image_does_not_run_as_root_and_writes_to_volumes_alone(
    modules: dict[str, ModuleType],
) -> None:
    config = modules["build"].CONFIG
    assert int(config["User"].partition(":")[0]) >= 1000
    settings = dict(line.split("=", 1) for line in config["Env"])
    assert set(config["Volumes"]) == {settings["HOME"], "/tmp"}
    assert config["WorkingDir"] == settings["HOME"]
    assert settings["EDGESEG_STATE"].startswith(settings["HOME"])
    owner = int(config["User"].partition(":")[0])
    assert {f"/{place}": user for place, user in modules["build"].OWNED.items()} == {
        settings["HOME"]: owner
    }


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (None, False)])
def test_the_healthcheck_says_what_the_page_says(
    modules: dict[str, ModuleType], status: int | None, healthy: bool
) -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    kind, _, flag, code = modules["build"].CONFIG["Healthcheck"]["Test"]
    assert (kind, flag) == ("CMD", "-c")
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        port = server.server_port
        if status is not None:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        else:
            server.server_close()
        moved = code.replace("8080", str(port))
        done = subprocess.run([sys.executable, "-c", moved], capture_output=True)
        if status is not None:
            server.shutdown()
    assert (done.returncode == 0) == healthy


def test_dockerfiles_take_packages_and_health_from_where_the_image_does(
    modules: dict[str, ModuleType],
) -> None:
    build = modules["build"]
    lists_of = {"cpu": {*build.BASE, "gstreamer"}, "l4t": {"cameras", "gstreamer"}}
    named = [package for name in lists_of["cpu"] for package in build.packages_of(name)]
    assert len(named) == len(set(named)) >= 9
    for name, lists in lists_of.items():
        text = (DEPLOY / f"Dockerfile.{name}").read_text(encoding="utf-8")
        assert set(re.findall(r"release/image/(\w+)\.packages", text)) == lists
        assert not [package for package in named if f" {package} " in text]
        assert build.HEALTH in text


def test_figures_of_the_report_compare_picture_by_picture(modules: dict[str, ModuleType]) -> None:
    x86 = {"scores": [1.0, 4.0], "verdicts": ["good", "defect"], "threshold": 2.0}
    arm = {"scores": [1.5, 3.75], "verdicts": ["good", "good"], "threshold": 2.5}
    found = modules["arm64_report"].compare(arm, x86)
    assert found == {"largest": 0.5, "share": 0.25, "same": 1, "of": 2}
    with pytest.raises(ValueError, match="zip"):
        modules["arm64_report"].compare(arm | {"scores": [1.0]}, x86)


def test_a_report_of_all_that_ran_and_of_what_did_not(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    def judged(apart: float, threshold: float) -> dict[str, Any]:
        scores = [1.0 + apart, 4.0 + apart]
        return {"scores": scores, "verdicts": ["good", "defect"], "threshold": threshold}

    def part(code: int, score: float) -> dict[str, Any]:
        return {"code": code, "score": score, "threshold": 2.0}

    x86, arm = (
        {
            "stream m-int8 cpu": judged(apart, 2.0),
            "stream m-int8 openvino": judged(0.25 + apart, 2.0),
            "doctor": "✓ edgeseg",
            "predict m": judged(apart, 2.0),
            "teach m": judged(apart, 2.0),
            "station m": {"healthz": 200, "page": 200, "parts": {"good-1": part(1, 1 + apart)}},
            "calibrate m-int8 cpu": judged(apart, 2.0 + apart),
            "kernels m-int8": [[1.0 + apart, 1.0]],
        }
        for apart in (0.0, 0.5)
    )
    less = {f"stream m-int8 {backend}": {"failed": "no room"} for backend in ("cpu", "openvino")}
    results = {"x86": x86, "cortex-a76": arm, "cortex-a72": less, "commit": {"commit": "abc"}}
    layer = {"what": "Debian", "packed_mb": 1.0, "unpacked_mb": 2.0}
    image = {"architecture": "arm64", "built": 2, "archive_mb": 1.5, "digest": "sha256:00"}
    write = modules["arm64_report"].write_report
    text = write(tmp_path, results, [image | {"layers": [layer]}]).read_text(encoding="utf-8")
    for line in (
        "| m-int8 | cpu | 0.5 | 25.00% | 2 of 2 | — | — | — |",
        "| m-int8 | 0.25 | 12.50% | 2 of 2 |",
        "| m-int8 | cpu | 0.5 | 0.5 | 25.00% | 2 of 2 | 2.0000 | 2.0000 | 2.5000 |",
        "| cortex-a72 | stream m-int8 cpu | no room |",
        "| predict m, without torch | the reference | 0.5 apart, 2 of 2 verdicts the same |",
        "| m | good-1 | 1 | 1 | 1.0 | 1.5 | 2.0 | 2.0 |",
        "| arm64 | 2 times | 1.5 | `sha256:00` |",
    ):
        assert line in text.splitlines(), line


def test_a_plc_and_a_camera_outside_of_the_image_judge_a_good_and_a_bad_part(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    """What is asked of an image, asked of a station of this Python: no namespace is needed."""
    write_brightness_model(tmp_path / "m.onnx", metadata=brightness_metadata(threshold=102.5))
    (tmp_path / "pictures").mkdir()
    for name, grey in (("dent-000", 130), ("dent-001", 140), ("good-002", 100)):
        cv2.imwrite(str(tmp_path / f"pictures/{name}.png"), np.full((32, 48, 3), grey, np.uint8))
    place = {"PYTHONPATH": str(REPO), "EDGESEG_STATE": str(tmp_path / "state")}
    settings = [f"{key}={value}" for key, value in place.items()]

    class Here:
        volume = tmp_path

        def command(self, *words: str) -> list[str]:
            run = ["env", f"--chdir={tmp_path}", *settings, sys.executable, "-m", "edgeseg", *words]
            return ["sh", "-c", '"$@"; exit $?', "sh", *run]  # a parent, as unshare is

    told = modules["arm64_station"].ask_station(Here(), "m.onnx")
    assert (told["healthz"], told["page"]) == (200, 200)
    assert told["parts"] == {
        "good-002": {"of_its_trigger": True, "code": 1, "score": 100.0, "threshold": 102.5},
        "dent-000": {"of_its_trigger": True, "code": 2, "score": 130.0, "threshold": 102.5},
    }


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the image's Python is 3.11")
@pytest.mark.parametrize("arch", ["arm64", "both"])
def test_images_are_compared_when_asked_and_one_command_makes_both(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    build, made = modules["build"], []

    def build_image(arch: str, target: Path, **_: object) -> dict[str, Any]:
        made.append(arch)
        return {"architecture": arch, "digest": digest, "built": 1}

    digest = "sha256:00"
    monkeypatch.setattr(build, "build_image", build_image)
    monkeypatch.setattr(build.shutil, "which", lambda _: "mmdebstrap")
    words = ["build.py", "--arch", arch, "--out", str(tmp_path), "--check"]
    monkeypatch.setattr(sys, "argv", words)
    build.main()
    asked = ["amd64", "arm64"] if arch == "both" else [arch]
    assert made == [each for each in asked for _ in range(2)]
    told = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert sorted(one["architecture"] for one in told.values()) == asked
    assert {one["built"] for one in told.values()} == {2}
    monkeypatch.setattr(
        build, "build_image", lambda arch, target, **_: {"digest": target.name, "built": 1}
    )
    with pytest.raises(SystemExit, match="not reproducible"):
        build.main()


@pytest.mark.skipif(
    "EDGESEG_TEST_INSTALL" not in os.environ,
    reason="needs the package index and Debian's; set EDGESEG_TEST_INSTALL=1 to build an image",
)
def test_a_clip_is_streamed_inside_of_the_image(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    """As its user, on a read-only root, with nothing of this computer but the kernel."""
    inside, missing = modules["inside"], modules["inside"].what_is_missing(emulate=False)
    if missing or shutil.which("mmdebstrap") is None or sys.version_info[:2] != (3, 11):
        pytest.skip(missing or "needs mmdebstrap and Python 3.11")
    script = (sys.executable, str(IMAGE / "build.py"), "--arch", "amd64", "--out", str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    built = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=HANGS_S)
    assert built.returncode == 0, built.stderr
    (archive,) = tmp_path.glob("*.oci.tar")
    image = inside.unpack(archive, tmp_path / "image")
    write_brightness_model(image.volume / "m.onnx", metadata=brightness_metadata(threshold=102.5))
    write_clip(image.volume / "clip.avi", size_hw=(32, 48), frames=6)
    for path in (image.volume, *image.volume.iterdir()):
        path.chmod(0o777)
    code = (
        "import os\nprint(os.getuid(), os.getgid())\n"
        "for place in ('/x', '/usr/x', '/tmp/x', 'x'):\n"
        "    try: open(place, 'w'); print(place)\n    except OSError as e: print(e.strerror)"
    )
    told = image.run(code, entrypoint=("python3.11", "-c"))
    refused = ["Read-only file system"] * 2
    assert told.stdout.splitlines() == ["65532 65532", *refused, "/tmp/x", "x"], told.stderr
    streamed = image.run(
        "stream", "--model", "m.onnx", "--source", "clip.avi", "--backend", "cpu",
        "--events", "events.jsonl",
    )  # fmt: skip
    assert streamed.returncode == 0, streamed.stderr
    lines = map(json.loads, (image.volume / "events.jsonl").read_text().splitlines())
    verdicts = [line["verdict"] for line in lines if line["event"] == "frame"]
    # Each frame is brighter than the one before; the codec is off by one.
    assert verdicts in (["good"] * 3 + ["defect"] * 3, ["good"] * 4 + ["defect"] * 2)
