"""Make a page of its files as one document: what is inline can be allowed by its hash alone.

screen/    what every page has: style, texts, talking to the server, the operator's screen
FOLDER/    a page's own page.html, style.css and scripts; `<!-- NAME -->` there is screen/NAME.html
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files

from edgeseg.base.language_files import languages

SHARED = ("texts_of.js", "talk.js", "screen.js", "rejects.js")
STYLES = ("base.css", "screen.css")
PARTS = ("screen", "rejects", "dialog")


def shared_text(name: str) -> str:
    """Read one file that every page has."""
    return (files(__package__) / "screen" / name).read_text(encoding="utf-8")


def document(package: str, folder: str, scripts: Sequence[str]) -> bytes:
    """Make a page with its style, its texts in every language and its scripts inside."""
    own = files(package) / folder
    spoken = {code: asdict(language) for code, language in languages().items()}
    script = "\n".join(
        [
            '"use strict";',
            f"const LANGUAGES = {_in_script(spoken)};",
            *map(shared_text, SHARED),
            *((own / name).read_text(encoding="utf-8") for name in scripts),
        ]
    )
    style = "".join(map(shared_text, STYLES)) + (own / "style.css").read_text(encoding="utf-8")
    html = (own / "page.html").read_text(encoding="utf-8")
    for part in PARTS:
        html = html.replace(f"<!-- {part} -->", shared_text(f"{part}.html"))
    html = html.replace("<style></style>", f"<style>{style}</style>")
    return html.replace("<script></script>", f"<script>{script}</script>").encode()


def _in_script(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
