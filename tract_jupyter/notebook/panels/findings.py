"""The findings of a block of code as HTML: a row for each rule, the worst first, which opens without a script."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.analysis.rules import RULES
from tract_jupyter.notebook.markup import OWN_KEYS, escaped
from tract_jupyter.notebook.rule_page import page_html
from tract_jupyter.review.findings_by_rule import by_rule, lines_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.review.findings_by_rule import Place, RuleFindings
    from tract_jupyter.review.request import CodeBlock

_SHOWN_PLACES = 12


def findings_html(block: CodeBlock) -> str:
    """How much of what was found, a row for each rule, and what is to be said about the analysis itself."""
    note = f'<p class="tract-analysis">{escaped(block.analysis_note)}</p>' if block.analysis_note else ""
    if not block.findings:
        return note
    rows = "".join(_rule_html(rule, block.title) for rule in by_rule(block.findings))
    return (
        f'<div class="tract-findings" role="group" aria-label="{escaped(f"Findings in {block.title}")}">'
        f'<p class="tract-count">{_count_html(block)}</p>{rows}</div>{note}'
    )


def chip_html(level: RiskLevel, text: str = "") -> str:
    """A level as a word on its colour."""
    return f'<span class="tract-chip tract-{level.value}">{escaped(text or level.value)}</span>'


def _count_html(block: CodeBlock) -> str:
    counts = Counter(finding.level for finding in block.findings)
    total = len(block.findings)
    chips = " ".join(
        chip_html(level, f"{counts[level]} {level}") for level in reversed(RiskLevel) if counts[level]
    )
    return f"{total} finding{'s' if total > 1 else ''}: {chips}"


def _rule_html(rule: RuleFindings, title: str) -> str:
    part = escaped(f"{title} {rule.code}")
    return (
        f'<details class="tract-rule" data-part="{part}" data-code="{escaped(rule.code)}"><summary {OWN_KEYS}>'
        f'{chip_html(rule.level)} <code>{escaped(rule.code)}</code> <span class="tract-what">{_what(rule)}</span> '
        f'<span class="tract-where">{rule.where}</span></summary>'
        f'<div class="tract-rule-body">{_reasons_html(rule)}{_page_html(rule, part)}</div></details>'
    )


def _what(rule: RuleFindings) -> str:
    """What the code would do, in the words of the rule; one that is not known here comes from another version."""
    known = RULES.get(rule.code)
    text = rule.worst.reason if known is None else known.manual().partition("\n")[0]
    return escaped(text.removesuffix("."))


def _reasons_html(rule: RuleFindings) -> str:
    reasons = "".join(
        f"<li>{escaped(reason.text)}{'' if reason.level == rule.level else ' ' + chip_html(reason.level)}"
        f'<ul class="tract-places">{_places_html(reason.places)}</ul></li>'
        for reason in rule.reasons()
    )
    remedies = dict.fromkeys(finding.remedy for finding in rule.findings if finding.remedy)
    instead = "".join(f'<p class="tract-remedy"><b>Instead:</b> {escaped(remedy)}</p>' for remedy in remedies)
    return f'<ul class="tract-reasons">{reasons}</ul>{instead}'


def _places_html(places: Iterable[Place]) -> str:
    shown = [f"<li>{lines_text(place.lines)}: <code>{escaped(place.text)}</code></li>" for place in places]
    more = len(shown) - _SHOWN_PLACES
    return "".join(shown[:_SHOWN_PLACES]) + (f"<li>… {more:,} more</li>" if more > 0 else "")


def _page_html(rule: RuleFindings, part: str) -> str:
    known = RULES.get(rule.code)
    if known is None:
        return ""
    return (
        f'<details class="tract-manual" data-part="{part} page"><summary {OWN_KEYS}>About rule {escaped(rule.code)} '
        f"{escaped(known.name)}</summary>{page_html(known)}</details>"
    )
