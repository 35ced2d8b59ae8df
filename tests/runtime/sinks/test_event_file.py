"""The log in parts: nothing is lost or doubled, whoever reads, whenever it ends."""

import json
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.sinks import event_file as module
from edgeseg.runtime.sinks.event_file import EventFile, Rotation
from edgeseg.runtime.sinks.hash_chain import parts_of

DAY_S = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def opened(path: Path, clock: Clock, **options: object) -> EventFile:
    rotation = {k: v for k, v in options.items() if k in ("max_mb", "days", "keep")}
    return EventFile(
        str(path),
        rotation=Rotation(**rotation),
        chained=bool(options.get("chained")),
        on_error=options.get("errors", []).append,
        clock_s=clock,
    )


def event(index: int, clock: Clock) -> bytes:
    return json.dumps({"frame": index, "wall_s": clock.now_s}).encode() + b"\n"


def frames(path: Path) -> list[int]:
    return [
        json.loads(line)["frame"]
        for part in parts_of(path)
        for line in part.read_text().splitlines()
    ]


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("runs", [1, 4])
def test_parts_hold_every_line_once_and_in_order(tmp_path: Path, runs: int, chained: bool) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    for run in range(runs):
        file = opened(path, clock, max_mb=250e-6, chained=chained)
        for index in range(25):
            assert file.write(event(25 * run + index, clock), durable=False)
        file.close()
    assert frames(path) == list(range(25 * runs))
    parts = parts_of(path)
    assert len(parts) > 3
    assert [part.name for part in parts[:2]] == ["events.000001.jsonl", "events.000002.jsonl"]
    assert parts[-1] == path
    assert max(part.stat().st_size for part in parts) <= 250


def test_a_reader_by_name_never_sees_a_part_change(tmp_path: Path) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    file = opened(path, clock, max_mb=200e-6)
    seen: dict[str, bytes] = {}
    for index in range(40):
        file.write(event(index, clock), durable=False)
        for part in parts_of(path)[:-1]:
            assert seen.setdefault(part.name, part.read_bytes()) == part.read_bytes()
    file.close()
    assert len(seen) > 3


def test_an_open_reader_gets_the_end_of_the_old_part(tmp_path: Path) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    file = opened(path, clock, max_mb=100e-6)
    file.write(event(0, clock), durable=False)
    with path.open() as reader:
        file.write(event(1, clock), durable=False)
        while len(parts_of(path)) < 2:
            file.write(event(2, clock), durable=False)
        assert reader.read() == parts_of(path)[0].read_text()
    file.close()


def test_days_count_from_the_first_line_over_restarts(tmp_path: Path) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    for index in range(4):  # a run every 0.4 days
        file = opened(path, clock, days=1)
        file.write(event(index, clock), durable=False)
        file.close()
        clock.now_s += 0.4 * DAY_S
    assert [len(part.read_text().splitlines()) for part in parts_of(path)] == [3, 1]


def test_a_clock_that_was_wrong_does_not_stop_the_days(tmp_path: Path) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    clock.now_s += 365 * DAY_S
    file = opened(path, clock, days=1)
    file.write(event(0, clock), durable=False)
    file.close()
    clock.now_s -= 365 * DAY_S  # set right
    file = opened(path, clock, days=1)
    clock.now_s += DAY_S
    file.write(event(1, clock), durable=False)
    file.close()
    assert len(parts_of(path)) == 2


def test_the_oldest_parts_go(tmp_path: Path) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    (tmp_path / "events.old.jsonl").write_text("not a part\n")
    file = opened(path, clock, max_mb=40e-6, keep=3)
    for index in range(20):
        file.write(event(index, clock), durable=False)
    file.close()
    numbered = [part.name for part in parts_of(path)]
    assert numbered == [f"events.{n:06d}.jsonl" for n in (17, 18, 19)] + ["events.jsonl"]
    assert frames(path) == [16, 17, 18, 19]
    assert (tmp_path / "events.old.jsonl").exists()


def test_a_folder_that_forbids_it_costs_the_rotation_and_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.Path, "rename", refuse)
    path, clock, errors = tmp_path / "events.jsonl", Clock(), []
    file = opened(path, clock, max_mb=40e-6, errors=errors)
    for index in range(5):
        assert file.write(event(index, clock), durable=False)
    file.close()
    assert frames(path) == list(range(5))
    assert errors == [f"{path}: cannot be rotated (Permission denied); it grows on"]


def test_killed_between_rename_and_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "events.jsonl", Clock()
    for index in range(3):
        file = opened(path, clock, max_mb=1, chained=True)
        file.write(event(index, clock), durable=False)
        file.close()
    path.rename(tmp_path / "events.000001.jsonl")
    file = opened(path, clock, max_mb=1, chained=True)
    file.write(event(3, clock), durable=False)
    file.close()
    assert frames(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("chained", [False, True])
def test_a_link_stays_a_link_and_all_parts_go_where_it_points(
    tmp_path: Path, chained: bool
) -> None:
    path, disk, clock = (
        tmp_path / "run" / "events.jsonl",
        tmp_path / "disk" / "line3.jsonl",
        Clock(),
    )
    for folder in (path.parent, disk.parent):
        folder.mkdir()
    path.symlink_to(disk)
    for run in range(2):
        file = opened(path, clock, max_mb=200e-6, chained=chained)
        for index in range(10):
            assert file.write(event(10 * run + index, clock), durable=False)
        file.close()
    assert path.is_symlink()
    assert [each.name for each in path.parent.iterdir()] == ["events.jsonl"]
    assert frames(disk) == list(range(20))
    assert len(parts_of(disk)) > 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_mb": 0}, "events_max_mb=0: expected more than 0"),
        ({"days": -1}, "events_days=-1: expected more than 0"),
        (
            {"keep": 3},
            "events_keep=3: nothing is rotated; add events_max_mb= or events_days=",
        ),
    ],
)
def test_mistakes(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Rotation(**settings)
    assert str(refused.value) == message
