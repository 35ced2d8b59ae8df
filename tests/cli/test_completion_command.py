"""Shell completion: the script is valid, and what it asks for comes back."""

import os
import shutil
import subprocess
import sys

import pytest

from edgeseg.cli.completion_command import VARIABLE
from edgeseg.cli.group import COMMANDS
from tests.support import HANGS_S
from tests.support.commands import fail, succeed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_edgeseg(shell):
    script = succeed("completion", shell).stdout
    assert f"{VARIABLE}={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=HANGS_S)


def test_another_shell_is_refused():
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in fail("completion", "tcsh", code=2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("edgeseg ", list(COMMANDS)),
        ("edgeseg comp", ["completion"]),
        ("edgeseg fit --pres", ["--preset"]),
        ("edgeseg fit --preset ", ["edge", "paper"]),
        ("edgeseg completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_completions(words, expected):
    """As bash asks: the words of the line, and the place of the cursor among them."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), VARIABLE: "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "edgeseg"],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        env=os.environ | asked,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(",")[1] for line in done.stdout.splitlines()] == expected
