"""Unpack an image of build.py and run commands inside of it, as a container would.

    python release/image/inside.py IMAGE.oci.tar FOLDER                     # unpack
    python release/image/inside.py IMAGE.oci.tar FOLDER -- doctor           # and run edgeseg

The root is read-only, /var/lib/edgeseg is FOLDER/volume, the user is not root, the network is that
of this computer. Namespaces need root here. An image for arm64 runs by qemu-user-static, which is
registered in a user namespace of its own (Linux 6.7): nothing of this computer changes.
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

QEMU = "/usr/bin/qemu-aarch64-static"
# Processors of Raspberry Pi 4 and 5 (and of Jetson Orin, nearly), as /proc/cpuinfo describes them.
# Emulation shows the one of this computer there, and in /sys. ONNX Runtime and OpenVINO ask both
# for kernels, and OpenVINO ends where /sys does not say which processor it is.
CPUS = {
    "cortex-a72": ("0xd08", "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"),
    "cortex-a76": (
        "0xd0b",
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc "
        "dcpop asimddp",
    ),
}
_SYSTEM = "/sys/devices/system/cpu"
_MAGIC = (
    r":edgeseg-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:"
)
# Where the root is seen, in a namespace of its own: the user inside could not go through a folder
# of root's to where it was unpacked.
_PLACE = "/mnt"
_MOUNTS = f"""set -e
mount --make-rprivate /
mount --bind {{root}} {_PLACE}
mount --bind {{volume}} {_PLACE}/var/lib/edgeseg
mount --rbind /dev {_PLACE}/dev
mount --rbind /sys {_PLACE}/sys
mount -t proc proc {_PLACE}/proc
mount -t tmpfs -o mode=1777 tmpfs {_PLACE}/tmp
{{cpuinfo}}
mount -o remount,bind,ro {_PLACE}
exec {{start}}
"""
_EMULATED = """set -e
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
printf %s {register} > /proc/sys/fs/binfmt_misc/register
exec unshare --user --map-user={uid} --map-group={uid} {enter}
"""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """An unpacked image."""

    root: Path
    volume: Path  # what it may write to
    config: dict[str, list[str]] = field(repr=False)
    cpu: str | None  # emulated, or None

    def command(self, *words: str, entrypoint: tuple[str, ...] | None = None) -> list[str]:
        """What to start here so that the image's entry point, or another, runs with these words."""
        uid = self.config["User"].partition(":")[0]
        start = entrypoint or tuple(self.config["Entrypoint"])
        enter = [
            f"--root={_PLACE}", f"--wd={self.config['WorkingDir']}", "--",
            "/usr/bin/python3.11", "-c", _EXEC, json.dumps(self.config["Env"]), *start, *words,
        ]  # fmt: skip
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
        if self.cpu is None:
            run = [*drop, "unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", *enter]
            return self._mounted(run, cpuinfo="")
        script = _EMULATED.format(
            register=shlex.quote(f"{_MAGIC}{QEMU}:F"), uid=uid, enter=shlex.join(enter)
        )
        told, system = (self.root.parent / f"{name}.{self.cpu}" for name in ("cpuinfo", "cpus"))
        told.write_text(_cpuinfo(self.cpu), encoding="utf-8")
        _describe_in_sys(self.cpu, system)
        own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
        return self._mounted(
            [*drop, "env", f"QEMU_CPU={self.cpu}", *own],
            cpuinfo=f"mount --bind {shlex.quote(str(told))} {_PLACE}/proc/cpuinfo\n"
            f"mount --bind {shlex.quote(str(system))} {_PLACE}{_SYSTEM}",
        )

    def _mounted(self, run: list[str], *, cpuinfo: str) -> list[str]:
        root, volume = shlex.quote(str(self.root)), shlex.quote(str(self.volume))
        script = _MOUNTS.format(root=root, volume=volume, start=shlex.join(run), cpuinfo=cpuinfo)
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]

    def run(
        self, *words: str, entrypoint: tuple[str, ...] | None = None, timeout: float = 3600
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        command = self.command(*words, entrypoint=entrypoint)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


# The image has neither a shell nor `env`: Python sets what its config says, and nothing else stays.
_EXEC = (
    "import json, os, sys; e = dict(s.split('=', 1) for s in json.loads(sys.argv[1])); "
    "os.environ.clear(); os.environ.update(e); os.execvp(sys.argv[2], sys.argv[2:])"
)


def what_is_missing(*, emulate: bool) -> str | None:
    """Why no image can be run here, in a sentence."""
    if os.geteuid() != 0:
        return "namespaces need root"
    tools = ["unshare", "setpriv", *([QEMU] if emulate else [])]
    for tool in tools:
        if shutil.which(tool) is None:
            return f"{tool} is not here (util-linux, qemu-user-static)"
    probe = "mount --make-rprivate / && unshare --user --map-root-user true"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", probe], capture_output=True, text=True)
    return None if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()}"


