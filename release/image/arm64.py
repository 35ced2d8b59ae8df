"""Run the device install on aarch64 by emulation, and the same on x86, on the same pictures.

    python release/image/arm64.py --data DATA/bottle --out bench/results/arm64 --work FOLDER

Both run in images of build.py: the same Debian, the same locks, the same commands. Models are
fitted and exported here, from good pictures of a folder that is laid out as MVTec AD's. Needs
what inside.py and build.py need, torch, and an hour; nothing of it is timed.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))
from arm64_report import write_report
from arm64_station import NotRun, ask_station
from build import BASE, build_twice
from dist import commit_time, git
from inside import Inside, unpack, what_is_missing

BACKBONES = ("mobilenet_v3_small", "efficientnet_lite1")
PRECISIONS = ("fp32", "int8")
BACKENDS = ("cpu", "openvino")
TAUGHT = BACKBONES[
    0
]  # emulation makes ten seconds of it ten minutes, and the other takes thrice that
# With dot products (Raspberry Pi 5, Jetson Orin) and without (Raspberry Pi 4).
PROCESSORS = {"x86": None, "cortex-a76": "cortex-a76", "cortex-a72": "cortex-a72"}
# Scores of a graph with ONNX Runtime's kernels for integers, and by the same integers in floats.
_KERNELS = """
import json, sys
from pathlib import Path
import cv2, onnxruntime as ort
options = [ort.SessionOptions() for _ in range(2)]
options[1].graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
sessions = [ort.InferenceSession(sys.argv[1], each, ["CPUExecutionProvider"]) for each in options]
entry = sessions[0].get_inputs()[0]
for path in sorted(Path("pictures").iterdir()):
    frame = cv2.resize(cv2.imread(str(path)), tuple(entry.shape[2:0:-1]))
    feed = {entry.name: frame[None, ..., ::-1].copy()}
    print(json.dumps([float(each.run(["score"], feed)[0].ravel()[0]) for each in sessions]))
"""
LONGEST_S = 1800  # of one command, which takes seconds where nothing is emulated
FITTED, CALIBRATED, JUDGED = 40, 24, 3  # pictures: for the fit, for calibrate, of each kind


Step = Callable[[Inside], Any]


def main() -> None:
    """Models, images, runs, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a category, as MVTec AD's")
    parser.add_argument("--out", type=Path, required=True, help="folder of the report")
    parser.add_argument("--work", type=Path, required=True, help="folder for images and models")
    given = parser.parse_args()
    missing = what_is_missing(emulate=True)
    if missing:
        sys.exit(missing)
    work = given.work.resolve()
    shared = work / "shared"
    if not (shared / "done").is_file():  # models that are there are taken again
        make_models(given.data, shared)
    results: dict[str, dict[str, Any]] = {}
    for name, cpu in PROCESSORS.items():
        steps = STREAMS if name == "cortex-a72" else STREAMS | OTHER_STEPS
        results[name] = run_steps(work, name, cpu, steps)
    results["commit"] = {"commit": (shared / "done").read_text(encoding="utf-8")}
    images = [json.loads(path.read_text()) for path in sorted(work.glob("image-*.json"))]
    print(f"wrote {write_report(given.out, results, images)}")


def make_models(data: Path, shared: Path) -> None:
    """Fit, export and verify here; what is judged and calibrated on was not fitted."""
    good = sorted((data / "train/good").iterdir())
    kinds = (sorted(kind.iterdir()) for kind in (data / "test").iterdir())
    judged = [picture for kind in kinds for picture in kind[:JUDGED]]
    for folder, pictures in (
        ("good", good[:FITTED]),
        ("later", good[FITTED : FITTED + CALIBRATED]),
        ("pictures", judged),
    ):
        (shared / folder).mkdir(parents=True, exist_ok=True)
        for number, path in enumerate(sorted(pictures)):
            name = f"{path.parent.name}-{number:03d}{path.suffix}"
            shutil.copy(path, shared / folder / name)
    run = (sys.executable, "-m", "edgeseg")
    for backbone in BACKBONES:
        part = str(shared / f"{backbone}.edgeseg")
        fit = (*run, "fit", str(shared / "good"), "--backbone", backbone, "--size", "256")
        _run([*fit, "--out", part])
        for precision in PRECISIONS:
            target = str(shared / f"{backbone}-{precision}.onnx")
            export = (*run, "export", part, "--precision", precision, "--out", target)
            _run([*export, "--calibrate", str(shared / "good")])
        Path(part).unlink()
    graph = str(shared / f"{TAUGHT}.graph.onnx")
    _run([*run, "export-backbone", graph, "--backbone", TAUGHT])
    (shared / "done").write_text(git("rev-parse", "--short", "HEAD").strip(), encoding="utf-8")


def make_inside(work: Path, arch: str, name: str, cpu: str | None) -> Inside:
    """The unpacked image, built if it is not there."""
    archive = work / f"{arch}.oci.tar"
    if not archive.is_file():
        image = build_twice(arch, archive, lists=BASE, epoch=commit_time())
        (work / f"image-{arch}.json").write_text(json.dumps(image), encoding="utf-8")
    shutil.rmtree(work / name, ignore_errors=True)
    return unpack(archive, work / name, cpu=cpu or "cortex-a76")


