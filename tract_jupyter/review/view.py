"""A request as a user sees it. It is computed once for text, HTML and a page's scripts.

`view_request` builds a `RequestView` from a ticket. `review.text` writes it as text, and `notebook.panels.render` as
HTML. `notebook.panels.panel` passes it to the scripts of panel, list and inbox.

To add content to each request (such as the effects of a rehearsal, or the diff of a cell), add its pieces in
`_list_pieces`, in their order on the page. Both renderers draw a `CodeBlock`, `TextChoice`, `ValueTable`,
`ValueComparison`, `CodeOutput`, `Paragraph` or `EffectsPiece`. Another kind of piece needs a class here, and a function
in the `_PIECES` table of each renderer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.models import PendingStatus, counted, cut, one_line, printable, show_value, unified_diff
from tract_jupyter.review.decision import approval_terms
from tract_jupyter.review.display import by_rule, lines_text, pieces_text, shown_code, shown_rows
from tract_jupyter.review.effect_lines import effects_risk
from tract_jupyter.review.grants import describe_actors, pattern_text
from tract_jupyter.review.introspection import outcome_text
from tract_jupyter.review.request import KEEP, CodeBlock, TextChoice, ValueTable, keeps_effects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.review.channel import Ticket
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.display import RuleFindings
    from tract_jupyter.review.request import ReviewRequest

ACCESS = "What it can access"
"""The title of the table with the resources that code can access. An open request shows its summary in the row."""
ASKED_BECAUSE = "Asked because"
"""The beginning of a reason. The text after "Why you are asked:" omits it."""
SHORT_FINGERPRINT = 8
"""The number of visible digits of a fingerprint."""

_LINE, _VALUE = 240, 80  # characters of a line, and of a value in it
_RESULT = 2_000
_PATTERN = 301
_SHORT_CODE = 15  # lines of code that a single open request unfolds by itself


class Headline(NamedTuple):
    """The question in a few words: `words`, then `name` in the code font; `title` has all of it."""

    words: str
    name: str
    title: str


class Risk(NamedTuple):
    """The worst finding: its level, the number of such findings in words, a sentence, and its lines."""

    level: RiskLevel | None
    number: str
    about: str
    where: str


class ShownValue(NamedTuple):
    """One entry in the line of values, with the keys of its pieces."""

    name: str
    text: str
    keys: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """The state of a request in one line.

    For an open request, `verb` is the possible action. `reason` is the reason of a rejection, an error, or the part
    that did not run; otherwise a summary. `values` are shown instead of a reason, and `changed` counts the user's
    changes before the approval.
    """

    verb: str
    name: str
    is_code: bool
    reason: str
    values: tuple[ShownValue, ...]
    changed: str
    by: str
    at: datetime


class Decided(NamedTuple):
    """The complete last decision: decider, channel, time, and the reason or the part that did not run."""

    by: str
    at: datetime
    reason: str


class ValueChange(NamedTuple):
    """A value that the user changed before approving. A text of several lines has a diff."""

    name: str
    before: str
    after: str
    diff: str = ""


class ValueComparison(NamedTuple):
    """The values that the user changed before approving."""

    changes: tuple[ValueChange, ...]


class CodeOutput(NamedTuple):
    """A titled text that code produced. Plain text omits a result: it may be long, and the cell shows it."""

    title: str
    text: str
    is_result: bool = False


class Paragraph(NamedTuple):
    """A remark. A `failure` is the message of the last answer, line by line."""

    text: str
    kind: Literal["note", "failure", "remark"] = "remark"


class EffectsPiece(NamedTuple):
    """The effects of a rehearsal. They come first, before the code."""

    effects: Effects


Piece = CodeBlock | TextChoice | ValueTable | ValueComparison | CodeOutput | Paragraph | EffectsPiece


@dataclass(frozen=True, slots=True)
class BodyPiece:
    """A part of the full request.

    Attributes:
        value: the name of the value, if this code is an editable value.
        is_aside: True if it only explains the question. It is folded together with the reason.
    """

    content: Piece
    value: str = ""
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class RequestView:
    """The content of a request on a page. It is pure data with printable texts.

    An answer names `round_id`. `fingerprint` is that of the last decision, or else of the request. `values` are the
    given values in one line, and `defaults` names those that equal their defaults; `about` is a sentence instead of
    values.
    """

    request: ReviewRequest
    status: PendingStatus
    round_id: str
    headline: Headline
    place: str
    asker: str
    asked_at: datetime
    subject: str
    risk: Risk
    values: tuple[ShownValue, ...]
    defaults: tuple[str, ...]
    about: str
    why: str
    is_code: bool
    is_short: bool
    body: tuple[BodyPiece, ...]
    outcome: Outcome
    decided: Decided | None
    fingerprint: str

    @property
    def is_open(self) -> bool:
        """True if it is not decided."""
        return self.status.is_open

    def is_risky(self, level: RiskLevel = RiskLevel.MEDIUM) -> bool:
        """Return True if a finding or an effect is of that level or worse. No button is filled then."""
        return self.risk.level is not None and self.risk.level >= level


def view_request(ticket: Ticket) -> RequestView:
    """Return the view of a ticket in its present state."""
    request, pending = ticket.request, ticket.pending
    value, script = find_asked_code(request)
    worst = _find_worst(request)
    decision = ticket.last_decision
    is_code = script is not None and script.language != "text"
    return RequestView(
        request=request,
        status=ticket.status,
        round_id=ticket.round_id,
        headline=_find_headline(ticket, script if is_code else None),
        place=pending.runs_in,
        asker=asker_words(pending.actor),
        asked_at=pending.created_at,
        subject=_name_subject(ticket),
        risk=_find_risk(request, worst, is_code=is_code)
        if request.effects is None
        else _risk_of(request.effects),
        values=tuple(_list_values(request)),
        defaults=tuple(_list_defaults(request)),
        about=_find_about(request, script, worst),
        why=request.why.removeprefix(f"{ASKED_BECAUSE} "),
        is_code=is_code,
        is_short=script is not None
        and request.effects is None
        and sum(len(line.pieces) for line in shown_code(script).lines) <= _SHORT_CODE,
        body=tuple(_list_pieces(ticket, value, script)),
        outcome=_find_outcome(ticket),
        decided=None if decision is None else _describe_decision(ticket, decision),
        fingerprint=request.fingerprint if decision is None else decision.fingerprint,
    )


def bound_pieces(request: ReviewRequest) -> Iterator[BodyPiece]:
    """Yield the pieces of a request without its state: effects, code, choices and values."""
    yield from _list_bound(request, *find_asked_code(request))


def _list_pieces(ticket: Ticket, value: str, script: CodeBlock | None) -> Iterator[BodyPiece]:
    """Yield the full request in order. A piece that every request shows is added here."""
    request, is_open = ticket.request, ticket.status.is_open
    for piece in _list_bound(request, value, script):
        content = piece.content
        is_access = isinstance(content, ValueTable) and content.title.startswith(ACCESS)
        is_caller = (
            isinstance(content, CodeBlock) and content.binds == "nothing" and content.marked is not None
        )
        is_aside = is_access or (is_caller and ticket.pending.is_definition)
        yield replace(piece, is_aside=is_open and is_aside)
    changes = tuple(list_changes(ticket))
    result = ticket.pending.result
    is_shown = (
        result is not None and not isinstance(result, type) and not is_open
    )  # a class is an activation's
    standing = describe_standing(ticket)
    contents: list[Piece | None] = [
        ValueComparison(changes) if changes else None,
        CodeOutput("Printed", ticket.output) if ticket.output else None,
        CodeOutput("Result", show_value(result, _RESULT), is_result=True) if is_shown else None,
        Paragraph(request.note, "failure" if is_open and not is_news(ticket) else "note")
        if request.note
        else None,
        Paragraph(standing) if standing else None,
    ]
    yield from (BodyPiece(content) for content in contents if content is not None)


def is_news(ticket: Ticket) -> bool:
    """Return True if the note of a request reports the effect of the user's own click, and no problem."""
    return ticket.request.note in ticket.pending.good_notes


