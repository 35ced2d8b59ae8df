"""List a graph's operators beside what accelerators take: `edgeseg info --operators`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256, size_text
from edgeseg.base.tables import align_columns
from edgeseg.modelfile.metadata import PLAN_SUFFIXES
from edgeseg.runtime.accelerators.cuts import GraphCut, cut_for
from edgeseg.runtime.accelerators.sections import SECTIONS, sections
from edgeseg.runtime.accelerators.tables import accelerators
from edgeseg.runtime.backends.model_file import plan_metadata
from edgeseg.runtime.backends.onnx_outline import STANDARD, GraphOutline, read_outline

_WORDS = {"yes": "yes", "no": "no", "not known": "?"}
_NAMED = 3  # operators in a sentence


def describe_operators(model: Path) -> dict[str, Any]:
    """Return plain values, for JSON: the graph's operators, and the cut for each accelerator."""
    outline = read_outline(_graph_of(model))
    places = sections(outline)
    cuts = [cut_for(accelerator, outline, places) for accelerator in accelerators()]
    return {
        "opsets": outline.opsets,
        "inputs": {tensor.name: str(tensor) for tensor in outline.inputs},
        "dynamic": [tensor.name for tensor in outline.inputs if tensor.values is None],
        "kinds": sorted(
            {tensor.kind for tensor in (*outline.tensors.values(), *outline.constants)}
        ),
        "constants": _constants(outline),
        "operators": _operators(outline, places),
        "accelerators": [_cut_facts(cut, outline) for cut in cuts],
    }


