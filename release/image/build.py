"""Build an image of the device install for amd64 or arm64, as an OCI archive, without a container
service.

    python release/image/build.py --arch arm64 --out OUT          # edgeseg-VERSION-arm64.oci.tar
    python release/image/build.py --arch both --out OUT --check   # built twice, and compared

Needs Python 3.11, which is the image's own, mmdebstrap and the package index. Nothing of the image
runs while it is built, so that any computer builds it for both. Two layers: Debian's packages
(python.packages, cameras.packages, and gstreamer.packages with --gstreamer), and what
release/device.lock pins with edgeseg. No package manager is in it, and without GStreamer no shell;
what is, stands in /var/lib/dpkg/status.d.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))
from dist import REPO, build, commit_time, digest, locked_backend
from oci import Layer, write_archive, write_layer

from edgeseg import __version__

HERE = Path(__file__).parent
SUITE, GLIBC = "bookworm", 36  # its glibc is 2.36: wheels for a later one do not run
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
BASE = ("python", "cameras")  # lists of packages
SITE = "usr/local/lib/python3.11/dist-packages"
USER = 65532
OWNED = {"var/lib/edgeseg": USER}  # a new volume takes its owner from here
# Unhealthy when no frame was scored for --stale-after seconds, if the page is served on 8080.
HEALTH = "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=5)"
CONFIG: dict[str, Any] = {
    "User": f"{USER}:{USER}",
    "WorkingDir": "/var/lib/edgeseg",
    "Entrypoint": ["edgeseg"],
    "Cmd": ["--help"],
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "HOME=/var/lib/edgeseg",
        "EDGESEG_STATE=/var/lib/edgeseg/state",
        "LANG=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "Volumes": {"/var/lib/edgeseg": {}, "/tmp": {}},
    "StopSignal": "SIGTERM",
    "Healthcheck": {  # times in nanoseconds
        "Test": ["CMD", "python3.11", "-c", HEALTH],
        "Interval": 30_000_000_000,
        "Timeout": 10_000_000_000,
        "StartPeriod": 60_000_000_000,
    },
}
# Of Debian's packages: what only runs when they are installed, and what nobody reads on a device.
# Licences (usr/share/doc/*/copyright) stay.
_DROPPED = (
    "dev", "etc/apt", "etc/cron.daily", "etc/dpkg", "etc/fstab", "etc/hostname", "etc/logrotate.d",
    "etc/resolv.conf", "bin/tar", "usr/bin/dpkg*", "usr/sbin/start-stop-daemon",
    "usr/share/locale", "usr/share/man", "usr/share/lintian", "usr/share/info", "usr/share/icons",
    "usr/share/perl*", "usr/share/dpkg", "usr/lib/*/gconv", "usr/lib/*/perl*", "usr/bin/perl*",
    "usr/lib/dpkg", "var/cache", "var/lib/apt", "var/log", "var/lib/dpkg/[!s]*",
    "var/lib/dpkg/status",
)  # fmt: skip
# What a control file says of each package stays, as image scanners read it.
_KEEP_STATUS = (
    'mkdir -p "$1/var/lib/dpkg/status.d"; for deb in "$1"/var/cache/apt/archives/*.deb; do '
    'dpkg-deb -f "$deb" > "$1/var/lib/dpkg/status.d/$(dpkg-deb -f "$deb" Package)"; done'
)
_COMPILE = (
    "import compileall, py_compile, sys; root, code = sys.argv[1:]; "
    "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH; "
    "compileall.compile_dir(code, quiet=2, stripdir=root, prependdir='/', invalidation_mode=mode)"
)
_LAUNCHER = (
    "#!/usr/bin/python3.11\nimport sys\n\nfrom edgeseg.cli import main\n\nsys.exit(main())\n"
)


def main() -> None:
    """Build, compare if asked, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=(*MACHINES, "both"), required=True)
    parser.add_argument("--out", type=Path, default=REPO / "dist")
    parser.add_argument("--gstreamer", action="store_true", help="with GStreamer: pipelines")
    parser.add_argument("--check", action="store_true", help="build twice and compare")
    given = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        sys.exit("needs Python 3.11, the image's own: its bytecode is compiled here")
    if shutil.which("mmdebstrap") is None:
        sys.exit("needs mmdebstrap (sudo apt install mmdebstrap)")
    given.out.mkdir(parents=True, exist_ok=True)
    kind = "-gstreamer" if given.gstreamer else ""
    lists = (*BASE, "gstreamer") if given.gstreamer else BASE
    make = build_twice if given.check else build_image
    for arch in MACHINES if given.arch == "both" else (given.arch,):
        name = f"edgeseg-{__version__}-{arch}{kind}"
        image = make(arch, given.out / f"{name}.oci.tar", lists=lists, epoch=commit_time())
        told = json.dumps(image, indent=2)
        (given.out / f"{name}.json").write_text(told + "\n", encoding="utf-8")
        print(told)


