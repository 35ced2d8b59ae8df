"""What axe-core finds wrong with a page for people who see, hear or move otherwise."""

import json

from tests.doubles.chromium import Tab
from tests.support.fetched_packages import node_modules

_RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(rule => ['serious', 'critical'].includes(rule.impact))
    .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target} (${rule.help})`)))"""


def serious_findings(page: Tab) -> list[str]:
    """What is serious or critical on a page as it stands; skip the test without axe-core."""
    source = node_modules("axe-core", version="4") / "axe-core/axe.min.js"
    page.evaluate(f"(0, eval)({json.dumps(source.read_text(encoding='utf-8'))}), undefined")
    found: list[str] = page.evaluate(_RUN)
    return found
