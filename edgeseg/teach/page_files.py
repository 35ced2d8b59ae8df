"""The files of page/ as one document: what is inline can be allowed by its hash alone."""

import json
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from edgeseg.base.language_files import languages

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


@cache
def page_html() -> bytes:
    """Make the page with its style, its texts and its scripts inside."""
    spoken = {code: asdict(language) for code, language in languages().items()}
    script = "\n".join(
        [
            '"use strict";',
            f"const LANGUAGES = {_in_script(spoken)};",
            *(text_of(name) for name in SCRIPTS),
        ]
    )
    html = text_of("page.html")
    html = html.replace("<style></style>", f"<style>{text_of('style.css')}</style>")
    return html.replace("<script></script>", f"<script>{script}</script>").encode()


def _in_script(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