def run_steps(work: Path, name: str, cpu: str | None, steps: dict[str, Step]) -> dict[str, Any]:
    """What every step gave, or why it did not run; what an earlier run gave is taken again."""
    kept = work / f"{name}.json"
    given = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if steps.keys() <= given.keys():
        return given
    inside = make_inside(work, "arm64" if cpu else "amd64", name, cpu)
    shutil.copytree(work / "shared", inside.volume, dirs_exist_ok=True)
    subprocess.run(["chown", "-R", inside.config["User"], inside.volume], check=True)
    for step, run in steps.items():
        if step not in given:
            try:
                given[step] = run(inside)
            except NotRun as failure:
                given[step] = {"failed": str(failure)}
                print(f"{name}: {step}: {failure}", file=sys.stderr)
            kept.write_text(json.dumps(given), encoding="utf-8")
    return given


def edgeseg(inside: Inside, *words: str) -> str:
    """What a command prints; stops where it fails."""
    print(f"{inside.cpu or 'x86'}: edgeseg {' '.join(words)}", file=sys.stderr)
    return _output_of(inside, *words)


def _output_of(inside: Inside, *words: str, entrypoint: tuple[str, ...] | None = None) -> str:
    try:
        done = inside.run(*words, entrypoint=entrypoint, timeout=LONGEST_S)
    except subprocess.TimeoutExpired as late:
        raise NotRun(f"did not end in {LONGEST_S // 60} minutes") from late
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotRun(said[-1] if said else f"ended with exit code {done.returncode}")
    return done.stdout


def stream(inside: Inside, model: str, backend: str = "cpu") -> dict[str, Any]:
    """Run a model over the folder, and read its events."""
    events = inside.volume / "events.jsonl"
    events.unlink(missing_ok=True)
    told = ("--events", events.name, "--backend", backend, "--threads", "1")
    edgeseg(inside, "stream", "--model", model, "--source", "pictures", *told)
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return _judged([line for line in lines if line["event"] == "frame"])


def predict(inside: Inside, model: str) -> dict[str, Any]:
    """Judge the same pictures one by one, by the graph and without torch."""
    told = edgeseg(inside, "predict", model, "pictures", "--json", "--quiet")
    return _judged([json.loads(line) for line in told.splitlines()])


def _judged(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scores": [line["score"] for line in lines],
        "verdicts": [line["verdict"] for line in lines],
        "threshold": lines[0]["threshold"],
    }


def calibrate(inside: Inside, model: str, backend: str) -> dict[str, Any]:
    """Take the threshold again here, in a copy, and judge by it."""
    copy = f"calibrated-{model}-{backend}"
    for ending in (".onnx", ".json"):
        shutil.copy(inside.volume / f"{model}{ending}", inside.volume / f"{copy}{ending}")
    subprocess.run(["chown", "-R", inside.config["User"], inside.volume], check=True)
    edgeseg(inside, "calibrate", f"{copy}.onnx", "later", "--backend", backend, "--threads", "1")
    return stream(inside, f"{copy}.onnx", backend)


def kernels(inside: Inside, model: str) -> list[list[float]]:
    """Score each picture twice: with kernels for integers, and without."""
    told = _output_of(inside, model, entrypoint=("python3.11", "-c", _KERNELS))
    return [json.loads(line) for line in told.splitlines()]


def teach(inside: Inside, backbone: str) -> dict[str, Any]:
    """Fit through the backbone's graph, without torch, and run what was fitted."""
    project, graph = f"taught-{backbone}", f"{backbone}.graph.onnx"
    edgeseg(inside, "teach", project, "--good", "good", "--backbone", backbone, "--graph", graph)
    return stream(inside, f"{project}/fit/model.onnx")


MODELS = [f"{backbone}-{precision}" for backbone, precision in product(BACKBONES, PRECISIONS)]
STREAMS: dict[str, Step] = {
    f"stream {model} {backend}": partial(stream, model=f"{model}.onnx", backend=backend)
    for model, backend in product(MODELS, BACKENDS)
}
OTHER_STEPS: dict[str, Step] = {
    "doctor": lambda inside: edgeseg(inside, "doctor"),
    **{f"predict {name}": partial(predict, model=f"{name}-fp32.onnx") for name in BACKBONES},
    f"teach {TAUGHT}": partial(teach, backbone=TAUGHT),
    **{f"station {name}": partial(ask_station, model=f"{name}-fp32.onnx") for name in BACKBONES},
    **{
        f"calibrate {model} {backend}": partial(calibrate, model=model, backend=backend)
        for model, backend in product(MODELS, BACKENDS)
        if model.endswith("int8")
    },
    **{f"kernels {model}": partial(kernels, model=f"{model}.onnx") for model in MODELS[1::2]},
}


def _run(words: list[str]) -> None:
    print(" ".join(words[1:]), file=sys.stderr)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
