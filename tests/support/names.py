"""Names and first words of the source, as strangers meet them.

python -m tests.support.names [CHECKOUT]      how many stand for two things, or say who acts no more
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support import REPO
from tests.support.house import modules

# Words that end like participles and are none, or that the field uses as verbs.
_VERBS = {"read", "seed", "feed", "need", "speed", "embed", "shed", "set", "put", "split", "cut"}
_IRREGULAR = (
    *("told", "held", "kept", "seen", "found", "made", "shown", "said", "heard", "known", "given"),
    *("taken", "gone", "done", "left", "written", "drawn", "grown", "sent", "spoken", "lost"),
    *("meant", "built", "caught", "chosen", "met", "thought", "worn", "bound", "begun"),
)
_PREPOSITION = re.compile(
    r"(Of|In|By|At|From|To|For|With|Without|On|As|Where|When|Beside|After|Before|Between|Under|Over"
    r"|Through|Into|Until|Once|While|That|Which|Whose|Among|Behind|Against|Beyond|Inside|Outside)\b"
)


def trees(repo: Path = REPO) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the source, parsed."""
    for name, path in modules(repo).items():
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def classes_of_two_meanings(repo: Path = REPO) -> dict[str, list[str]]:
    """Names that classes of several modules have."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees(repo):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return {name: homes for name, homes in sorted(found.items()) if len(homes) > 1}


def participles(repo: Path = REPO) -> list[str]:
    """Functions whose first word is a participle; properties may be adjectives."""
    return [
        f"{module}.{node.name}"
        for module, tree in trees(repo)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
        and _is_participle(node.name.strip("_").split("_")[0])
    ]


def docstrings_that_begin_late(repo: Path = REPO) -> list[str]:
    """Docstrings that begin with a preposition or with "The same": what does the thing do?"""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{module}.{getattr(node, 'name', '')}: {text.splitlines()[0]}"
        for module, tree in trees(repo)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and (text := ast.get_docstring(node))
        and (text.startswith("The same") or _PREPOSITION.match(text))
    ]


def _is_participle(word: str) -> bool:
    return word not in _VERBS and (word.endswith("ed") or word in _IRREGULAR)


def _print_figures(repo: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in modules(repo).values())
    print(f"class names of two meanings: {len(classes_of_two_meanings(repo))}")
    print(f"functions that are participles: {len(participles(repo))}")
    print(f"docstrings that begin late: {len(docstrings_that_begin_late(repo))}")
    print(f"dict[str, Any]: {text.count('dict[str, Any]')}")


if __name__ == "__main__":
    _print_figures(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO)
