"""Tables of models for people to read, from the report of `edgeseg bench peers`.

A report has a row for every file in every backend; here a model in a precision is one row, with
its milliseconds in both backends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgeseg.base.errors import EdgesegError
from edgeseg.bench.harness.tabular import Cell, Column, Table

# Columns of the report: their names here, and digits.
ALL = {
    "model": ("model", 0),
    "PRO": ("PRO", 3),
    "PRO 0.05": ("PRO .05", 3),
    "image AUROC": ("image AUROC", 3),
    "recall": ("recall", 2),
    "false alarms": ("false alarms", 2),
    "F1": ("F1", 2),
    "fit s": ("fit s", 0),
    "peak MB": ("fit MB", 0),
    "p50 ms": ("ms", 1),
    "streamed p50 ms": ("ms streamed", 1),
    "processor ms": ("processor ms", 1),
    "p50 ms OpenVINO": ("ms OpenVINO", 1),
    "arithmetic": ("arithmetic", 0),
    "spin": ("spin", 0),
    "MB": ("MB", 0),
}
FEW = {name: ALL[name] for name in ("model", "PRO", "image AUROC", "recall", "p50 ms", "MB")}
_IN_CPU = ("p50 ms", "streamed p50 ms", "processor ms", "spin")

ModelCells = dict[str, Cell]  # by the names of columns


def all_models(summary: Table) -> str:
    """Write every model and every column in Markdown."""
    return _markdown(summary, list(_models(summary)), ALL)


def few_models(summary: Table) -> str:
    """Write a short table in Markdown: the default, the fastest of ours, and the peers."""
    models = list(_models(summary))
    judged = [model for model in models if model["image AUROC"] is not None]
    ours = [model for model in judged if str(model["model"]).startswith("edgeseg ")]
    default = [model for model in ours if _backbone(model) == _backbone(ours[0])]
    fastest = min(ours, key=lambda model: float(model["p50 ms"] or "inf"))
    peers = [model for model in judged if model not in ours]
    shown = [*default, *([] if fastest in default else [fastest]), *peers]
    return _markdown(summary, shown, FEW)


def _backbone(model: ModelCells) -> str:
    return str(model["model"]).split(" ")[1]


def _models(summary: Table) -> Iterator[ModelCells]:
    """Make a row for every model in every precision."""
    names = [column.name for column in summary.columns]
    by_model: dict[str, list[ModelCells]] = {}
    for cells in summary.rows:
        row = dict(zip(names, cells, strict=True))
        parts = (row["model"], row["precision"])
        by_model.setdefault(" ".join(str(part) for part in parts if part), []).append(row)
    for label, rows in by_model.items():
        yield _one_row(label, rows)


def _one_row(label: str, rows: Sequence[ModelCells]) -> ModelCells:
    """Join the rows of a model: the first backend's, with the other's milliseconds."""
    by_backend = {row["backend"]: row for row in rows}
    arithmetics = {row["arithmetic"] for row in rows}
    if len(arithmetics) > 1:
        raise EdgesegError(
            f"{label}: times of arithmetic {' and '.join(sorted(map(str, arithmetics)))}, expected "
            "one in a row; time each in a row of its own"
        )
    in_cpu = by_backend.get("cpu", dict.fromkeys(_IN_CPU))
    openvino = by_backend.get("openvino", {}).get("p50 ms")
    times = {name: in_cpu[name] for name in _IN_CPU}
    return rows[0] | times | {"model": label, "p50 ms OpenVINO": openvino}


def _markdown(
    summary: Table, models: Sequence[ModelCells], shown: dict[str, tuple[str, int]]
) -> str:
    columns = {column.name: column for column in summary.columns}
    columns["p50 ms OpenVINO"] = Column(name="", better="low")
    # A report without any masks has no column of PRO.
    shown = {key: shape for key, shape in shown.items() if key in columns}
    table = Table(
        title="",
        columns=tuple(
            replace(columns[key], name=name, digits=digits) for key, (name, digits) in shown.items()
        ),
        rows=tuple(tuple(model[key] for key in shown) for model in models),
    )
    lines = [line.replace(" 0.", " .").replace("*0.", "*.") for line in table.lines()]
    return "\n".join(lines) + "\n"
