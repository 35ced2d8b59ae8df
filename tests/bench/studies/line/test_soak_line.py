"""The soak of a station: what it counts, and what it does not let pass."""

from edgeseg.bench.studies.line.soak_line import Clients, Sample, failures, judged, slope_per_hour

REPORT = {
    "sources": [
        {"frames_in": 100, "scored": 70, "dropped": {"stale": 30}},
        {"frames_in": 50, "scored": 50, "dropped": {}},
    ]
}


def samples(*, mb_per_hour: float = 0.0, minutes: int = 60) -> list[Sample]:
    return [
        Sample(
            seconds=60.0 * minute,
            memory_mb=(300.0 if minute < minutes / 10 else 500.0) + mb_per_hour * minute / 60,
            threads=20,
            descriptors=40,
            p99_ms=12.5,
        )
        for minute in range(minutes + 1)
    ]


def clients(results: int) -> Clients:
    return Clients(pictures=[5, 6, 7], mqtt_results=results, modbus_reads=9)


def test_a_calm_hour() -> None:
    row = judged(samples(), REPORT, clients(120))
    assert (row["in"], row["scored"], row["dropped"], row["not accounted for"]) == (150, 120, 30, 0)
    assert (row["minutes"], row["pictures"], row["Modbus reads"]) == (60.0, 18, 9)
    assert row["p99 ms, first and last quarter"] == "12.5, 12.5"
    assert row["threads"] == "20 to 20"
    assert list(failures(row, mqtt=True)) == []


def test_the_beginning_is_no_leak_and_a_leak_is_one() -> None:
    assert abs(slope_per_hour(samples())) < 1e-6
    assert abs(slope_per_hour(samples(mb_per_hour=30.0)) - 30.0) < 1e-6
    row = judged(samples(mb_per_hour=30.0), REPORT, clients(120))
    assert list(failures(row, mqtt=True)) == ["memory grows by 30.0 MB an hour"]


def test_lost_frames_and_results_are_named() -> None:
    lost = {"sources": [{"frames_in": 10, "scored": 7, "dropped": {"stale": 2}}]}
    row = judged(samples(), lost, clients(6))
    assert list(failures(row, mqtt=True)) == [
        "in is not scored + dropped",
        "6 MQTT results of 7 scored frames",
    ]
    assert list(failures(row, mqtt=False)) == ["in is not scored + dropped"]