def _list_bound(request: ReviewRequest, value: str, script: CodeBlock | None) -> Iterator[BodyPiece]:
    is_text = script is not None and script.language == "text"
    named = [] if script is None else [BodyPiece(script, value)]
    if request.effects is not None:
        yield BodyPiece(EffectsPiece(request.effects))
    yield from [] if is_text else named
    yield from map(BodyPiece, request.choices)
    yield from (BodyPiece(block) for block in request.code if block is not script)
    yield from named if is_text else []
    # the texts of a change come before its values
    tables = sorted(request.tables, key=lambda table: not table.summary) if is_text else request.tables
    yield from map(BodyPiece, tables)


# --- the question


def find_asked_code(request: ReviewRequest) -> tuple[str, CodeBlock | None]:
    """Return the code that is the editable value in question, with the name of the value."""
    for parameter in request.fields or ():
        for block in request.code:
            if block.is_value(parameter.name, parameter.default):
                return parameter.name, block
    return "", None


def _find_headline(ticket: Ticket, script: CodeBlock | None) -> Headline:
    title, name = ticket.request.title, _name_subject(ticket)
    if script is not None:
        comment = code_comment(script.code)
        words = f"“{comment}”" if comment else title.removesuffix(" in the kernel, with your variables")
        return Headline(words, "", title)
    subject = ticket.request.subject
    if subject is not None and subject.kind == "tool" and not title.endswith(name):
        name = title.rpartition(" ")[2]  # the title describes the tool in words
    if not name or not title.endswith(name):
        return Headline(title, "", "")
    words = title.removesuffix(name).strip() or "Operation"
    return Headline(words.removesuffix(" operation").replace("Call tool", "Run"), name, "")


