"""The programs of docs/languages.md print what Python computes."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg.runtime
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from tests.support import HANGS_S, KEPT, REPO
from tests.support.fetched_packages import ASSEMBLY, managed_api, node_modules, runtime_headers
from tests.support.small_models import SHOWN, fit_small, write_plate

PROGRAMS = REPO / "docs" / "languages"
INVARIANT = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "DOTNET_CLI_TELEMETRY_OPTOUT": "1"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run(command: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_S, env=os.environ | variables
    )


def node(folder: Path) -> Run:
    """The JavaScript program."""
    modules = str(node_modules("onnxruntime-node"))
    loads = run(["node", "-e", "require('onnxruntime-node')"], NODE_PATH=modules)
    assert loads.returncode == 0, loads.stderr
    return lambda *given: run(
        ["node", str(PROGRAMS / "score.js"), *map(str, given)], NODE_PATH=modules
    )


def link_library(folder: Path) -> None:
    """The shared library of the Python package, under the names that programs look for."""
    onnxruntime = pytest.importorskip("onnxruntime")
    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not libraries:
        pytest.skip("this onnxruntime has no shared library of its own")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / name).symlink_to(libraries[0])


def cpp(folder: Path) -> Run:
    """The C++ program, compiled against the library of the Python package."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    headers = runtime_headers()
    link_library(folder)
    program = folder / "score"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    place = [f"-isystem{headers}", f"-L{folder}", "-lonnxruntime", f"-Wl,-rpath,{folder}"]
    source = str(PROGRAMS / "score.cpp")
    built = run(["g++", "-std=c++17", *warnings, source, *place, "-o", str(program)])
    assert built.returncode == 0, built.stderr
    return lambda *given: run([str(program), *map(str, given)])


def csharp(folder: Path) -> Run:
    """The C# program, compiled by the SDK's compiler alone: a project would ask the network."""
    dotnet = shutil.which("dotnet")
    if dotnet is None:
        pytest.skip("needs a .NET SDK: `dotnet`")
    home = Path(dotnet).resolve().parent
    compiler = newest(home.glob("sdk/*/Roslyn/bincore/csc.dll"))
    runtime = newest(home.glob("shared/Microsoft.NETCore.App/*"))
    if compiler is None or runtime is None:
        pytest.skip(f"needs a .NET SDK: {home} has no compiler")
    shutil.copy(managed_api(), folder)
    link_library(folder)
    references = [f"-r:{path}" for path in runtime.glob("*.dll")]
    references.append(f"-r:{folder / ASSEMBLY}")
    program, source = folder / "score.dll", str(PROGRAMS / "Score.cs")
    options = ["-nologo", "-warnaserror", f"-out:{program}"]
    built = run([dotnet, str(compiler), *options, *references, source], **INVARIANT)
    assert built.returncode == 0, built.stdout + built.stderr
    framework = {"name": "Microsoft.NETCore.App", "version": runtime.name}
    told = json.dumps({"runtimeOptions": {"framework": framework}})
    program.with_suffix(".runtimeconfig.json").write_text(told)
    return lambda *given: run(
        [dotnet, str(program), *map(str, given)], LD_LIBRARY_PATH=str(folder), **INVARIANT
    )


def newest(paths: Iterable[Path]) -> Path | None:
    """The one of the highest version."""
    return max(
        paths, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that an earlier version wrote, and one of today with all outputs."""
    folder = tmp_path_factory.mktemp("models")
    fitted = fit_small(write_plate(folder / "plate"), config=SHOWN)
    made = export_onnx(
        fitted, folder / "today.onnx", options=ExportOptions(allow_random_weights=True)
    )
    assert {"map_grid", "apart"} <= set(made.metadata.outputs)
    return {"kept": KEPT / "part-fp32.onnx", "today": folder / "today.onnx"}


@pytest.mark.parametrize("kind", ["kept", "today"])
@pytest.mark.parametrize("language", [node, cpp, csharp], ids=["JavaScript", "C++", "C#"])
def test_the_same_scores_and_the_same_verdicts(
    language: Callable[[Path], Run], kind: str, models: dict[str, Path], tmp_path: Path
) -> None:
    score = language(tmp_path)
    model = tmp_path / "part.onnx"
    for suffix in (".onnx", ".json"):
        shutil.copy(models[kind].with_suffix(suffix), model.with_suffix(suffix))
    detector = edgeseg.runtime.open(model, backend="cpu", allow_random_weights=True)
    height, width = detector.metadata.size_hw
    random = np.random.default_rng(7)
    frames = [random.integers(0, 256, (height, width, 3), np.uint8) // step for step in (1, 3, 9)]
    paths = [tmp_path / f"{index}.ppm" for index in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        cv2.imwrite(str(path), cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    expected = [detector.predict(frame).score for frame in frames]
    facts = json.loads(model.with_suffix(".json").read_text())
    facts["threshold"]["score"] = sorted(expected)[1]  # one above, one at it, one below
    model.with_suffix(".json").write_text(json.dumps(facts, indent=2))
    done = score(model, *paths)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    scores = np.array([line["score"] for line in lines])
    apart = np.abs(scores / expected - 1).max()
    print(f"{language.__name__}, {kind}: scores differ by {apart:.1e} of their value at most")
    assert apart < 1e-4
    clear = [value != facts["threshold"]["score"] for value in expected]
    verdicts = ["defect" if value > facts["threshold"]["score"] else "good" for value in expected]
    for line, verdict, sure in zip(lines, verdicts, clear, strict=True):
        assert line["verdict"] == verdict or not sure
    cv2.imwrite(str(paths[0]), np.zeros((8, 8, 3), np.uint8))
    refused = score(model, paths[0])
    assert refused.returncode == 1
    assert "expected a P6 of the model's size" in refused.stderr


@pytest.mark.parametrize("name", ["score.cpp", "score.js", "Score.cs"])
def test_they_are_short(name: str) -> None:
    assert len((PROGRAMS / name).read_text().splitlines()) <= 70
