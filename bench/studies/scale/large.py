"""What large images cost: fit, export and run, as functions of size, share and tiles.

`python -m edgeseg.bench.studies.scale.large mvtec_ad/screw --out large.json`; the table
goes to stdout.
"""

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.accuracy import LABELS
from edgeseg.bench.harness.fit_worker import fit_in_process
from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.processes import in_process
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.studies.scale.boards import BoardPlan, write_boards
from edgeseg.config import FitConfig
from edgeseg.errors import EdgesegError
from edgeseg.files import write_json
from edgeseg.options import FILE, note
from edgeseg.runtime.backends.session_options import available_cores


@dataclass(frozen=True, kw_only=True)
class Row:
    """Settings that are measured together."""

    size_hw: tuple[int, int]  # of the model's input
    share: int
    frame_hw: tuple[int, int] | None = None  # with tiles
    overlap: int = 0
    k: int = 150

    @property
    def name(self) -> str:
        """As the table shows it."""
        size = "x".join(str(side) for side in self.frame_hw or self.size_hw)
        return f"{size} in tiles of {self.size_hw[0]}" if self.frame_hw else size

    def config(self, backbone: str) -> FitConfig:
        """The preset `edge` with these settings."""
        return FitConfig(
            backbone=backbone,
            size_hw=self.size_hw,
            share=self.share,
            frame_hw=self.frame_hw,
            overlap=self.overlap,
            k=self.k,
        )


@dataclass(frozen=True, kw_only=True)
class Study:
    """Boards of one size, and what is fitted on them."""

    boards: BoardPlan
    rows: tuple[Row, ...]


FRAME_HW = (2160, 3840)
STUDY = Study(
    # Sixteen boards give a window of the smallest grid more rows than k: with fewer, fitted images
    # lie in the span of each other, and their maps are rounding.
    boards=BoardPlan(size_hw=FRAME_HW, train=16, test_good=5, test_defective=3),
    rows=(
        Row(size_hw=(256, 256), share=2),
        Row(size_hw=(528, 960), share=2),
        Row(size_hw=(1056, 1920), share=3),
        Row(size_hw=FRAME_HW, share=6),
        Row(size_hw=FRAME_HW, share=10),
        Row(size_hw=(512, 512), share=2, frame_hw=FRAME_HW, overlap=64),
    ),
)
REHEARSAL = Study(
    boards=BoardPlan(size_hw=(192, 288), train=16, test_good=2, test_defective=1),
    rows=(
        Row(size_hw=(192, 288), share=2, k=32),
        Row(size_hw=(96, 96), share=2, frame_hw=(192, 288), overlap=16, k=32),
    ),
)
PRECISIONS = ("fp32", "int8")
# Of the test boards, as the table shows it; earlier runs measured PRO alone.
ACCURACY = ("pro", "pro_05", "f1", "recall", "false_alarm_rate")


def measure(
    row: Row, data: Path, folder: Path, *, backbone: str, weights: str | None, threads: int
) -> dict[str, Any]:
    """Every stage of one row, each in a fresh process."""
    config = row.config(backbone)
    artefact = folder / "model.edgeseg"
    common = {"data": str(data), "artefact": str(artefact), "threads": threads}
    fit = fit_in_process(common | {"config": config.to_dict(), "weights": weights}, folder)
    cells = config.grid_hw[0] * config.grid_hw[1]
    measured: dict[str, Any] = {
        "name": row.name,
        "config": config.to_dict(),
        "gaussians": cells // row.share**2,
        "tiles": len(config.tiling.corners_yx()) if config.tiling else 1,
        "artefact_mb": artefact.stat().st_size / 1e6,
        "fit": fit,
    }

    def stage(name: str, **request: str) -> dict[str, Any]:
        whole = common | {"stage": name} | request
        return in_process("edgeseg.bench.studies.scale.large_stage", whole, folder)

    measured["eval"] = stage("eval")
    for precision in PRECISIONS:
        graph = str(folder / f"{precision}.onnx")
        try:
            measured[precision] = {
                "export": stage("export", graph=graph, precision=precision),
                "stream": stage("stream", graph=graph),
            }
        except EdgesegError as error:  # a graph that disagrees with the reference is a result too
            measured[precision] = {"failed": str(error).replace(f"{folder.parent}/", "")}
    return measured


