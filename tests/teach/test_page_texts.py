"""The page's files: one document, nothing said outside the languages' files."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from edgeseg.base.language_files import ENGLISH, languages
from edgeseg.decision.doubt import DoubtKind
from edgeseg.decision.judgement import Verdict
from edgeseg.runtime import web
from edgeseg.runtime.drift.watch import DRIFT_KINDS
from edgeseg.runtime.events.codes import NO_INSPECTION, UNAPPROVED
from edgeseg.runtime.web.page_files import PARTS, SHARED, STYLES, shared_text
from edgeseg.runtime.web.page_sink import SCRIPTS as LIVE_SCRIPTS
from edgeseg.runtime.web.routes import content_security_policy
from edgeseg.teach import page_files
from edgeseg.teach.page_files import SCRIPTS, page_html

PAGE = Path(page_files.__file__).parent / "page"
WEB = Path(web.__file__).parent
FILES = {
    PAGE: {*SCRIPTS, "page.html", "style.css"},
    WEB / "live": {*LIVE_SCRIPTS, "page.html", "style.css"},
    WEB / "screen": {*SHARED, *STYLES, *(f"{part}.html" for part in PARTS)},
}
TEXTS = languages()[ENGLISH].texts
SOURCE = "\n".join(
    (folder / name).read_text(encoding="utf-8")
    for folder, names in FILES.items()
    for name in sorted(names)
)
# Keys that are put together from a word of the service, or from a name in the page.
MADE = ("meter_", "kind_", "no_pictures_", "help_", "tool_", "shape_", "side_", "fit_")
MADE += (
    "locate_",
    "lane_",
    "run_",
    "verdict_",
    "count_",
    "mark_",
    "event_",
    "enough_",
    "who_",
    "said_",
    "guard_",
    "golden_",
    "do_",
    "drift_",
    "check_",
    "rejects_new",
)


def test_every_key_is_used_and_every_key_that_is_used_exists() -> None:
    named = set(re.findall(r'data-(?:text|label|alt)="(\w+)"', SOURCE))
    named |= set(re.findall(r'\bt\("(\w+)"', SOURCE))
    assert named - {key for key in named if key.endswith("_")} <= set(TEXTS)
    quoted = set(re.findall(r'"(\w+)"', SOURCE))
    unused = [key for key in TEXTS if key not in quoted and not key.startswith(MADE)]
    assert unused == []


class _Words(HTMLParser):
    """Text that stands in the document itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.words = "", []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.inside = tag
        self.words += [
            value for name, value in attrs if name in ("title", "alt", "placeholder", "aria-label")
        ]

    def handle_data(self, data: str) -> None:
        if data.strip() and self.inside not in ("title", "style", "script"):
            self.words.append(data.strip())


def test_the_document_says_nothing_by_itself() -> None:
    for path in (PAGE / "page.html", WEB / "live/page.html"):
        parser = _Words()
        parser.feed(path.read_text(encoding="utf-8"))
        assert [words for words in parser.words if words not in ("x1", "x3")] == [], path
    for part in PARTS:
        parser = _Words()
        parser.feed(shared_text(f"{part}.html"))
        assert parser.words == [], part


def test_what_to_do_is_said_of_every_verdict_doubt_refusal_and_drift() -> None:
    """The page puts these keys together from typed words."""
    words = {*get_args(Verdict), NO_INSPECTION}
    assert {f"verdict_{word}" for word in words} <= set(TEXTS)
    words |= {kind.value for kind in DoubtKind} | {error.name.lower() for error in UNAPPROVED}
    assert {f"do_{word}" for word in words} <= set(TEXTS)
    assert {key for key in TEXTS if key.startswith("do_")} == {f"do_{word}" for word in words}
    kinds = {kind for kind in DRIFT_KINDS if kind != "none"}
    assert {f"drift_{kind}" for kind in kinds} <= set(TEXTS)


def test_the_page_is_one_document_whose_own_script_alone_may_run() -> None:
    html = page_html().decode()
    assert len(re.findall("<script", html)) == len(re.findall("</script", html)) == 1
    assert len(re.findall("<style", html)) == len(re.findall("</style", html)) == 1
    policy = content_security_policy(html.encode())
    assert "'none'; img-src 'self'" in policy
    assert len(re.findall("'sha256-", policy)) == 2
    assert "unsafe" not in policy
    assert " style=" not in html.split("<script>")[0]  # the policy forbids it
    assert not re.search(r"\son\w+=\"", html.split("<script>")[0])
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"|url\(([^)]+)\)|https?://([^\s'\"]+)", html)
    assert {"".join(address).split(",")[0] for address in addresses} <= {
        "data:image/svg+xml",
        "www.w3.org/2000/svg",
    }


@pytest.mark.parametrize("folder", FILES)
def test_the_files_are_all_used_and_short(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES[folder]
    for path in folder.iterdir():
        assert len(path.read_text().splitlines()) <= 400, path.name


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(scheme: str) -> None:
    light, dark = (shared_text("base.css").split("color-scheme: dark")[at] for at in (0, 1))
    found = re.findall(r"--([\w-]+): (#\w{6})", light if scheme == "light" else dark[:900])
    colours = dict(found)
    pairs = [("text", "page"), ("text", "card"), ("dim", "page"), ("dim", "card"), ("mark", "card")]
    pairs += [(kind, f"{kind}-soft") for kind in ("good", "bad", "warn", "mark")]
    pairs += [("on", kind) for kind in ("good", "bad", "mark")]
    for one, other in pairs:
        low, high = sorted((_luminance(colours[one]), _luminance(colours[other])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, one, other)
