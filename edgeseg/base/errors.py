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

from typing import Any

from edgeseg.base.language_files import ENGLISH
from edgeseg.base.messages import Message, Say, Setting, Words, read_words, write


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

    @property
    def setting(self) -> Setting | None:
        """The first setting that it names."""
        return next((part for part in self.args if isinstance(part, Setting)), None)

    def to_json(self) -> list[Any]:
        """Return plain parts, from which `from_json` makes an error of the same words."""
        return [_plain(part) for part in self.args]

    @staticmethod
    def from_json(plain: list[Any]) -> "EdgesegError":
        """Read what `to_json` gave; the kind of the error is not kept."""
        return EdgesegError(*map(_part, plain))


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


def words_of(error: BaseException) -> Words:
    """Return what an error says: its keyed sentence, its words, or at least its kind."""
    message = error.message if isinstance(error, EdgesegError) else None
    return message or str(error) or type(error).__name__


def _plain(part: object) -> Any:
    if isinstance(part, Setting):
        return {"setting": part.name, "value": str(part.value)}
    return part.to_json() if isinstance(part, Message) else write(part)


def _part(plain: Any) -> object:
    match plain:
        case {"setting": str(name), "value": str(value)}:
            return Setting(name, value)
    return read_words(plain)
