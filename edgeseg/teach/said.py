"""The service's sentences for a page in another language: a key and values beside the words.

What the service says is English, for shells, logs and files. page/sentences.json has each sentence
and refusal that a person meets once in every language; its English is the pattern by which it is
known again, so that what a child process or a file of yesterday says can be told too.
"""

import re
from functools import cache
from typing import Any

from edgeseg.teach.page_files import service_sentences

# What people read, by the name that it has among the facts of the service.
SPOKEN = ("sentence", "promise", "guarantee", "reason", "why", "error")
_PLACE = re.compile(r"\\{(\w+)\\}")


def told(value: Any) -> Any:
    """The same values, with `NAME_said` beside every sentence that has a key."""
    if isinstance(value, dict):
        facts = {name: told(item) for name, item in value.items()}
        for name in SPOKEN:
            said = recognised(value[name]) if isinstance(value.get(name), str) else None
            if said is not None:
                facts[f"{name}_said"] = said
        return facts
    return [told(item) for item in value] if isinstance(value, list | tuple) else value


def recognised(words: str) -> dict[str, Any] | None:
    """{"key", "values"} of a sentence, whose values may be sentences themselves."""
    for key, pattern in _patterns():
        match = pattern.fullmatch(words)
        if match is not None:
            values = {name: recognised(text) or text for name, text in match.groupdict().items()}
            return {"key": key, "values": values}
    return None


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    english = service_sentences()["en"].items()
    return tuple((key, re.compile(_PLACE.sub(_group, re.escape(text)))) for key, text in english)


def _group(place: re.Match[str]) -> str:
    """`{n}` and `{n_old}` are numbers, all else is any text."""
    name = place[1]
    number = name == "n" or name.startswith("n_")
    return f"(?P<{name}>{r'[-+.e0-9]+' if number else '.+'})"
