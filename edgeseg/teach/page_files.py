"""The files of page/ as one document: what is inline can be allowed by its hash alone."""

import json
from functools import cache
from importlib.resources import files

from edgeseg.base.messages import sentences

SCRIPTS = (
    "texts_of.js",
    "talk.js",
    "stage.js",
    "collect.js",
    "shapes.js",
    "region.js",
    "fit.js",
    "judge.js",
    "run.js",
    "learn.js",
    "main.js",
)


def text_of(name: str) -> str:
    """Read one file of the page."""
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


LANGUAGES = ("en", "de")


def texts() -> dict[str, dict[str, str]]:
    """Read the texts of the page, by language and key."""
    return _by_language(json.loads(text_of("texts.json")))


def service_sentences() -> dict[str, dict[str, str]]:
    """Read the sentences of the service, by language and key."""
    return _by_language(sentences())


def _by_language(table: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {language: {key: row[language] for key, row in table.items()} for language in LANGUAGES}


@cache
def page_html() -> bytes:
    """Make the page with its style, its texts and its scripts inside."""
    tables = {"TEXTS": texts(), "SENTENCES": service_sentences()}
    script = "\n".join(
        [
            '"use strict";',
            *(f"const {name} = {_in_script(table)};" for name, table in tables.items()),
            *(text_of(name) for name in SCRIPTS),
        ]
    )
    html = text_of("page.html")
    html = html.replace("<style></style>", f"<style>{text_of('style.css')}</style>")
    return html.replace("<script></script>", f"<script>{script}</script>").encode()


def _in_script(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
