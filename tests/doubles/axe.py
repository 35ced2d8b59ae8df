"""What axe-core finds wrong with a page for people who see, hear or move otherwise.

It is not kept here: `npm install --no-save axe-core` in the checkout, or EDGESEG_AXE=axe.min.js.
"""

import json
import os
from pathlib import Path

import pytest

from tests.doubles.chromium import Tab
from tests.support import REPO

_FILE = "node_modules/axe-core/axe.min.js"
_RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(rule => ['serious', 'critical'].includes(rule.impact))
    .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target} (${rule.help})`)))"""


def serious_findings(page: Tab) -> list[str]:
    """What is serious or critical on a page as it stands; skip the test without axe-core."""
    page.evaluate(f"(0, eval)({json.dumps(_source())}), undefined")
    found: list[str] = page.evaluate(_RUN)
    return found


def _source() -> str:
    told = os.environ.get("EDGESEG_AXE")
    places = [Path(told)] if told else [folder / _FILE for folder in (REPO, *REPO.parents)]
    for path in places:
        if path.is_file():
            return path.read_text(encoding="utf-8")
    pytest.skip("needs axe-core: npm install --no-save axe-core, or EDGESEG_AXE=axe.min.js")
