"""The commands of `%tract` about decisions: open requests, stored code that is not active, and standing approvals."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, cast

from IPython.display import display

from tract_jupyter.exceptions import OperationError, TractError, nearest
from tract_jupyter.models import cut, local_time, one_line
from tract_jupyter.models.schema import type_text
from tract_jupyter.notebook.commands.command import Command, arguments, no_arguments, option
from tract_jupyter.notebook.panels.inbox import TURN_DOWN, Inbox, pending_of, stuck
from tract_jupyter.notebook.panels.render import record
from tract_jupyter.notebook.session import BEGAN, notebook_path
from tract_jupyter.notebook.views.html import Grid, GridView
from tract_jupyter.operations import activation_fingerprint
from tract_jupyter.review import (
    OWN_WORDS,
    PROJECT_FILE,
    Project,
    RecordableDecisions,
    Ticket,
    Trust,
    action_word,
    deciding,
    how_to_decide,
    merged,
    read_line,
    read_lock,
    recordable_decisions,
    write_lock,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.models.schema import Parameter
    from tract_jupyter.notebook.channels import NotebookChannel
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.review import Answer, Grant, Pending, RecordedDecision, ReviewAction
    from tract_jupyter.storage import StoredPending
    from tract_jupyter.tract import Tract


def _record(notebook: NotebookSession, rest: list[str]) -> GridView:
    """Record the decisions, and show the entries of the file."""
    everything, rest = option(rest, "--all")
    no_arguments("record", rest)
    trust, path = Trust(), notebook.lock_path
    tract = notebook.tract
    project = Project.load_or_create(path, trust)
    recorded_in = project.path_of(notebook_path(notebook.shell))
    decisions = recordable_decisions(
        tract.reviewer.ledger, project, since=None if everything else BEGAN, active=_active(tract),
        notebook=recorded_in,
    )  # fmt: skip
    if not decisions.entries:
        nothing = (
            "This store has no decisions."
            if everything
            else "No decisions since this kernel started. --all records all decisions of the store."
        )
        return GridView("Nothing to record", (nothing, *_left_out(decisions)))
    before = read_lock(path)
    after = merged(before, decisions.entries, project)
    project.keep()
    write_lock(path, after)
    where = (
        recorded_in
        or "any notebook in the folder, because this kernel does not know the name of its notebook"
    )
    verify = f"tract-jupyter verify {shlex.quote(str(path.parent))}"
    lines = (
        f"Headless runs (nbclient, papermill, CI) carry these out without asking. To run one and see: {verify}",
        f"They count for {where}, and in this project only: commit {PROJECT_FILE}, which is its id, with the file.",
        f"Signed with your secret, {trust.source}. A run elsewhere also needs it; see docs/headless.md.",
        *_left_out(decisions),
    )
    have = {entry.signature for entry in before}
    new = sum(entry.signature not in have for entry in after)
    count = f"{len(after)} decision{'s' if len(after) > 1 else ''}"
    return GridView(f"{path.name}: {count}, {new} of them new", lines, (_grid(after, project),))


def _active(tract: Tract) -> set[str]:
    """Return the fingerprints of all active operations. Their cells do not ask again."""
    registry = tract.operations.registry
    specs = map(registry.reviewed_spec, registry.operation_names)
    return {activation_fingerprint(spec) for spec in specs if spec is not None}


def _grid(entries: list[RecordedDecision], project: Project) -> Grid:
    rows = tuple(
        (
            entry.title,
            entry.action,
            entry.decided_by,
            entry.decided_at[:19],
            entry.identity[:8],
            entry.notebook,
            project.why_not(entry),
        )
        for entry in entries
    )
    return Grid(
        ("What", "Decision", "By", "At (UTC)", "Identity", "Notebook", ""), rows, code=frozenset({"Identity"})
    )


def _left_out(decisions: RecordableDecisions) -> tuple[str, ...]:
    if not decisions.left_out:
        return ()
    return (f"Left out: {decisions.left_out} that failed, were not carried out, or are not signed by you.",)


_USAGE = "decide [ID] [ACTION [values]]"
_MOST = 1_000
_TITLE = 60  # characters of it in a list
_SHORTEST = 4
"""The number of letters of an id that are enough if the id is unique."""


def _decide(notebook: NotebookSession, words: list[str]) -> GridView | None:
    """Show a request in full and ask about it, or take the answer from the line."""
    (line,) = words or [""]
    tract = notebook.tract
    stored, rest = _find_request(tract, line.strip())
    if stored is None:
        return GridView("No requests need a decision.")
    try:
        ticket = tract.reviewer.open_ticket(pending_of(tract, stored))
    except TractError as error:
        return _reject(notebook, stored, rest, error)
    channel = cast("NotebookChannel", tract.reviewer.channel)
    with channel.in_text(ticket):
        if rest and _take(notebook, ticket, rest):
            is_done = True
        else:
            channel.print_in_full(ticket)
            is_done = not rest and tract.reviewer.ask_by_typing(ticket)
    return _state_after(tract, ticket, is_done=is_done)


def _reject(notebook: NotebookSession, stored: StoredPending, rest: str, why: TractError) -> GridView | None:
    """Reject a request without a view if the line says so."""
    tract = notebook.tract
    asked_here = tract.reviewer.asked_here(stored.pending_id)
    pending = tract.operations.as_shown(stored)
    ticket = Ticket(pending, lambda _: None)  # a separate ticket, which can only be rejected
    answer = read_line(ticket, rest) if rest else None
    if answer is None or not _is_rejection(ticket, answer):
        how = how_to_decide(stored.pending_id)
        raise OperationError(f"{why}. '{how} reject REASON' rejects it") from why
    if asked_here is not None:
        with deciding("code" if notebook.front_end.is_headless else "command"):
            asked_here.execute_tool(answer.action, answer.arguments)
        return GridView(f"{stored.title}: rejected")
    ticket = tract.reviewer.open_ticket(pending)
    _take(notebook, ticket, rest)
    return _state_after(tract, ticket, is_done=True)


def _is_rejection(ticket: Ticket, answer: Answer) -> bool:
    action = ticket.request.action(answer.action)
    return action is not None and action.style == "reject"


def _take(notebook: NotebookSession, ticket: Ticket, rest: str) -> bool:
    """Carry out the answer. Return False if it would approve a request that the user has not seen in full."""
    tract = notebook.tract
    answer = read_line(ticket, rest)
    if not _is_rejection(ticket, answer) and not cast("NotebookChannel", tract.reviewer.channel).was_printed(
        ticket
    ):
        return False
    # in a headless run, the line counts as code
    if not tract.reviewer.answer(ticket, answer, "code" if notebook.front_end.is_headless else "command"):
        raise OperationError(
            "nothing was decided: another decision came first, or the request has changed. Show it again"
        )
    return True


def _state_after(tract: Tract, ticket: Ticket, *, is_done: bool) -> GridView | None:
    """Return the state after the answer. For an open request, return the lines to type next."""
    if not ticket.status.is_open:
        display(record(ticket), raw=True)
        waiting = tract.reviewer.ledger.count_waiting()
        return GridView(f"{_waiting(waiting)}: %tract decide shows the oldest.") if waiting else None
    if is_done:
        return (
            None
            if not ticket.request.note
            else GridView(ticket.request.title, tuple(ticket.request.note.splitlines()))
        )
    line = how_to_decide(ticket.pending.pending_id)
    lines = tuple(f"{line} {_form(action)}" for action in ticket.request.actions)
    return GridView("Nothing is decided yet. Run one of these in a cell:", lines)


def _form(action: ReviewAction) -> str:
    parameters, word = list(action.parameters), action_word(action)
    if len(parameters) == 1 and action.style == "reject":
        return f"{word} {parameters[0].name.upper()}"
    return " ".join([word, *map(_placeholder, parameters)])


def _placeholder(parameter: Parameter) -> str:
    text = f"{parameter.name}={type_text(parameter.annotation)}"
    return text if parameter.required else f"[{text}]"


# --- which one


def _find_request(tract: Tract, line: str) -> tuple[StoredPending | None, str]:
    """Return the request that a line names, and the rest of the line. Without an id, it is the oldest request."""
    waiting = tract.review.inbox(_MOST)
    first, _, rest = line.partition(" ")
    if not first:
        return (waiting[0] if waiting else None), ""
    begun = [stored for stored in waiting if stored.pending_id.startswith(first.lower())]
    if len(begun) == 1 and len(first) >= _SHORTEST:
        return begun[0], rest.strip()
    if len(waiting) == 1 and not begun:
        _check_action(tract, waiting[0], first)
        return waiting[0], line
    raise OperationError(_which(first, waiting, [stored.pending_id[:8] for stored in begun]))


def _check_action(tract: Tract, stored: StoredPending, word: str) -> None:
    """Check that a word is the start of an action of the only request. Otherwise it is a mistyped id."""
    actions = pending_of(tract, stored).review_request().actions
    words = [*(action.name for action in actions), *(action.label.lower() for action in actions), *OWN_WORDS]
    if not any(option.startswith(word.lower()) for option in words):
        names = [action.name for action in actions]
        raise OperationError(
            f"no waiting request has an id that begins with {word!r}, and the only one that waits, "
            f"{stored.pending_id[:8]} {one_line(stored.title, _TITLE)}, has no such action.{nearest(word, names)} "
            f"Its actions: {', '.join(names)}. Usage: %tract {_USAGE}"
        )


def _waiting(count: int) -> str:
    return f"{count:,} more {'waits' if count == 1 else 'wait'}"


def _which(first: str, waiting: list[StoredPending], begun: list[str]) -> str:
    what = f"no waiting request has an id that begins with {first!r}"
    if len(waiting) > 1 and first in {"approve", "reject"}:
        what = f"{len(waiting):,} requests wait, so say which one: %tract decide ID {first}"
    if begun:
        what = f"{first!r} is ambiguous: type at least {_SHORTEST} letters of {', '.join(begun)}"
    listed = "; ".join(f"{stored.pending_id[:8]} {one_line(stored.title, _TITLE)}" for stored in waiting[:10])
    return f"{what}. Waiting: {listed or 'nothing'}. Usage: %tract {_USAGE}"


def _waiting_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    tract = notebook.tract
    if not typed:
        return [
            (stored.pending_id[:8], f"{one_line(stored.title, _TITLE)}, {local_time(stored.created_at)}")
            for stored in tract.review.inbox()
        ]
    stored, rest = _find_request(tract, " ".join(typed))
    if stored is None or rest:
        return []
    request = pending_of(tract, stored).review_request()  # no ticket, because completion must not ask
    return [(action.name, "action") for action in request.actions]


_REVOKE = "%tract trust revoke OPERATION, or OPERATION HANDLER"


def offer_quarantined(tract: Tract) -> tuple[tuple[str, str, str], ...]:
    """Add stored code that is not active to the inbox, with its changes since the last approval.

    Returns:
        Name, reason and command of code that was rejected before or cannot be read.
    """
    return tuple(
        (name, why, f"%tract review {name}")
        for name, why in quarantined(tract).items()
        if not _offered(tract, name)
    )


def quarantined(tract: Tract) -> dict[str, str]:
    """Return why each stored operation and handler is not active. The name of a handler is `operation/name`."""
    handlers = {
        f"{operation}/{name}": why for (operation, name), why in tract.hooks.saved.quarantined.items()
    }
    return dict(sorted({**tract.operations.quarantined, **handlers}.items()))


def reviewed(tract: Tract, name: str) -> Pending:
    """Return the request to activate a stored operation or handler."""
    operation, slash, handler = name.rpartition("/")
    if slash:
        return tract.hooks.saved.review_quarantined(operation, handler)
    return tract.operations.review_quarantined(name)


def _offered(tract: Tract, name: str) -> bool:
    """Add the request to the inbox unless it was there before; return True if it is open."""
    try:
        pending, ledger = reviewed(tract, name), tract.reviewer.ledger
        if ledger.needs_asking(pending):
            tract.reviewer.keep(pending)
        return ledger.is_waiting(pending)
    except TractError:
        return False


def code_text(spec: OperationSpec, unreviewed: Collection[str]) -> str:
    """Return "sandboxed" and "not reviewed" if they apply to an operation; otherwise an empty text."""
    notes = ["sandboxed"] if spec.is_sandboxed else []
    return ", ".join([*notes, "not reviewed"] if spec.name in unreviewed else notes)


def _review(notebook: NotebookSession, rest: list[str]) -> None:
    if len(rest) != 1:
        raise OperationError("name one stored operation, or OPERATION/HANDLER: %tract review NAME")
    notebook.tract.reviewer.show(reviewed(notebook.tract, rest[0]))


def _trust(notebook: NotebookSession, rest: list[str]) -> GridView:
    tract = notebook.tract
    if not rest:
        return _trusted(tract)
    match rest:
        case ["revoke", operation]:
            tract.operations.revoke(operation)
        case ["revoke", operation, handler]:
            tract.hooks.revoke_handler(operation, handler)
        case _:
            raise OperationError(
                f"invalid arguments {' '.join(rest)!r}; %tract trust lists the approved code. To revoke an approval: "
                f"{_REVOKE}"
            )
    name = "/".join(rest[1:])
    return GridView(
        f"{name} is not active any more", (f"It stays in the store; %tract review {name} shows it.",)
    )


def _trusted(tract: Tract) -> GridView:
    registry = tract.operations.registry
    specs = map(registry.require_spec, registry.operation_names)
    operations = [
        (
            spec.name,
            ", ".join(filter(None, ["operation", code_text(spec, registry.unreviewed)])),
            spec.spec_hash[:8],
        )
        for spec in specs
    ]
    handlers = [
        (f"{on}/{name}", "handler", spec.spec_hash[:8])
        for (on, name), spec in tract.hooks.saved.active.items()
    ]
    heads = ("Name", "Kind", "Version")
    active = Grid(
        heads, tuple(sorted([*operations, *handlers])), "Active", code=frozenset({"Name", "Version"})
    )
    others = tuple((name, why, f"%tract review {name}") for name, why in quarantined(tract).items())
    return GridView(
        f"Trusted with {tract.review.trust.source}",
        () if active.rows else ("Nothing yet.",),
        (active, not_active(others)),
    )


def _trust_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    tract = notebook.tract
    handlers = tract.hooks.saved.active
    match typed:
        case []:
            return [("revoke", "option")]
        case ["revoke"]:
            names = {*tract.operations.registry.operation_names, *(operation for operation, _ in handlers)}
            return [(name, "operation") for name in sorted(names)]
        case ["revoke", operation]:
            return [(name, "handler") for on, name in sorted(handlers) if on == operation]
    return []


def not_active(rows: tuple[tuple[str, str, str], ...]) -> Grid:
    """Return the table of stored code that is not active."""
    heads = ("Name", "Why it is not active", "Look at it")
    return Grid(heads, rows, "Stored, and not active", code=frozenset({heads[0], heads[2]}))


def _quarantined_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    return [] if typed else [(name, "operation") for name in quarantined(notebook.tract)]


_MAX_COVERS = 201
_SEVERAL = 2


def _inbox(notebook: NotebookSession, rest: list[str]) -> GridView | None:
    """Display the open requests: a single one in its panel, several in one list."""
    no_arguments("inbox", rest)
    tract = notebook.tract
    rejected = offer_quarantined(tract)
    count = tract.reviewer.ledger.count_waiting()
    if count >= _SEVERAL and notebook.front_end.can_click:
        Inbox(tract, rejected).show()
        return None
    return _one_by_one(tract, count, not_active(rejected))


def _one_by_one(tract: Tract, count: int, quarantined: Grid) -> GridView | None:
    waiting, stuck_rows = tract.review.inbox(), []
    more = count - len(waiting)
    for stored in waiting:
        try:
            tract.reviewer.show_again(pending_of(tract, stored))
        except TractError as error:
            row = stuck(stored, error)
            stuck_rows.append((row.pending_id[:8], row.title, row.why, row.since))
    if waiting and more <= 0 and not stuck_rows and not quarantined.rows:
        return None
    heads = ("Id", "What", "Why it cannot be decided here", "Since")
    cannot = Grid(heads, tuple(stuck_rows), code=frozenset({"Id"}))
    text = "" if waiting else "No requests need a decision."
    if more > 0:
        text = f"{_waiting(more)}: %tract inbox shows {'it' if more == 1 else 'them'} when these are decided."
    how = TURN_DOWN if stuck_rows else ""
    return GridView("Inbox", tuple(filter(None, (text, how))), (cannot, quarantined))


def _grants(notebook: NotebookSession, rest: list[str]) -> GridView:
    tract = notebook.tract
    if rest and (rest[0] != "revoke" or len(rest) != _SEVERAL):
        raise OperationError(
            f"invalid arguments {' '.join(rest)!r}; %tract grants lists the standing approvals, %tract grants revoke "
            "ID revokes one"
        )
    if rest:
        grant = tract.review.grants.revoke(rest[1])
        return GridView(f"Revoked: {grant.kind} {grant.name} ({_covered(grant)}) needs approval again")
    grants = tract.review.grants.all()
    nothing = 'None yet. "Always…" in a request gives one.'
    heads = ("Id", "What", "Version", "Covers", "For", "Scope", "Used", "By", "Since", "State")
    grid = Grid(heads, tuple(map(_grant_row, grants)), code=frozenset({"Id", "Version", "Covers"}))
    return GridView("Standing approvals", () if grants else (nothing,), (grid,))


def _looking(notebook: NotebookSession, words: list[str]) -> GridView:
    """Let the model look without asking, or end that; without a word, show the state."""
    from tract_jupyter.rehearsal import probe
    from tract_jupyter.review import KEEP
    from tract_jupyter.scripts import LOOKS, MOST_LOOKED, looking

    grants = notebook.tract.review.grants
    words = arguments("looking [on|off]", words, 0, 1)
    if words not in ([], ["on"], ["off"]):
        raise OperationError(f"invalid argument {words[0]!r}; use %tract looking on or %tract looking off")
    if words == ["off"]:
        was_on = grants.end_rules()
        return GridView(
            "Off: each script for the kernel needs your decision" if was_on else "It is off already"
        )
    if words == ["on"]:
        grants.begin_rule(looking(), KEEP)
    if not grants.has_rule():
        return GridView("Off: each script for the kernel needs your decision. %tract looking on changes that")
    level = probe()
    first = (
        "A script runs on a copy of the kernel first. If it has no effects, the model gets its output at once"
    )
    lines = [f"{first}: at most {MOST_LOOKED:,} characters per turn.", "%tract looking off ends it"]
    if level.name == "none":
        lines.insert(
            1, f"No script can be rehearsed here, so each one still needs your decision. {level.reason}"
        )
    return GridView(f"On: {LOOKS}", tuple(lines))


def _grant_row(grant: Grant) -> tuple[str, ...]:
    return (
        grant.grant_id[:8],
        f"{grant.kind} {grant.name}{'' if grant.action == 'approve' else f', runs {grant.action}'}",
        grant.definition_hash[:8],
        _covered(grant),
        grant.whom,
        grant.scope,
        f"{grant.uses:,}" if grant.most_uses is None else f"{grant.uses:,} of {grant.most_uses:,}",
        grant.granted_by,
        local_time(grant.created_at),
        grant.state,
    )


def _covered(grant: Grant) -> str:
    covers = cut(grant.covers, _MAX_COVERS)
    return f"{covers}; any {', '.join(grant.ignores)} is" if grant.ignores else covers


def _grant_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    tract = notebook.tract
    if not typed:
        return [("revoke", "option")]
    if typed != ["revoke"]:
        return []
    return [(grant.grant_id[:8], "grant") for grant in tract.review.grants.all() if grant.state != "revoked"]


COMMANDS = (
    Command("inbox", "show the requests that need a decision, from any kernel", _inbox, tells_waiting=True),
    Command(
        _USAGE,
        "decide a request by typing; by default, the oldest one",
        _decide,
        (_waiting_words,),
        whole_line=True,
        tells_waiting=True,
    ),
    Command(
        "grants [revoke ID]",
        "list standing approvals, or revoke one",
        _grants,
        (_grant_words,),
    ),
    Command(
        "looking [on|off]",
        "let the model look at data without asking, in this session",
        _looking,
        ("on", "off"),
    ),
    Command(
        "review NAME",
        "review a stored operation or handler that is not active or not reviewed",
        _review,
        (_quarantined_words,),
    ),
    Command(
        "trust [revoke NAME]",
        "list active code that you approved, or revoke an approval",
        _trust,
        (_trust_words,),
    ),
    Command(
        "record [--all]",
        "write the decisions since this kernel started to the lock file",
        _record,
        ("--all",),
    ),
)