def build_twice(arch: str, target: Path, *, lists: tuple[str, ...], epoch: int) -> dict[str, Any]:
    """Write the archive; end where it comes out otherwise when it is made again."""
    image = build_image(arch, target, lists=lists, epoch=epoch)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        again = build_image(arch, Path(scratch) / "again.tar", lists=lists, epoch=epoch)
    if again != image:
        sys.exit(f"not reproducible:\n{json.dumps([image, again], indent=2)}")
    return image | {"built": 2}


def build_image(arch: str, target: Path, *, lists: tuple[str, ...], epoch: int) -> dict[str, Any]:
    """Write the archive, and tell its digests and sizes."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        debian, device = Path(scratch) / "debian", Path(scratch) / "device"
        print(f"{arch}: Debian's packages", file=sys.stderr)
        put_debian(arch, debian, packages=[p for name in lists for p in packages_of(name)])
        print(f"{arch}: what release/device.lock pins", file=sys.stderr)
        put_device(arch, device, epoch=epoch)
        print(f"{arch}: packing", file=sys.stderr)
        layers = [
            write_layer(
                folder,
                Path(scratch) / f"{folder.name}.tar.gz",
                epoch=epoch,
                comment=what,
                owners=OWNED,
            )
            for folder, what in ((debian, f"Debian {SUITE}"), (device, f"edgeseg {__version__}"))
        ]
        image = write_archive(
            target,
            layers,
            config=CONFIG | {"Labels": _labels()},
            architecture=arch,
            tag=f"edgeseg:{__version__}",
            epoch=epoch,
            created=datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        return {
            "architecture": arch,
            "digest": image,
            "sha256": digest(target),
            "archive_mb": _mb(target.stat().st_size),
            "layers": [_layer(layer) for layer in layers],
            "debian_packages": len(list((debian / "var/lib/dpkg/status.d").iterdir())),
            "built": 1,
        }


def packages_of(name: str) -> list[str]:
    """Debian's packages of one list."""
    lines = (HERE / f"{name}.packages").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def put_debian(arch: str, folder: Path, *, packages: list[str]) -> None:
    """Unpack packages and what they need. None of their scripts runs."""
    folder.mkdir()
    packed = folder.with_suffix(".tar")
    _run(
        "mmdebstrap", "--quiet", "--variant=extract", f"--architectures={arch}",
        '--aptopt=APT::Install-Recommends "false"', f"--include={','.join(packages)}",
        f"--extract-hook={_KEEP_STATUS}", SUITE, str(packed),
    )  # fmt: skip
    with tarfile.open(packed) as tar:
        for member in tar:
            if not member.isdev():
                tar.extract(member, folder, set_attrs=True, filter="tar")
    packed.unlink()
    for pattern in _DROPPED:
        for path in sorted(folder.glob(pattern), reverse=True):
            _remove(path)
    for name in ("dev", "proc", "sys", "tmp", "run"):  # what is mounted needs a place
        (folder / name).mkdir(exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    _compile(folder, folder / "usr/lib/python3.11")


def put_device(arch: str, folder: Path, *, epoch: int) -> None:
    """The locked packages of this architecture, by hash, and edgeseg itself."""
    site = folder / SITE
    machine = MACHINES[arch]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 16, -1)]
    platforms = [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{machine}")]
    pip = (
        sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(site),
        "--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3", "--abi=none",
        "--only-binary=:all:", "--no-deps", *platforms,
    )  # fmt: skip
    _run(*pip, "--require-hashes", "-r", str(REPO / "release/device.lock"))
    with tempfile.TemporaryDirectory() as scratch:
        backend = locked_backend(Path(scratch) / "backend")
        wheels = build(Path(scratch) / "built", epoch=epoch, backend=backend)
        wheels_in = str(wheels[0].parent)
        _run(*pip, "--no-index", "--find-links", wheels_in, f"edgeseg=={__version__}")
    shutil.rmtree(site / "bin")  # they name the Python of this computer
    _compile(folder, site)
    launcher = folder / "usr/local/bin/edgeseg"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)
    (folder / "var/lib/edgeseg").mkdir(parents=True)
    (folder / "etc").mkdir()
    home = "/var/lib/edgeseg"
    (folder / "etc/passwd").write_text(
        f"root:x:0:0:root:/:/none\nedgeseg:x:{USER}:{USER}::{home}:/none\n", encoding="utf-8"
    )
    (folder / "etc/group").write_text(f"root:x:0:\nedgeseg:x:{USER}:\n", encoding="utf-8")


def _compile(root: Path, code: Path) -> None:
    """Write bytecode, which a read-only root could not keep. It asks for no times of sources.

    In a process of its own: bytecode also says which strings the process has interned.
    """
    done = subprocess.run(
        [sys.executable, "-s", "-S", "-c", _COMPILE, str(root), str(code)],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{code} could not be compiled:\n{done.stderr[-3000:]}")


def _labels() -> dict[str, str]:
    return {
        "org.opencontainers.image.title": "edgeseg",
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }


def _layer(layer: Layer) -> dict[str, Any]:
    sizes = {"packed_mb": _mb(layer.blob.size), "unpacked_mb": _mb(layer.unpacked)}
    return {"what": layer.comment, "digest": layer.blob.digest} | sizes


def _mb(size: int) -> float:
    return round(size / 1e6, 1)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words[0]} failed:\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    main()
