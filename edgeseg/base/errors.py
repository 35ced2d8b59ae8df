"""The errors, as a tree.

EdgesegError                 a user's mistake or a missing thing: one sentence, no traceback, exit 1
├── UsageError               a request that contradicts itself: exit 2
├── DatasetError             no images, unreadable images, an unknown layout
├── WeightsError             backbone weights missing, incomplete or unsafe
├── ArtefactError            an artefact that is truncated, foreign or too new
├── ExportError              a graph or an engine that could not be made
│   └── VerificationError    it was made, and disagrees with the reference
└── RuntimeFailure           a model, backend or source that the runtime cannot use

A message says what is wrong, what was found, what was expected and what to try next, in that order.
An error has parts. Settings and other errors among them stay values until the error is written out.
"""

from edgeseg.base.messages import ENGLISH, Message, Say, write


class EdgesegError(Exception):
    """Anything the user can act on."""

    exit_code = 1

    def __str__(self) -> str:
        return self.text()

    def text(self, say: Say = str, *, language: str = ENGLISH) -> str:
        """Return the sentence; `say` writes its settings."""
        return "".join(write(part, say, language=language) for part in self.args)

    @property
    def message(self) -> Message | None:
        """The keyed sentence, where the error consists of one and of nothing else."""
        only = self.args[0] if len(self.args) == 1 else None
        return only if isinstance(only, Message) else None


class UsageError(EdgesegError):
    """The request contradicts itself or asks for what does not exist."""

    exit_code = 2


class DatasetError(EdgesegError):
    """Images or masks cannot be used."""


class WeightsError(EdgesegError):
    """Backbone weights are missing, incomplete or unsafe to load."""


class ArtefactError(EdgesegError):
    """A fitted model file cannot be read."""


class ExportError(EdgesegError):
    """A graph or an engine could not be made."""


class VerificationError(ExportError):
    """The exported graph disagrees with the reference."""


class RuntimeFailure(EdgesegError):
    """A model, backend or source cannot be used at run time."""
