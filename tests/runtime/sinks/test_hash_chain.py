"""The hash chain: every change of a line, and every cut, is found, and where."""

import json
import random
from pathlib import Path

import pytest

from edgeseg.runtime.sinks.event_file import EventFile, Rotation
from edgeseg.runtime.sinks.hash_chain import (
    GENESIS,
    ChainHead,
    Link,
    head_path,
    link_line,
    link_of,
    parts_of,
    read_head,
    resume,
)
from edgeseg.runtime.sinks.log_check import LogCheck, check_log
from tests.support.commands import fail, run, succeed

COUNT = 12


def write(path: Path, count: int, *, max_mb: float | None = None, chained: bool = True) -> None:
    """One run that adds lines."""
    file = EventFile(
        str(path), rotation=Rotation(max_mb=max_mb), chained=chained, on_error=lambda text: None
    )
    for index in range(count):
        assert file.write(json.dumps({"event": "frame", "frame": index}).encode(), durable=False)
    file.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three runs."""
    path = tmp_path / "events.jsonl"
    for _ in range(3):
        write(path, COUNT // 3)
    return path


def checked(log: Path, *, with_head: bool = True) -> LogCheck:
    return check_log(parts_of(log), read_head(head_path(log)) if with_head else None)


def said(log: Path, *, with_head: bool = True) -> list[str]:
    return [
        f"{problem.line}: {problem.what}" for problem in checked(log, with_head=with_head).problems
    ]


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def test_a_line_carries_the_hash_of_all_before_it(log: Path) -> None:
    link = Link()
    for line in log.read_bytes().splitlines():
        assert link_of(line) == link
        assert json.loads(line)["chain"] == {"line": link.lines, "prev": link.hash}
        link = link.after(line)
    assert read_head(head_path(log)) == ChainHead(
        lines=COUNT, hash=link.hash, bytes=log.stat().st_size
    )
    assert resume(log) == link
    assert checked(log).whole
    assert checked(log).notes == []


def test_a_link_in_front_leaves_the_event_as_it_is() -> None:
    for event in ({}, {"a": 1}, {"a": {"b": [1, 2]}}):
        line = link_line(json.dumps(event).encode(), Link())
        assert json.loads(line) == {"chain": {"line": 0, "prev": GENESIS}, **event}


@pytest.mark.parametrize("seed", range(40))
def test_any_changed_byte_is_found_where_it_is(log: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(log.read_bytes())
    place = rng.randrange(len(data))
    if data[place] == ord("\n"):
        place -= 1
    number = data[:place].count(b"\n") + 1
    data[place] = rng.choice([byte for byte in b'0123456789abcdef"{x' if byte != data[place]])
    log.write_bytes(data)
    check = checked(log)
    assert check.problems
    assert check.problems[0].line in (number, min(number + 1, COUNT))


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_a_missing_line_is_found(log: Path, number: int) -> None:
    kept = lines(log)
    del kept[number - 1]
    log.write_bytes(b"".join(kept))
    if number == COUNT:
        assert said(log) == [f"{COUNT - 1}: the end is cut: 1 line is missing behind it"]
        assert said(log, with_head=False) == [], "only the head knows"
    elif number == 1:
        assert said(log) == [], "parts that were rotated away are missing in the same way"
        assert checked(log).notes == ["begins with line 2 of the log: those before it are not here"]
    else:
        assert said(log) == [f"{number}: 1 line is missing before it"]


def test_swapped_doubled_and_forged_lines_are_found(log: Path) -> None:
    first = lines(log)
    swapped = [*first[:4], first[5], first[4], *first[6:]]
    log.write_bytes(b"".join(swapped))
    assert [text.split(":")[0] for text in said(log)] == ["5", "6", "7"]
    log.write_bytes(b"".join([*first[:4], first[3], *first[4:]]))
    assert said(log)[0] == (
        "5: is line 4 of the log and stands where line 5 belongs: reordered, doubled, or lines "
        "were put in"
    )
    log.write_bytes(b"".join([*first[:4], b'{"event":"frame","verdict":"good"}\n', *first[4:]]))
    assert said(log)[0] == ("5: carries no link: put in, or written while the chain was off")


def test_the_last_line_is_answered_for_by_the_head_alone(log: Path) -> None:
    kept = lines(log)
    kept[-1] = kept[-1].replace(b'"frame": 3', b'"frame": 9')
    log.write_bytes(b"".join(kept))
    assert said(log) == [f"{COUNT}: the end is not the one in the head: a line near it was altered"]
    check = checked(log, with_head=False)
    assert check.whole
    assert check.notes == ["no head: a cut end, or a change of the last line, would not be noticed"]


def test_a_chain_goes_over_parts_and_restarts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(5):
        write(path, 4, max_mb=600e-6)
    parts = parts_of(path)
    assert len(parts) > 4
    assert checked(path).whole
    assert checked(path).lines == 20
    parts[1].unlink()
    (problem,) = checked(path).problems
    assert (problem.file, problem.line) == (parts[2], 1)
    assert "missing before it" in problem.what
    parts[0].unlink()
    assert checked(path).whole, "as if they had been rotated away"


def test_writing_on_does_not_heal_a_log_that_was_cut_meanwhile(log: Path) -> None:
    log.write_bytes(b"".join(lines(log)[:-2]))
    write(log, 3)
    assert said(log) == [f"{COUNT - 1}: 2 lines are missing before it"]


def test_writing_on_does_not_heal_a_log_that_was_altered_meanwhile(log: Path) -> None:
    for old, new in ((b'"frame": 2', b'"frame": 7'), (b'"frame": 7', b'"frame": 1234')):
        log.write_bytes(log.read_bytes().replace(old, new, 1))
        write(log, 1)
        problem = checked(log).problems[0]
        assert problem.line == 4
        assert problem.what == ("does not follow on the line before it: one of the two was altered")


def test_a_writer_killed_before_its_head_goes_on(log: Path) -> None:
    """The head is a line late: as after a kill between the two."""
    head, size = head_path(log).read_bytes(), log.stat().st_size
    write(log, 1)
    head_path(log).write_bytes(head)
    assert checked(log).notes == ["1 line is newer than the head: the writer was killed, or runs"]
    write(log, 1)
    assert checked(log).whole
    assert log.stat().st_size > size


def test_a_lost_head_and_a_torn_end(log: Path) -> None:
    head_path(log).unlink()
    with log.open("ab") as file:
        file.write(b'{"chain":{"line":12,"pr')
    write(log, 1)
    assert checked(log).whole
    assert checked(log).lines == COUNT + 1


def test_lines_before_the_chain_was_asked_for_are_covered_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 3, chained=False)
    write(path, 3)
    assert checked(path).whole
    path.write_bytes(path.read_bytes().replace(b'"frame": 1', b'"frame": 2', 1))
    assert said(path)[0].startswith("4: does not follow")


def test_two_writers_of_one_chain_are_refused(log: Path) -> None:
    file = EventFile(str(log), rotation=Rotation(), chained=True, on_error=lambda text: None)
    with pytest.raises(OSError, match="another process writes this chain"):
        EventFile(str(log), rotation=Rotation(), chained=True, on_error=lambda text: None)
    file.close()
    write(log, 1)


def test_the_command(log: Path, tmp_path: Path) -> None:
    assert succeed("verify-log", log).stdout == (
        f"{COUNT} lines in 1 files: as they were written\n"
    )
    copy = tmp_path / "kept.head"
    copy.write_bytes(head_path(log).read_bytes())
    log.write_bytes(b"".join(lines(log)[:-1]))
    head_path(log).unlink()
    assert run("verify-log", log).exit_code == 0
    done = run("verify-log", log, "--head", copy)
    assert done.exit_code == 1
    assert done.stdout == f"{log}, line {COUNT - 1}: the end is cut: 1 line is missing behind it\n"
    assert fail("verify-log", tmp_path / "no.jsonl", code=2) == (
        f"{tmp_path / 'no.jsonl'}: no such file; expected a log of `stream --events-chain`"
    )
    assert fail("verify-log", log, "--head", log, code=2) == (
        f"--head {log}: cannot be read; expected the .head file of a log"
    )
    plain = tmp_path / "plain.jsonl"
    write(plain, 2, chained=False)
    assert run("verify-log", plain).stdout == (
        f"{plain}, line 2: no line carries a link: not a chained log\n"
    )
