"""`edgeseg bench fit-cost` on a few small images with random weights, and what its rows say."""

from pathlib import Path

from click.testing import CliRunner

from edgeseg.bench.fit_cost.fit_cost import findings_of, fit_row
from edgeseg.bench.harness.report import read_report
from edgeseg.bench.harness.units import FAILED, UnitResults
from edgeseg.cli.bench_commands import bench
from tests.support.bench_tables import by_column


def test_the_command_measures_fits_and_factors(plate: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["fit-cost", str(plate), "--no-peer", "--weights", "random", "--threads", "1"]
    words += ["--images", "4", "--size", "64", "--k", "4", "--k", "8", "--out", str(out)]
    run = CliRunner().invoke(bench, words)
    assert run.exit_code == 0, run.output
    report = read_report(out)
    fits, factors = map(by_column, report.tables)
    assert [row["model"] for row in fits] == ["resnet18 edge", "resnet18 paper"]
    for row in fits:
        assert row["N=4: fit s"] > 0
        assert row["peak MB"] > row["of which fit MB"] >= 0
    assert [row["k"] for row in factors] == [4, 8]
    assert all(row["Cholesky s (full rank)"] > 0 for row in factors)
    assert (out / "factors_over_k.png").is_file()
    assert any("anomalib was left out" in note for note in report.notes)
    assert not (out / "staged").exists()  # images of someone's data set, and large
    again = CliRunner().invoke(bench, words)
    assert "6 of 6 results are there already" in again.output


def test_a_fit_that_failed_says_so_in_its_row() -> None:
    results = {
        "a 2 images": {"fit_s": 1.5, "peak_mb": 900.0, "base_mb": 700.0},
        "a 4 images": {"fit_s": 2.5, "peak_mb": 901.0, "base_mb": 700.0},
        "b 2 images": {"fit_s": 1.0, "peak_mb": 900.0, "base_mb": 700.0},
        "b 4 images": {FAILED: "fit: MemoryError: 40 GB"},
    }
    done = UnitResults(results=results, commits=(), seconds=0.0)
    rows = [fit_row(done, name, (2, 4)) for name in ("a", "b", "c")]
    assert rows[0].by_count["4"].added_mb == 201.0
    assert rows[1].by_count["4"].fit_s == "fit: MemoryError: 40 GB"
    assert list(findings_of(rows, [])) == [
        "a: 1.5 s and 900 MB at 2 images, 2.5 s and 901 MB at 4 images.",
        "b: failed (fit: MemoryError: 40 GB).",
        "c: failed (not measured).",
    ]
