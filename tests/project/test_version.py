"""The program, its package and its documents name one version."""

import re

import tomllib

from edgeseg import __version__
from tests.support import KEPT, REPO
from tests.support.commands import succeed
from tests.support.documents import text_of

DOCUMENTS = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/formats.md")


def test_one_version() -> None:
    package = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    releases = re.findall(r"^## \[(.+)\]$", text_of("CHANGELOG.md"), re.M)
    said = succeed("--version").stdout
    assert (package["version"], releases[0]) == (__version__, __version__)
    assert said == f"edgeseg, version {__version__}\n"


def test_documents_name_versions_whose_files_are_kept() -> None:
    named = {
        version
        for name in DOCUMENTS
        for version in re.findall(r"[Vv]ersions? (\d+\.\d+\.\d+)", text_of(name))
    }
    assert named == {path.name for path in KEPT.parent.iterdir() if path.name[0].isdigit()}