def operator_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that people read."""
    names = {row["key"]: row["name"] for row in facts["accelerators"]}
    rows = [["operator", "count", *names.values(), "where"]]
    for row in facts["operators"]:
        where = ", ".join(f"{place} {count}" for place, count in row["where"].items())
        answers = [_WORDS[row["accelerators"][key]] for key in names]
        rows.append([row["name"], str(row["count"]), *answers, where])
    yield from align_columns(rows, last_left=True)
    yield "? is not known: nothing public says it"
    yield ""
    constants, largest = facts["constants"], facts["constants"]["largest"]
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    yield f"opset       {opsets}"
    yield f"input       {', '.join(f'{name} {text}' for name, text in facts['inputs'].items())}"
    dynamic = f"not fixed: {', '.join(facts['dynamic'])}" if facts["dynamic"] else "fixed"
    yield f"shapes      {dynamic}"
    yield f"data types  {', '.join(facts['kinds'])}"
    most = f", the largest {largest['name']} {largest['tensor']}" if largest else ""
    yield f"constants   {constants['count']}, {size_text(constants['bytes'])}{most}"
    yield ""
    for row in facts["accelerators"]:
        yield row["verdict"]
        yield f"  computes in {row['numbers']}; {row['remark']}"
        yield from (f"  {text}" for text in row["conditions"])
        if row["crossing"] and row["operators_there"] < row["operators"]:
            yield f"  back come {'; '.join(row['crossing'])}"
    yield ""
    yield "from public documents; nothing was run on such hardware:"
    for row in facts["accelerators"]:
        for paper in row["documents"]:
            yield f"  {row['name']}: {paper['title']} ({paper['version']}; {paper['at']})"


def _graph_of(model: Path) -> Path:
    """Return the file itself, or the graph beside a plan that it was built from."""
    if not model.is_file():
        raise RuntimeFailure(f"{model}: no such file; make one with `edgeseg export`")
    if model.suffix not in PLAN_SUFFIXES:
        return model
    graph = model.with_suffix(".onnx")
    if not graph.is_file() or file_sha256(graph) != plan_metadata(model).onnx_sha256:
        raise RuntimeFailure(
            f"{model}: a plan does not list its operators, and {graph.name}, which it was built "
            "from, is not beside it; copy it along"
        )
    return graph


def _constants(outline: GraphOutline) -> dict[str, Any]:
    largest = max(outline.constants, key=lambda tensor: tensor.bytes, default=None)
    return {
        "count": len(outline.constants),
        "bytes": sum(tensor.bytes for tensor in outline.constants),
        "largest": None
        if largest is None
        else {"name": largest.name, "tensor": str(largest), "bytes": largest.bytes},
        "each": [
            {"name": one.name, "type": one.kind, "shape": list(one.sides), "bytes": one.bytes}
            for one in outline.constants
        ],
    }


def _operators(outline: GraphOutline, places: list[str] | None) -> list[dict[str, Any]]:
    """List every kind of operator once, with its number and its places in the graph."""
    rows = []
    for domain, kind in sorted({(node.domain, node.kind) for node in outline.nodes}):
        numbers = [
            number
            for number, node in enumerate(outline.nodes)
            if (node.domain, node.kind) == (domain, kind)
        ]
        counts = Counter(places[number] for number in numbers) if places else Counter[str]()
        node = outline.nodes[numbers[0]]
        rows.append(
            {
                "name": kind if domain == STANDARD else f"{domain}.{kind}",
                "domain": domain,
                "count": len(numbers),
                "where": {place: counts[place] for place in SECTIONS if counts[place]},
                "accelerators": {each.key: each.supports(node) for each in accelerators()},
            }
        )
    return rows


def _cut_facts(cut: GraphCut, outline: GraphOutline) -> dict[str, Any]:
    accelerator = cut.accelerator
    conditions = accelerator.conditions.items()
    return {
        "key": accelerator.key,
        "name": accelerator.name,
        "tool": accelerator.tool,
        "verdict": verdict(cut, outline),
        "operators_there": cut.there,
        "operators": cut.operators,
        "convolutions_there": cut.convolutions_there,
        "convolutions": cut.convolutions,
        "further": cut.further,
        "at_taps": cut.at_taps,
        "crossing": [f"{tensor.name} {tensor}" for tensor in cut.tensors],
        "bytes": cut.bytes,
        "refused": cut.refused,
        "unknown": cut.unknown,
        "conditions": [f"{kind}: {text}" for kind, text in conditions if kind in cut.kinds],
        "opsets": accelerator.opsets,
        "static": accelerator.static,
        "numbers": accelerator.numbers,
        "remark": accelerator.remark,
        "documents": [asdict(paper) for paper in accelerator.documents],
    }


def verdict(cut: GraphCut, outline: GraphOutline) -> str:
    """Say in one sentence what runs where, and what has to change for it."""
    first = outline.inputs[0].sides[0] if outline.inputs and outline.inputs[0].sides else 1
    per = "frame" if first == 1 else f"run of {first} frames"
    words = (_split_words(cut, per=per), *_obstacles(cut, outline))
    return f"{cut.accelerator.name}: {'; '.join(words)}"


def _split_words(cut: GraphCut, *, per: str) -> str:
    share = f"{cut.convolutions_there} of {cut.convolutions} convolutions"
    size = "an unknown size" if cut.bytes is None else size_text(cut.bytes)
    if cut.whole:
        return f"all {cut.operators} operators there; nothing to cut"
    if cut.at_taps:
        return f"backbone ({share}) there, head here; {size} cross per {per}"
    refused = [kind for kind in cut.stops if kind in cut.refused]
    why = "it does not take" if refused else "nothing public says whether it takes"
    stops = ", ".join((refused or list(cut.stops))[:_NAMED])
    if not cut.there:
        return f"none of it; {why} {stops}"
    return f"its beginning ({share}) there; {why} {stops}; {size} cross per {per}"


def _obstacles(cut: GraphCut, outline: GraphOutline) -> Iterator[str]:
    accelerator, opset = cut.accelerator, outline.opsets.get(STANDARD, 0)
    if accelerator.static and any(tensor.values is None for tensor in outline.inputs):
        yield "it takes fixed shapes alone, so export without --dynamic-batch"
    least, most = accelerator.opsets or (None, None)
    if not (least or 0) <= opset <= (most or opset):
        yield f"it takes opset {least or 'any'} to {most or 'any'}, and this is {opset}"
    if not cut.at_taps and {"DequantizeLinear", "MatMulInteger"}.intersection(cut.stops):
        yield "give it an fp32 export" + " or one with --for trt" * (accelerator.key == "tensorrt")