def _name_subject(ticket: Ticket) -> str:
    if ticket.request.subject is not None:
        return str(ticket.request.subject.name)
    return ticket.request.title.rpartition(" ")[2] if ticket.pending.is_definition else ""


def _find_worst(request: ReviewRequest) -> RuleFindings | None:
    rules = [rule for block in request.code for rule in by_rule(block.findings)]
    return max(rules, key=lambda rule: rule.level.rank, default=None)


def rule_words(rule: RuleFindings) -> str:
    """Return the effect of the code: the first line of the rule's page; the finding's reason for an unknown rule."""
    from tract_jupyter.analysis import RULES  # loads every rule

    known = RULES.get(rule.code)
    words = rule.worst.reason if known is None else known.manual().partition("\n")[0]
    return words.removesuffix(".")


def _find_risk(request: ReviewRequest, worst: RuleFindings | None, *, is_code: bool) -> Risk:
    if worst is None:
        has_code = any(block.binds == "code" and block.language == "python" for block in request.code)
        about = "" if is_code else first_sentence(request.summary)
        return Risk(None, "no findings" if has_code else "", about, "")
    findings = [f for block in request.code for f in block.findings if f.level is worst.level]
    located = findings if is_code else [f for f in worst.findings if f.level is worst.level]
    where = lines_text(finding.span.line for finding in located)
    return Risk(
        worst.level,
        counted(len(findings), f"{worst.level.value} finding"),
        "" if is_code else rule_words(worst),
        where,
    )


def _risk_of(effects: Effects) -> Risk:
    """Return the worst effect. The findings of the analysis stay with the code."""
    level, label = effects_risk(effects)
    return Risk(level, label, "", "")


def _list_values(request: ReviewRequest) -> Iterator[ShownValue]:
    if request.choices:
        return
    for table in request.tables:
        if table.binds == "values":
            visible = replace(table, rows=tuple(row for row in table.rows if not row.is_default))
            for row in shown_rows(visible, request.pending_id):
                keys = tuple(piece.key for piece in (*row.name, *row.value) if piece.key)
                yield ShownValue(pieces_text(row.name), pieces_text(row.value), keys)


def _list_defaults(request: ReviewRequest) -> Iterator[str]:
    tables = [table for table in request.tables if table.binds == "values"]
    yield from (row.name for table in tables for row in table.rows if row.is_default)


