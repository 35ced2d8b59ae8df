"""Run a program for each result: an argument list without a shell, killed on time-out."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.adapters.outbox import Outbox
from edgeseg.runtime.events.codes import CODES
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station

QUEUED = 16  # a program that cannot keep up loses results, and each is counted
ANY = "any"
WORDS = (*CODES, "no_inspection", ANY)


def parse_commands(texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Parse texts `VERDICT=COMMAND` into argument lists by verdict."""
    commands: dict[str, tuple[str, ...]] = {}
    for text in texts:
        word, equals, command = text.partition("=")
        try:
            arguments = tuple(shlex.split(command))
        except ValueError as error:
            raise UsageError(Setting("on_verdict", repr(text)), f": {error}") from None
        if word not in WORDS or not equals or not arguments:
            raise UsageError(
                Setting("on_verdict", repr(text)),
                f": expected VERDICT=COMMAND, with a verdict of {', '.join(WORDS)}",
            )
        if word in commands:
            raise UsageError(
                Setting("on_verdict", repr(text)), f": a second command for {word}, expected one"
            )
        commands[word] = arguments
    return commands


class CommandAdapter:
    """An adapter that runs one program at a time, in its own thread."""

    name = "command"

    def __init__(
        self,
        station: Station,
        *,
        commands: Mapping[str, tuple[str, ...]],
        timeout_s: float,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._commands, self._timeout_s = commands, timeout_s
        self._outbox = Outbox(self.name, self._send, size=QUEUED, on_error=on_error)
        station.events.subscribe(StationResult, self._take, name=self.name)

    def _take(self, result: StationResult) -> None:
        if self._arguments(result) is not None:
            self._outbox.put(result)

    def _arguments(self, result: StationResult) -> tuple[str, ...] | None:
        return self._commands.get(result.verdict, self._commands.get(ANY))

    def _send(self, result: StationResult) -> None:
        arguments = self._arguments(result)
        if arguments is None:
            return
        trigger = result.trigger
        variables = {
            "EDGESEG_VERDICT": result.verdict,
            "EDGESEG_TRIGGER_ID": str(trigger.trigger_id),
            "EDGESEG_PART_ID": trigger.part_id,
            "EDGESEG_RESULT": json.dumps(result.facts()),
        }
        process = subprocess.Popen(
            arguments,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what it starts is killed with it
        )
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise RuntimeFailure(
                f"{arguments[0]} took longer than {self._timeout_s:g} s and was killed"
            ) from None
        if code != 0:
            raise RuntimeFailure(f"{arguments[0]} ended with {code}")

    def close(self) -> None:
        """Let the queued results run, within a few seconds."""
        self._outbox.close()
