"""Where anomalib is installed: an environment of its own, because its dependencies may clash."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_text
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.bench.harness.processes import last_line

REQUIREMENT = "anomalib==2.7.*"
FOLDER = Path(".venv-peers")


def find_python(given: Path | None) -> Path:
    """The interpreter that can import anomalib: the one given, this one, or .venv-peers."""
    if given is not None:
        if not _has_anomalib(given):
            raise EdgesegError(
                Setting("peers_python", repr(str(given))),
                f": cannot import anomalib; run: {given} -m pip install '{REQUIREMENT}'",
            )
        return given
    if importlib.util.find_spec("anomalib") is not None:
        return Path(sys.executable)
    python = FOLDER / "bin" / "python"
    if python.is_file() and _has_anomalib(python):
        return python
    raise EdgesegError(
        f"anomalib is not installed here, nor in {FOLDER}; give ",
        Setting("install", True),
        " to make that environment, or name another with ",
        Setting("peers_python"),
    )


def install(note: Note) -> Path:
    """Make an environment that has anomalib and shares the packages of this one.

    Sharing saves the gigabytes of a second torch and makes both sides run the same one; what
    anomalib wants in other versions is installed in its own folder, which comes first.
    """
    python = FOLDER / "bin" / "python"
    note(f"making {FOLDER} and installing {REQUIREMENT} there")
    _run([sys.executable, "-m", "venv", str(FOLDER)])
    purelib = _output([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    own = sysconfig.get_path("purelib")
    write_text(Path(purelib) / "_edgeseg_shared.pth", f"import site; site.addsitedir({own!r})\n")
    _run([str(python), "-m", "pip", "install", "--quiet", REQUIREMENT])
    return python


def _has_anomalib(python: Path) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('anomalib') is None)"
    try:
        return subprocess.run([str(python), "-c", code], check=False).returncode == 0
    except OSError:
        return False


def _run(words: list[str]) -> None:
    _output(words)


def _output(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EdgesegError(f"`{' '.join(words)}` failed: {last_line(done.stderr)}")
    return done.stdout.strip()
