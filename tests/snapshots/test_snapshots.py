"""Texts that users see, compared with the files of this folder."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.notebook.conftest import Shell, bare_shell, shell
from tests.reference import PAGE
from tests.snapshots import errors
from tests.snapshots.requests import DEFINITION, KINDS, Kind
from tests.snapshots.stable import check, outline, stable
from tests.toolkit.servers import command
from tract_jupyter import Tract
from tract_jupyter.exceptions import PendingStateError
from tract_jupyter.models import canonical_json
from tract_jupyter.notebook.panels import panel_data, record_html
from tract_jupyter.review import Answer, record_text, request_text, request_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.review import Ticket

__all__ = ["bare_shell", "shell"]


IPYTHON = {"In", "Out", "exit", "quit", "open", "get_ipython"}
COMPLETION_SETUP = (
    DEFINITION,
    "first = tract.user('Seven ducks.')\ntract.branch('side')\nbirds = 7",
    "tract.agents.create('counter', 'Count.', 'Counts')",
    "tract.policies.add('compress', threshold=0.8)",
)
COMPLETED = (
    "%tract_fire ",
    "%tract_fire citation_check ",
    "%tract_fire citation_check urls=[] ",
    "x = %tract_fire cit",
    "%tract log --",
    "%tract merge s",
    "%tract agents stop ",
    "%tract policies on ",
    "%tract model open",
    "%tract rules TJ50",
    "%%tract_chat --vars ",
    "%%tract_chat --profile ",
    "%%tract_agent counter --tools ",
    "%%tract_agent counter --model ",
    "%tract_orchestrate --autonomy ",
    "%tract_orchestrate --profile ",
    "%%tract_run --profile ",
)
OPEN = "open"
REQUESTS = [(kind, state) for kind in KINDS for state in (OPEN, *kind.states)]


def ask(shell: Shell, kind: Kind) -> Ticket:
    """Run the cells of a kind, and show the request that they leave open."""
    for cell in kind.cells:
        result = shell.run(cell.replace("{server}", repr(command("liar", "plain"))))
    tract = shell.namespace["tract"]
    waiting = tract.review.inbox()
    assert waiting, f"{kind.name} asks nothing: {result}"
    pending = tract.reviewer.asked_here(waiting[-1].pending_id) or tract.operations.rebuild(waiting[-1])
    return tract.reviewer.show(pending)


def decide(ticket: Ticket, action: str, arguments: dict[str, Any]) -> None:
    """Take an action, as a click on the panel does, or let the time for it run out."""
    if action == "expire":
        ticket.pending.timeout, ticket.pending.on_timeout = 60, "deny"
        ticket.pending.created_at -= timedelta(minutes=2)
        with contextlib.suppress(PendingStateError):
            ticket.pending.approve()
        return
    if isinstance(arguments.get("edits"), str):  # the decision of the first conflict, whose name is a hash
        arguments = {"edits": {next(iter(ticket.request.fields)).name: arguments["edits"]}}
    with contextlib.suppress(KeyboardInterrupt):
        ticket.submit(Answer(action, arguments, ticket.round_id, decided_by="ada"), "panel")


def panel(ticket: Ticket) -> str:
    """Return the row of the panel, with its buttons and their inputs."""
    view = panel_data(ticket)
    rows = [outline(view["headline_html"]), outline(view["risk_html"]), outline(values_html(view))]
    rows += [outline(view["effects_html"])] if view["has_effects"] else []
    return "\n".join([*rows, *(line for button in view["actions"] for line in button_lines(button))])


def values_html(view: dict[str, Any]) -> str:
    """Return the line of values as the script of the panel draws it: omitted values are last."""
    values = sorted(view["values"], key=lambda value: value["text"] == "None")
    made = [
        f'<span class="value"><code><span class="dim">{escape(value["name"])}=</span>'
        f"{escape(value['text'])}{value['more']}</code></span>"
        for value in values
    ]
    return " ".join(made) or escape(view["about"])


def button_lines(button: dict[str, Any]) -> Iterator[str]:
    yield f"[{button['label']}] {button['style']} {button['description']}"
    for group in ("parameters", "edits"):
        for one in button.get(group) or ():
            choices = f" of {one['choices']}" if one["choices"] else ""
            yield f"  {group}: {one['label']} ({one['kind']}{choices}) = {one['text']!r} {one['help'] or one['placeholder']}"
    if button.get("standing"):
        yield f"  standing approval: {button['standing']}"


def without_empty(value: Any) -> Any:
    """Return a JSON value without empty texts, lists and objects, for the reader."""
    if isinstance(value, dict):
        return {key: without_empty(one) for key, one in value.items() if one not in ("", [], {}, None, False)}
    return [without_empty(one) for one in value] if isinstance(value, list) else value


def sections(ticket: Ticket) -> Iterator[tuple[str, str]]:
    """Yield each form of a request, with its name."""
    if ticket.status.is_open:
        yield "in a terminal", request_text(ticket.request, ticket.status)
        yield "on a panel", panel(ticket)
        stored = without_empty(json.loads(canonical_json(request_to_dict(ticket.request))))
        yield "stored", yaml.safe_dump(stored, allow_unicode=True, width=120)
    yield "in a saved notebook, as text", record_text(ticket)
    yield "in a saved notebook, as HTML", outline(record_html(ticket))


@pytest.mark.parametrize(
    ("kind", "state"), REQUESTS, ids=[f"{kind.name}-{state}" for kind, state in REQUESTS]
)
def test_requests(shell, tmp_path, monkeypatch, kind, state):
    ticket = ask(shell, kind)
    for action, arguments in kind.states.get(state, ()):
        decide(ticket, action, arguments)
    cells = [("cells", "\n".join(cell.strip("\n") for cell in kind.cells))]
    text = "\n\n".join(f"## {name}\n\n{text}" for name, text in [*cells, *sections(ticket)])
    check(f"requests/{kind.name}-{state}.txt".replace(" ", "_"), stable(text, tmp_path))


def test_help(shell):
    commands = shell.complete("%tract ")
    magics = sorted(name for name in shell.ip.magics_manager.magics["cell"] if name.startswith("tract"))
    pages = [("%tract help", shell.run("%tract help").text)]
    pages += [(f"%tract help {name}", shell.run(f"%tract help {name}").text) for name in commands]
    pages += [
        (f"%{name}?", inspect.getdoc(shell.ip.find_line_magic(name)) or "")
        for name in ("tract", "tract_fire")
    ]
    pages += [(f"%%{name}?", inspect.getdoc(shell.ip.find_cell_magic(name)) or "") for name in magics]
    check("help.txt", "\n\n".join(f"## {head}\n\n{text}" for head, text in pages))


def test_completions(shell, tmp_path):
    for cell in COMPLETION_SETUP:
        assert shell.run(cell).ok, cell
    lines = [f"%tract {name} " for name in shell.complete("%tract ")]
    lines += [f"%%{name} --" for name in shell.ip.magics_manager.magics["cell"] if name.startswith("tract")]
    blocks = [f"{line}|\n    {offered(shell, line)}" for line in ("%tract ", *sorted(lines), *COMPLETED)]
    check("completions.txt", stable("\n".join(blocks), tmp_path))


def offered(shell: Shell, line: str) -> str:
    """Return the words that the extension offers at the end of a line, without IPython's own words."""
    words = shell.complete(line)
    is_ours = "%alias" not in words
    return " ".join(word for word in words if word not in IPYTHON) if is_ours and words else "(nothing)"


def test_public_names():
    names = re.findall(r"^(?:## (.+)|\*\*`([\w.]+))", PAGE.read_text(), re.MULTILINE)
    check("names.txt", "\n".join(f"\n{head}" if head else f"  {name}" for head, name in names))


def test_errors(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    messages = []
    with Tract.open() as tract:
        scope = {"t": tract}
        exec(errors.SETUP, scope)
        for line in errors.MISTAKES.splitlines():
            messages.append(
                line if not line or line.startswith("#") else f">>> {line}\n{provoked(line, scope)}"
            )
    check("errors.txt", stable("\n".join(messages), folder))


def provoked(line: str, scope: dict[str, Any]) -> str:
    """Run a line, and return the error that it raises."""
    try:
        exec(line, scope)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    pytest.fail(f"{line} raises nothing")
