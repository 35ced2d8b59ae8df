"""Tables of release/image/arm64.py: scores and verdicts on aarch64 beside those on x86."""

import json
from pathlib import Path
from typing import Any

_COMMAND = "python release/image/arm64.py --data DATA/bottle --out bench/results/arm64 --work WORK"
_Results = dict[str, Any]


def write_report(out: Path, results: _Results, images: list[dict[str, Any]]) -> Path:
    """report.json has every score; report.md compares."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(
        json.dumps({"results": results, "images": images}, indent=1) + "\n", encoding="utf-8"
    )
    report = out / "report.md"
    report.write_text("\n".join(_lines(results, images)) + "\n", encoding="utf-8")
    return report


def compare(here: _Results, there: _Results) -> dict[str, Any]:
    """How far scores are apart, also as a share of the threshold, and how many verdicts agree."""
    apart = [abs(a - b) for a, b in zip(here["scores"], there["scores"], strict=True)]
    same = [a == b for a, b in zip(here["verdicts"], there["verdicts"], strict=True)]
    return {
        "largest": max(apart),
        "share": max(apart) / there["threshold"],
        "same": sum(same),
        "of": len(same),
    }


def _of(results: _Results, step: str) -> dict[str, Any]:
    """What the steps of one kind gave, by model and backend."""
    return {
        key.removeprefix(f"{step} "): value
        for key, value in results.items()
        if key.startswith(f"{step} ")
    }


def _lines(results: _Results, images: list[dict[str, Any]]) -> list[str]:
    x86, arm = results["x86"], results["cortex-a76"]
    told = [
        "# aarch64 beside x86",
        "",
        f"`{_COMMAND}` at commit {results['commit']['commit']}.",
        "aarch64 is emulated (qemu-user), x86 is this computer; both run the image of",
        "`python release/image/build.py`, with the packages of release/device.lock, as they are.",
        "Nothing is timed: emulation says nothing of speed. /proc/cpuinfo inside describes the",
        "emulated processor: with that of the host, ONNX Runtime does not start under emulation.",
        "",
        "```",
        *[line.rstrip() for line in arm["doctor"].splitlines() if "✓" in line][:12],
        "```",
        "",
        "## Scores",
        "",
        "cortex-a76 has dot products, cortex-a72 has not. Largest difference of a score from x86",
        "in the same backend, also as a share of the threshold; pictures with the same verdict.",
        "",
        "| model | backend | a76: largest | share | verdicts | a72: largest | share | verdicts |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, there in _of(x86, "stream").items():
        model, backend = key.split()
        given = [results[cpu][f"stream {key}"] for cpu in ("cortex-a76", "cortex-a72")]
        cells = [_cells(each, there) for each in given]
        told.append(f"| {model} | {backend} | {' | '.join(cells)} |")
    told += _backend_lines(x86)
    told += _calibrated_lines(results)
    told += _kernel_lines(_of(x86, "kernels"), _of(arm, "kernels"))
    told += _failure_lines(results)
    told += ["", "## What else ran", "", "| step | x86 | aarch64 |", "| --- | --- | --- |"]
    told += [f"| {step} | {a} | {b} |" for step, a, b in _steps(x86, arm)]
    told += _part_lines(_of(x86, "station"), _of(arm, "station"))
    return told + _image_lines(images)


def _backend_lines(x86: _Results) -> list[str]:
    """How far two libraries are apart on one processor, as a measure of the rest."""
    lines = ["", "## OpenVINO beside ONNX Runtime on x86", ""]
    lines += ["| model | largest | share | verdicts |", "| --- | --- | --- | --- |"]
    streamed = _of(x86, "stream")
    for key, there in streamed.items():
        model, backend = key.split()
        if backend == "cpu" and (here := streamed.get(f"{model} openvino")):
            lines.append(f"| {model} | {_cells(here, there)} |")
    return lines


def _calibrated_lines(results: _Results) -> list[str]:
    """What a threshold of each computer's own changes, and what it does not."""
    x86, arm = results["x86"], results["cortex-a76"]
    lines = ["", "## int8 after `edgeseg calibrate` on each computer", ""]
    lines += ["Largest difference of a score before and after; the threshold of the file and those"]
    lines += ["that each computer took.", ""]
    lines += ["| model | backend | before | after | share | verdicts | threshold | x86 | a76 |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for key, there in _of(x86, "calibrate").items():
        first, here = x86[f"stream {key}"], arm[f"calibrate {key}"]
        before = _cells(arm[f"stream {key}"], first).partition(" |")[0]
        thresholds = " | ".join(_fact(each, "threshold") for each in (first, there, here))
        cells = f"{before} | {_cells(here, there)} | {thresholds}"
        lines.append(f"| {key.replace(' ', ' | ')} | {cells} |")
    return lines


def _image_lines(images: list[dict[str, Any]]) -> list[str]:
    """Digests, how often they came out, and sizes."""
    lines = ["", "## Images", "", "| image | built with the same bytes | archive MB | digest |"]
    lines += ["| --- | --- | --- | --- |"]
    for image in images:
        times = f"{image['built']} times" if image["built"] > 1 else "not compared"
        sizes = f"{times} | {image['archive_mb']}"
        lines.append(f"| {image['architecture']} | {sizes} | `{image['digest']}` |")
    lines += ["", "| image | layer | packed MB | unpacked MB |", "| --- | --- | --- | --- |"]
    for image in images:
        for layer in image["layers"]:
            sizes = f"{layer['packed_mb']} | {layer['unpacked_mb']}"
            lines.append(f"| {image['architecture']} | {layer['what']} | {sizes} |")
    return lines


def _part_lines(x86: dict[str, Any], arm: dict[str, Any]) -> list[str]:
    """What a PLC read of each part: registers 6, and 8 to 11 in their unit of a thousandth."""
    lines = ["", "## Parts judged by Modbus", ""]
    lines += ["One trigger each; the code is 1 for good and 2 for a defect.", ""]
    lines += [
        "| model | part | code x86 | aarch64 | score x86 | aarch64 | threshold x86 | aarch64 |"
    ]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for model, there in x86.items():
        for part, told in there.get("parts", {}).items():
            here = arm[model].get("parts", {}).get(part, {})
            pairs = [(told[key], here.get(key, "—")) for key in ("code", "score", "threshold")]
            lines.append(f"| {model} | {part} | {' | '.join(f'{a} | {b}' for a, b in pairs)} |")
    return lines


def _kernel_lines(x86: dict[str, Any], arm: dict[str, Any]) -> list[str]:
    """Where int8 differs: between kinds of kernels on one processor, or between processors."""
    lines = ["", "## Why int8 differs", ""]
    lines += [
        "Largest difference of a score in ONNX Runtime. With kernels for integers: as it runs."
    ]
    lines += ["Without: the graph's own quantised numbers in floats, optimisation off.", ""]
    lines += ["| model | x86 to a76, with | x86 to a76, without | with to without, x86 | a76 |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for model, here in x86.items():
        there = arm[model]
        if "failed" in there:
            continue
        pairs = list(zip(here, there, strict=True))
        across = [max(abs(a[n] - b[n]) for a, b in pairs) for n in (0, 1)]
        within = [max(abs(a - b) for a, b in rows) for rows in (here, there)]
        lines.append(f"| {model} | {' | '.join(f'{each:.2g}' for each in across + within)} |")
    return lines


def _failure_lines(results: dict[str, _Results]) -> list[str]:
    """Each command that did not run, with its last words."""
    failed = [
        (cpu, step, each["failed"])
        for cpu, given in results.items()
        for step, each in given.items()
        if isinstance(each, dict) and "failed" in each
    ]
    if not failed:
        return []
    rows = [f"| {cpu} | {step} | {said} |" for cpu, step, said in failed]
    return [
        "",
        "## What did not run",
        "",
        "| processor | step | why |",
        "| --- | --- | --- |",
        *rows,
    ]


def _cells(here: _Results, there: _Results) -> str:
    if "failed" in here or "failed" in there:
        return "— | — | —"
    found = compare(here, there)
    return f"{found['largest']:.2g} | {found['share']:.2%} | {found['same']} of {found['of']}"


def _steps(x86: _Results, arm: _Results) -> list[tuple[str, str, str]]:
    rows = []
    for step in ("predict", "teach"):
        for name, there in _of(x86, step).items():
            here = arm[f"{step} {name}"]
            rows.append((f"{step} {name}, without torch", "the reference", _agreement(here, there)))
            if step == "teach":
                thresholds = [_fact(each, "threshold") for each in (there, here)]
                rows.append((f"teach {name}: threshold", thresholds[0], thresholds[1]))
    for name, there in _of(x86, "station").items():
        for key in ("healthz", "page"):
            answers = [_fact(each, key) for each in (there, arm[f"station {name}"])]
            rows.append((f"station {name}: {key}", answers[0], answers[1]))
    return rows


def _fact(given: _Results, key: str) -> str:
    value = given.get(key, "—")
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _agreement(here: _Results, there: _Results) -> str:
    if "failed" in here or "failed" in there:
        return "—"
    found = compare(here, there)
    return f"{found['largest']:.2g} apart, {found['same']} of {found['of']} verdicts the same"
