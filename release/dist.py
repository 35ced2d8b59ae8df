"""Build the release: a wheel and an sdist, bit for bit the same from the same commit, and an SBOM.

    python release/dist.py --out dist

Everything is built twice, from two copies of what git knows, and compared. Times in the archives
are those of the commit (SOURCE_DATE_EPOCH). The build backend is the one of release/build.lock, by
its hash, in a folder of its own: what else is installed here is not seen by it.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for sbom.py, also when loaded by its path
from sbom import write_sbom

REPO = Path(__file__).resolve().parent.parent
_BUILD = (
    "import sys; sys.path.insert(0, {backend!r}); "
    "import setuptools.build_meta as b; b.build_{kind}({folder!r})"
)


def main() -> None:
    """Build, compare, and write to the folder of the release."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPO / "dist")
    parser.add_argument(
        "--backend",
        type=Path,
        help="a folder with a build backend that was installed before; not for a release",
    )
    given = parser.parse_args()
    out, epoch = given.out, commit_time()
    with tempfile.TemporaryDirectory() as scratch:
        backend = given.backend or locked_backend(Path(scratch) / "backend")
        first, second = (
            build(Path(scratch) / name, epoch=epoch, backend=backend) for name in ("a", "b")
        )
        differing = sorted(contents(first) ^ contents(second))
        if differing:
            sys.exit(f"not reproducible: {differing}")
        out.mkdir(parents=True, exist_ok=True)
        for path in first:
            shutil.copy(path, out / path.name)
    bill = write_sbom(REPO / "release/device.lock", out, epoch=epoch)
    sums = [f"{digest(path)}  {path.name}" for path in (*(out / p.name for p in first), bill)]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print("\n".join(sums))


def commit_time() -> int:
    """Seconds of the commit, or what the caller has set."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    return int(git("log", "-1", "--format=%ct"))


def git(*words: str) -> str:
    """What git says of this checkout."""
    return subprocess.run(
        ["git", *words], cwd=REPO, check=True, capture_output=True, text=True
    ).stdout


def locked_backend(folder: Path) -> Path:
    """The build backend of the lock, by its hash, from the package index."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
    lock = REPO / "release/build.lock"
    done = subprocess.run(
        [*pip, "--ignore-installed", "--target", str(folder), "-r", str(lock)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"release/build.lock cannot be installed:\n{done.stderr[-3000:]}")
    return folder


def build(folder: Path, *, epoch: int, backend: Path) -> list[Path]:
    """The wheel and the sdist of a fresh copy."""
    checkout, built = folder / "checkout", folder / "built"
    built.mkdir(parents=True)
    for name in git("ls-files", "-z").split("\0")[:-1]:
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (REPO / name).is_symlink():
            target.symlink_to((REPO / name).readlink())
        else:
            shutil.copyfile(REPO / name, target)
            target.chmod(0o755 if os.access(REPO / name, os.X_OK) else 0o644)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = kept | {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    for kind in ("wheel", "sdist"):
        code = _BUILD.format(kind=kind, folder=str(built), backend=str(backend))
        done = subprocess.run(
            [sys.executable, "-s", "-S", "-c", code],  # without the packages of this environment
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(done.stderr[-3000:])
    for sdist in built.glob("*.tar.gz"):
        level(sdist, epoch=epoch)
    return sorted(built.iterdir())


def level(sdist: Path, *, epoch: int) -> None:
    """Take out of a .tar.gz what depends on who packed it, and when."""
    plain = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member) if member.isfile() else None
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, content)
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed:
        packed.write(plain.getvalue())


def contents(paths: list[Path]) -> set[tuple[str, str]]:
    """Files by name and hash."""
    return {(path.name, digest(path)) for path in paths}


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
