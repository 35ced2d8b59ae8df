"""docs/deploy: rules that Prometheus takes and that fire when they should, metrics that exist."""

import json
import re
import shutil
import subprocess
import time
from types import SimpleNamespace

import pytest

from edgeseg.runtime.events.records import STAGES, PipelineSnapshot, SourceState, StageSummary
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.prometheus import Exporter
from tests.support import REPO

DEPLOY = REPO / "docs" / "deploy"
STAGE = StageSummary(count=1, mean=1.0, p50=1.0, p95=1.0, p99=1.0, max=1.0)
EVERYTHING = PipelineSnapshot(
    model="part",
    backend="cpu",
    threshold_score=1.0,
    uptime_s=1.0,
    fps_in=1.0,
    fps_out=1.0,
    sources=(
        SourceState(
            name="cam",
            live=True,
            connected=True,
            ended=False,
            frames_in=2,
            scored=1,
            dropped={"incomplete": 1},
            verdicts={"good": 1},
            reconnects=1,
            alarm=False,
        ),
    ),
    stages=dict.fromkeys(STAGES, STAGE),
    errors={"events": 1},
    last_scored_monotonic_s=time.monotonic(),
)


def exported() -> set[str]:
    drift = SimpleNamespace(
        level="warn", known=True, kind="light", ratio=1.0, median_ratio=1.0, moved_share=0.1
    )
    exporter = Exporter(
        snapshot=lambda: EVERYTHING,
        drift=lambda: {0: drift},  # type: ignore[dict-item,return-value]
        viewers=lambda: 0,
        recording=lambda: False,
        station=Station().status,
    )
    return set(re.findall(r"^(edgeseg_\w+)", exporter.text().decode(), re.M))


@pytest.mark.parametrize("name", ["alerts.yml", "alerts_test.yml", "dashboard.json"])
def test_every_metric_that_is_named_is_exported(name: str) -> None:
    named = set(re.findall(r"\bedgeseg_\w+", (DEPLOY / name).read_text(encoding="utf-8")))
    assert len(named) >= 7
    assert not named - exported()


def test_the_rules_are_valid_and_fire_when_they_should() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool (sudo apt install prometheus)")
    for what, name in (("check", "alerts.yml"), ("test", "alerts_test.yml")):
        done = subprocess.run(
            ["promtool", what, "rules", name], cwd=DEPLOY, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout
    rules = re.findall(r"- alert: (\w+)", (DEPLOY / "alerts.yml").read_text())
    tested = (DEPLOY / "alerts_test.yml").read_text()
    assert [rule for rule in rules if f"alertname: {rule}\n" not in tested] == []


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = json.loads((DEPLOY / "dashboard.json").read_text(encoding="utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == 12
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert all(text.count("(") == text.count(")") for text in asked)


@pytest.mark.parametrize(
    ("name", "lock"), [("Dockerfile.cpu", "device"), ("Dockerfile.l4t", "jetson")]
)
def test_images_install_from_the_locks_alone(name: str, lock: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    installs = re.findall(r"pip3? install (.*?)(?= \\$|$)", text, re.M)
    assert [re.findall(r"release/(\w+)\.lock", line) for line in installs] == [
        [lock],
        ["build"],
        [],
    ]
    for line in installs[:2]:
        assert "--require-hashes" in line
    assert "--no-deps --no-build-isolation /source" in installs[2], "the checkout itself"
    assert 'ENTRYPOINT ["edgeseg"]' in text