def _find_about(request: ReviewRequest, script: CodeBlock | None, worst: RuleFindings | None) -> str:
    """Return the sentence for a request without values."""
    if request.effects is not None:
        return request.effects.headline.replace("`", "")  # the row shows plain text
    if request.choices:
        return " · ".join(choice.title for choice in request.choices)
    if any(table.binds == "values" and table.rows for table in request.tables):
        return ""
    if script is not None:
        return first_sentence(request.summary)
    summaries = [first_sentence(table.summary) for table in reversed(request.tables) if table.summary]
    if summaries:  # the access of the code, and then the results of its rehearsal
        return " · ".join(summaries)
    lines = sum(block.code.count("\n") + 1 for block in request.code if block.binds == "code")
    about = first_sentence(request.summary) if worst is not None else ""
    return " · ".join(filter(None, (about, counted(lines, "line") + " of code" if lines else "")))


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, or its part before the first semicolon."""
    first = re.split(r"(?<=[.;])\s", text.strip(), maxsplit=1)[0]
    return first.rstrip(".;")


def code_in_brief(code: str) -> str:
    """Return the first comment of code in quotation marks; else its only line, or the number of its lines."""
    comment = code_comment(code)
    if comment:
        return f"“{comment}”"
    lines = printable(code).rstrip().split("\n")
    filled = [line for line in map(str.strip, lines) if line]
    return one_line(filled[0], _LINE) if len(filled) == 1 else f"{counted(len(lines), 'line')} of code"


def code_comment(code: str) -> str:
    """Return the first comment that fills a line of the code."""
    lines = map(str.strip, printable(code).split("\n"))
    comments = (line.lstrip("#!% ") for line in lines if line.startswith("#") and not line.startswith("#!"))
    return one_line(next(filter(None, comments), ""), _LINE)


def agents_in(actor: str) -> tuple[str, ...]:
    """Return the names of the agents in an actor, outermost first. Empty for a user or a user's model."""
    if not actor.startswith("agent:"):
        return ()
    parts = actor.removeprefix("agent:").split("/")
    return tuple(part.rpartition("@")[0] for part in parts if "@" in part)


def asker_words(actor: str) -> str:
    """Return the agent that asks, and for whom; empty if no agent does."""
    return ", for ".join(one_line(name, 60) for name in reversed(agents_in(actor)))


# --- the outcome

_DONE = {"Activate": "Activated", "Replace": "Replaced", "Run": "Ran", "Merge": "Merged", "Rebase": "Rebased",
         "Compress": "Compressed", "Create": "Created"}  # fmt: skip
_NOT_DONE = {
    PendingStatus.APPROVED: "Approved",
    PendingStatus.REJECTED: "Rejected",
    PendingStatus.FAILED: "Failed:",
    PendingStatus.EXPIRED: "Expired:",
    PendingStatus.PASSED_THROUGH: "Left undecided:",
}
_IN_PERSON = frozenset({"panel", "prompt"})
_CHANNELS = {"grant": "standing approval", "timeout": "not answered in time", "recorded": "recorded decision"}


def _find_outcome(ticket: Ticket) -> Outcome:
    verb, name = _split_title(ticket)
    is_code = bool(verb) and " " not in name
    status, decision = ticket.status, ticket.last_decision
    asked = ticket.decided[-1][0] if ticket.decided else ticket.request
    if status is PendingStatus.APPROVED and decision is not None and keeps_effects(asked, decision.action):
        verb, name = _name_kept(asked)
    elif status is PendingStatus.APPROVED and decision is not None and not outcome_text(ticket.pending):
        verb = _DONE.get(verb, "Approved:")
    else:
        verb = _NOT_DONE.get(status, verb)
    reason, values = _summarize(ticket)
    _, script = find_asked_code(asked)
    is_script = script is not None and script.language != "text"
    changes = sum(1 for _ in list_changes(ticket))
    changed = ("code" if is_script else counted(changes, "value")) if changes else ""
    by, at = "", ticket.pending.created_at
    if decision is not None and status is not PendingStatus.PENDING:
        how = "" if decision.channel in _IN_PERSON | _CHANNELS.keys() else f" ({decision.channel})"
        by, at = _CHANNELS.get(decision.channel, decision.decided_by) + how, decision.decided_at
    return Outcome(verb, name, is_code, reason, values, changed, by, at)


def _name_kept(request: ReviewRequest) -> tuple[str, str]:
    effects = request.effects
    if effects is None or effects.is_empty:
        return "", "Looked, no effects"
    headline = effects.headline.replace("`", "")  # the row shows plain text
    return ("", headline) if effects.ending == "raised" else ("Kept:", headline)


def _split_title(ticket: Ticket) -> tuple[str, str]:
    """Return a title as a verb and its object: ("Run", "save_table"). Without a verb, all of it is the second."""
    title, subject = ticket.request.title, ticket.request.subject
    first, _, rest = title.partition(" ")
    if ticket.pending.is_definition and first in {"Activate", "Replace"}:
        return first, rest.removeprefix("operation ")
    if subject is not None and title.endswith(subject.name) and subject.kind in {"operation", "tool"}:
        return "Run", subject.name
    return ("", title) if first not in _DONE else (first, rest)


