"""The files of page/ as one document, with the operator's screen on its last tab."""

from functools import cache

from edgeseg.runtime.web.page_files import document

SCRIPTS = (
    "stage.js",
    "collect.js",
    "shapes.js",
    "region.js",
    "fit.js",
    "judge.js",
    "run.js",
    "missed.js",
    "learn.js",
    "main.js",
)


@cache
def page_html() -> bytes:
    """Make the page with its style, its texts and its scripts inside."""
    return document("edgeseg.teach", "page", SCRIPTS)