def unpack(image: Path, folder: Path, *, cpu: str = "cortex-a76") -> Inside:
    """Lay the layers over each other, as the manifest of the archive says."""
    archive, root, volume = folder / "archive", folder / "root", folder / "volume"
    for path in (archive, root, volume):
        path.mkdir(parents=True)
    _extract(image, archive)
    manifest = _blob(archive, _index(archive)["manifests"][0]["digest"])
    config = _blob(archive, manifest["config"]["digest"])
    for layer in manifest["layers"]:
        _extract(_path(archive, layer["digest"]), root)
    shutil.rmtree(archive)
    os.chown(volume, *(int(part) for part in config["config"]["User"].split(":")))
    foreign = {"amd64": "x86_64", "arm64": "aarch64"}[config["architecture"]] != platform.machine()
    return Inside(root=root, volume=volume, config=config["config"], cpu=cpu if foreign else None)


def _extract(packed: Path, folder: Path) -> None:
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="tar")


def _index(archive: Path) -> dict[str, list[dict[str, str]]]:
    loaded: dict[str, list[dict[str, str]]] = json.loads((archive / "index.json").read_bytes())
    return loaded


def _blob(archive: Path, digest: str):
    return json.loads(_path(archive, digest).read_bytes())


def _path(archive: Path, digest: str) -> Path:
    return archive / "blobs" / digest.replace(":", "/")


def _cpuinfo(cpu: str) -> str:
    part, features = CPUS[cpu]
    one = (
        "processor\t: {}\nBogoMIPS\t: 108.00\nFeatures\t: {}\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: {}\nCPU revision\t: 1\n\n"
    )
    return "".join(one.format(index, features, part) for index in range(os.cpu_count() or 1))


def _describe_in_sys(cpu: str, folder: Path) -> None:
    """Copy what this computer says of its processors, with the register that names an ARM's."""
    part = int(CPUS[cpu][0], 16)
    register = 0x41 << 24 | 0x4 << 20 | 0xF << 16 | part << 4 | 0x1  # as in cpuinfo
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("online", "possible", "present"):
        shutil.copyfile(f"{_SYSTEM}/{name}", folder / name)
    for number in range(os.cpu_count() or 1):
        named = folder / f"cpu{number}/regs/identification"
        named.mkdir(parents=True)
        (named / "midr_el1").write_text(f"0x{register:016x}\n", encoding="ascii")
        topology = Path(f"{_SYSTEM}/cpu{number}/topology")
        (folder / f"cpu{number}/topology").mkdir()
        for path in topology.glob("*"):
            shutil.copyfile(path, folder / f"cpu{number}/topology/{path.name}")


def main() -> None:
    """Unpack, and run what stands behind `--`."""
    words = sys.argv[1:]
    place = words.index("--") if "--" in words else len(words)
    if place != 2:
        sys.exit(__doc__)
    missing = what_is_missing(emulate=False)
    if missing:
        sys.exit(missing)
    inside = unpack(Path(words[0]).resolve(), Path(words[1]).resolve())
    if place < len(words):
        sys.exit(subprocess.run(inside.command(*words[place + 1 :])).returncode)


if __name__ == "__main__":
    main()