def _summarize(ticket: Ticket) -> tuple[str, tuple[ShownValue, ...]]:
    """Return the reason or the failure; else the values; else the first comment of the code."""
    status, decision, pending, request = ticket.status, ticket.last_decision, ticket.pending, ticket.request
    reason = (decision.reason if decision is not None else "") or pending.rejection_reason
    if status is PendingStatus.REJECTED and reason:
        return f"“{one_line(reason, _LINE)}”", ()
    if status is PendingStatus.FAILED and pending.error:
        return one_line(pending.error, _LINE), ()
    undone = outcome_text(pending)
    if undone and not status.is_open:
        return undone, ()
    if request.subject is not None and request.subject.values:
        return "", tuple(_shorten_values(request.subject.values))
    value, script = find_asked_code(ticket.decided[-1][0] if ticket.decided else request)
    if script is not None:
        terms = {} if decision is None else approval_terms(decision.action, decision.arguments)
        return code_in_brief(str((terms.get("edits") or {}).get(value, script.code))), ()
    lines = sum(block.code.count("\n") + 1 for block in request.code if block.binds != "nothing")
    worst = _find_worst(request)
    parts = (
        counted(lines, "line") if lines else request.summary,
        "" if worst is None else f"worst finding: {worst.level}",
    )
    return one_line(", ".join(filter(None, parts)), _LINE), ()


def _shorten_values(values: Mapping[str, Any]) -> Iterator[ShownValue]:
    size = 0
    for name, value in values.items():
        text = show_value(value, _VALUE)
        size += len(name) + len(text)
        if size > _LINE and size > len(name) + len(text):
            yield ShownValue("", "…")
            return
        yield ShownValue(name, text)


def list_changes(ticket: Ticket) -> Iterator[ValueChange]:
    """Yield the values that the user changed before approving. Several approvals are possible, because one may fail."""
    for request, decision in ticket.decided:
        before = {parameter.name: parameter.default for parameter in request.fields or ()}
        edits = approval_terms(decision.action, decision.arguments).get("edits") or {}
        for name, value in edits.items():
            old = before.get(name)
            yield ValueChange(name, show_value(old), show_value(value), compare_texts(old, value))


def compare_texts(before: object, after: object) -> str:
    """Return the diff of two texts if one of them has several lines. Empty for other values."""
    if not (isinstance(before, str) and isinstance(after, str)) or "\n" not in before + after:
        return ""
    return "\n".join(unified_diff(before.split("\n"), after.split("\n"), context=1))


_DURATIONS = {"session": "Not asked again in this session", "always": "Not asked again"}


def describe_standing(ticket: Ticket) -> str:
    """Return a description of the newest standing approval. Empty if there is none."""
    subject = ticket.request.subject
    all_terms = [approval_terms(decision.action, decision.arguments) for _, decision in ticket.decided]
    standing = [terms for terms in all_terms if terms.get("scope") in _DURATIONS]
    if subject is None or not standing:
        return ""
    if subject.rule:
        return f"Switched on: {subject.rule}. %tract grants lists and revokes it."
    terms = standing[-1]
    covered = cut(pattern_text(terms.get("pattern") or {}, subject.values), _PATTERN)
    often = "" if terms.get("uses") is None else f", for the next {terms['uses']}"
    ignored = f"; whatever {', '.join(subject.ignored)} is" if subject.ignored else ""
    return (
        f"{_DURATIONS[terms['scope']]}{often}: {covered}{ignored}; for "
        f"{describe_actors(subject.actor, terms.get('whom', 'this'))}. %tract grants lists and revokes it."
    )


_DECIDED = {"approve": "approved", "reject": "rejected", KEEP: "kept"}


def decision_words(decision: Decision) -> str:
    """Return the decision, the decider and the channel."""
    word = _DECIDED.get(decision.action, f"{decision.action} chosen")
    return f"{word} by {decision.decided_by} ({decision.channel})"


def _describe_decision(ticket: Ticket, decision: Decision) -> Decided:
    reason = decision.reason or ticket.pending.rejection_reason or outcome_text(ticket.pending)
    return Decided(decision_words(decision), decision.decided_at, reason)
