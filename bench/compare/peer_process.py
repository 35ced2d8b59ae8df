"""Start a peer's process, and turn whatever happens to it into a result."""

import json
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json
from edgeseg.bench.compare.candidates import PEERS, CompareOptions, PeerOptions
from edgeseg.bench.harness.processes import last_line
from edgeseg.bench.harness.units import Result

_WORKER = Path(__file__).resolve().parent / "peer_worker.py"


@dataclass(frozen=True, kw_only=True)
class PeerRequest:
    """Request to a peer; peer_worker.py reads it as JSON."""

    peer: str
    data: Path  # staged, MVTec AD's layout
    weights: Path | None
    test_images: tuple[Path, ...] = ()
    backbone: str = PeerOptions.backbone
    size_hw: tuple[int, int] = CompareOptions.size_hw
    seed: int = 0
    coreset: float = PeerOptions.coreset
    threads: int = CompareOptions.threads
    workers: int = 2  # of its data loader
    fit_only: bool = False

    def __post_init__(self) -> None:
        if self.peer not in PEERS:
            raise UsageError(f"peer {self.peer!r}: expected one of {tuple(PEERS)}")


def run_peer(python: Path, request: PeerRequest, folder: Path, *, timeout_s: int) -> Result:
    """Run in a new folder; the result says `step` and, where it stopped short, `error`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asked, answer = folder / "request.json", folder / "result.json"
    values = asdict(request) | {
        "data": str(request.data.resolve()),
        "weights": None if request.weights is None else str(request.weights),
        "test_images": [str(path) for path in request.test_images],
        "out": str(folder.resolve()),
        "result": str(answer.resolve()),
    }
    write_json(asked, values)
    words = [str(python), str(_WORKER), str(asked)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"step": "any", "error": f"not done after {timeout_s} s"}
    if not answer.is_file():
        how = "killed, out of memory?" if done.returncode == -9 else last_line(done.stderr)[:200]
        return {"step": "start", "error": f"exit code {done.returncode} ({how})"}
    result: Result = json.loads(answer.read_text(encoding="utf-8"))
    return result
