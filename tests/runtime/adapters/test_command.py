"""A program per verdict: told what it needs, without a shell, killed when it hangs."""

import json
import sys
from pathlib import Path

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.adapters import outbox
from edgeseg.runtime.adapters.command import parse_commands
from edgeseg.runtime.settings.adapter_kinds import CommandOptions
from tests.doubles.fakes import BrightnessSession, Canned, grey, opens, wait
from tests.doubles.rig import Rig

WRITE = (
    "import os, sys; print(os.environ['EDGESEG_VERDICT'], os.environ['EDGESEG_RESULT'], "
    "*sys.argv[2:], file=open(sys.argv[1], 'a'))"
)


def run(commands: tuple[str, ...], levels: list[int | None], **values: object) -> Rig:
    images = [None if level is None else grey(level) for level in levels]
    opener = opens(Canned(images))
    options = {"trigger": "hardware", "on_verdict": commands, **values}
    with Rig(BrightnessSession(), options, live=False, opener=opener) as line:
        line.wait(lambda: len(line.results) == len(levels), "results")
    return line


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(text)
    return f"{sys.executable} {path}"


def test_each_verdict_has_its_program_and_no_shell(tmp_path: Path) -> None:
    out, command = tmp_path / "out.txt", program(tmp_path, WRITE)
    line = run(
        (f"defect={command} {out} '$HOME; rm x'", f"no_inspection={command} {out} none"),
        [10, 250, None],
    )
    lines = out.read_text().splitlines()
    assert [text.split(" ", 1)[0] for text in lines] == ["defect", "no_inspection"]
    assert lines[0].endswith("} $HOME; rm x")
    assert lines[1].endswith("} none")
    facts = json.loads(lines[0].split(" ", 1)[1].removesuffix(" $HOME; rm x"))
    assert facts["trigger_id"] == 2
    assert line.faults.totals() == {}


def test_any_is_for_those_without_a_program_of_their_own(tmp_path: Path) -> None:
    out, command = tmp_path / "out.txt", program(tmp_path, WRITE)
    run((f"any={command} {out}", f"good={command} {tmp_path / 'good.txt'}"), [10, 250])
    assert len(out.read_text().splitlines()) == 1
    assert len((tmp_path / "good.txt").read_text().splitlines()) == 1


def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = program(
        tmp_path,
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'a').write(f'{{child.pid}}\\n')\n"
        "time.sleep(600)\n",
    )
    line = run((f"good={command}",), [10], command_timeout=1.0)
    assert line.faults.totals() == {"command": 1}
    for pid in pids.read_text().split() if pids.exists() else []:
        stat = Path(f"/proc/{pid}/stat")
        wait(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "its end")  # noqa: B023


def test_a_program_that_fails_or_is_not_there_is_counted(tmp_path: Path) -> None:
    line = run(("good=false", "defect=/no/such/program"), [10, 250, 10])
    assert line.faults.totals() == {"command": 3}


def test_more_results_than_it_can_run_are_lost_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "FLUSH_S", 0.2)
    command = program(tmp_path, "import time; time.sleep(600)")
    line = run((f"good={command}",), [10] * 40, command_timeout=0.5)
    assert line.faults.totals()["command"] >= 40 - 18


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("bad=x",), "on_verdict='bad=x': expected VERDICT=COMMAND, with a verdict of good, "),
        (("good=",), "on_verdict='good=': expected VERDICT=COMMAND"),
        (("good",), "on_verdict='good': expected VERDICT=COMMAND"),
        (("good='x",), 'on_verdict="good=\'x": No closing quotation'),
        (("good=a", "good=b"), "on_verdict='good=b': a second command for good, expected one"),
    ],
)
def test_commands_are_checked(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(EdgesegError) as caught:
        CommandOptions(on_verdict=texts)
    assert str(caught.value).startswith(message)


def test_commands_are_argument_lists() -> None:
    assert parse_commands(("defect=gpioset 0 '17 = 1'",)) == {"defect": ("gpioset", "0", "17 = 1")}