@dataclass(frozen=True, kw_only=True)
class PrecisionCells:
    """One graph; a precision that was refused says so where its size would be."""

    file_mb: float | str = field(metadata=column("{} MB", digits=0))
    export_gb: float | None = field(metadata=column("export GB", digits=1))
    run_gb: float | None = field(metadata=column("run GB", digits=1))
    frame_ms: float | None = field(metadata=column("ms", digits=0))


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row as people read it."""

    image: str = field(metadata=column("image"))
    grid: str = field(metadata=column("grid"))
    gaussians: int = field(metadata=column("Gaussians"))
    fit_s: float = field(metadata=column("fit s", digits=0))
    fit_gb: float = field(metadata=column("fit GB", digits=1))
    accuracy: dict[str, float | None] = field(metadata=column("{}", titles=LABELS))
    by_precision: dict[str, PrecisionCells]


def table(rows: list[dict[str, Any]]) -> Table:
    """What `measure` found, as people read it."""
    return table_of(
        "Large images",
        [_table_row(row) for row in rows],
        note="GB: highest memory of the process. ms: one frame in `edgeseg stream`, with cutting "
        "and blending; mean.",
    )


def _table_row(row: dict[str, Any]) -> TableRow:
    grid = "x".join(str(side) for side in FitConfig.from_dict(row["config"]).grid_hw)
    return TableRow(
        image=row["name"],
        grid=grid if row["tiles"] == 1 else f"{row['tiles']} of {grid}",
        gaussians=row["gaussians"],
        fit_s=row["fit"]["fit_s"],
        fit_gb=row["fit"]["peak_mb"] / 1000,
        accuracy={key: row["eval"].get(key) for key in ACCURACY},
        by_precision={precision: _cells(row[precision]) for precision in PRECISIONS},
    )


def _cells(measured: dict[str, Any]) -> PrecisionCells:
    if "failed" in measured:
        return PrecisionCells(file_mb="failed", export_gb=None, run_gb=None, frame_ms=None)
    export, stream = measured["export"], measured["stream"]
    return PrecisionCells(
        file_mb=export["file_mb"],
        export_gb=export["peak_mb"] / 1000,
        run_gb=stream["peak_mb"] / 1000,
        frame_ms=stream["ms_per_frame"],
    )


@click.command(context_settings={"show_default": True})
@click.argument("data", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out", "-o", type=FILE, required=True,
    help="All figures, as JSON.",
)  # fmt: skip
@click.option("--backbone", default="resnet18")
@click.option("--weights", help="A .pth file of the backbone, or `random` for a rehearsal.")
@click.option(
    "--row", "numbers", type=click.IntRange(1, len(STUDY.rows)), multiple=True,
    help="Only this row of the table, counted from 1; may be repeated.",
)  # fmt: skip
@click.option("--rehearse", is_flag=True, help="Small boards: does it run? No figures.")
@click.option("--threads", type=click.IntRange(1), help="[default: all cores]")
def large(
    data: Path,
    out: Path,
    backbone: str,
    weights: str | None,
    numbers: tuple[int, ...],
    rehearse: bool,
    threads: int | None,
) -> None:
    """Measure large images built of the parts in DATA, a category of MVTec AD.

    \b
    python -m edgeseg.bench.studies.scale.large mvtec_ad/screw --out large.json
    """
    study = REHEARSAL if rehearse else STUDY
    count = threads or available_cores()
    # Without the folders that lead to them: the file is for others to read.
    command = f"python -m edgeseg.bench.studies.scale.large {data.name} --out {out.name}"
    command += f" --backbone {backbone}"
    command += "".join(f" --row {number}" for number in numbers)
    facts = describe(threads=count, seeds=(study.boards.seed,)) | {"command": command}
    warning = busy_warning()
    rows = []
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.stem}-") as folder:
        note(f"making boards of {data.name}")
        boards = write_boards(data, Path(folder) / "boards", study.boards)
        for number, row in enumerate(study.rows, start=1):
            if numbers and number not in numbers:
                continue
            note(f"measuring {row.name}, share {row.share}")
            place = Path(folder) / "row"
            place.mkdir(exist_ok=True)
            rows.append(
                measure(row, boards, place, backbone=backbone, weights=weights, threads=count)
            )
            write_json(out, {"facts": facts, "warning": warning, "rows": rows})
    click.echo(table(rows).markdown())
    note(f"wrote {out}")


if __name__ == "__main__":
    try:
        large()
    except EdgesegError as error:
        sys.exit(f"Error: {error}")
