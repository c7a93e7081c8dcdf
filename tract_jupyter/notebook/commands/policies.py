"""The command of `%tract` about policies."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, TractError, nearest
from tract_jupyter.models import Trigger, canonical_json, cut
from tract_jupyter.notebook.commands.command import Command, arguments, no_arguments
from tract_jupyter.notebook.views.html import Grid, GridView, ago
from tract_jupyter.policy import policy_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.session import NotebookSession

_USAGE = "policies [on NAME | off NAME | add TYPE KEY=VALUE... | remove NAME | log | now]"
_LONGEST, _HASH = 80, 64  # characters


def _policies(notebook: NotebookSession, words: list[str]) -> GridView:
    if not words:
        return _list(notebook)
    verb, rest = words[0], words[1:]
    run = _RUN.get(verb)
    if run is None:
        raise OperationError(f"%tract policies has no {verb!r}.{nearest(verb, _RUN)} Usage: %tract {_USAGE}")
    return run(notebook, rest)


def _list(notebook: NotebookSession, *notes: str) -> GridView:
    policies = notebook.tract.policies
    now = datetime.now(UTC)
    rows = tuple(
        (
            row.name,
            row.type,
            ", ".join(row.fires_on),
            str(row.priority),
            row.state,
            "" if row.last_fired is None else ago(row.last_fired, now),
            row.last_outcome,
        )
        for row in policies.list()
    )
    lines = list(notes)
    lines += [f"{row.name}: {row.missing}" for row in policies.list() if row.missing]
    if policies.is_paused:
        lines.append("Paused in this notebook. tract.policies.resume() continues.")
    if not rows:
        lines.append("None yet. '%tract policies add compress' adds one.")
    heads = ("Policy", "Type", "Evaluated on", "Priority", "State", "Last fired", "Outcome")
    title = f"Policies, autonomy at most {notebook.tract.autonomy.ceiling}"
    return GridView(
        title, tuple(lines), (Grid(heads, rows, code=frozenset({"Policy"}), right=frozenset({"Priority"})),)
    )


def _on(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("policies on NAME", words, 1, 1)
    notebook.tract.policies.on(name)
    return _list(notebook)


def _off(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("policies off NAME", words, 1, 1)
    notebook.tract.policies.off(name)
    return _list(notebook)


def _remove(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("policies remove NAME", words, 1, 1)
    notebook.tract.policies.remove(name)
    return _list(notebook, f"Removed {name}.")


def _add(notebook: NotebookSession, words: list[str]) -> GridView:
    if not words:
        raise OperationError(
            f"usage: %tract policies add TYPE KEY=VALUE...; the types are {', '.join(policy_types())}"
        )
    config = dict(map(_setting, words[1:]))
    name = config.pop("name", "")
    if not isinstance(name, str):
        raise OperationError(f"Invalid policy name {name!r}. Use a text")
    policy = notebook.tract.policies.add(words[0], name=name, **config)
    return _list(notebook, f"Added {policy}.")


def _setting(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or not key.isidentifier() or key in {"on", "policy"}:
        raise OperationError(f"Invalid setting {word!r}. Use KEY=VALUE, such as threshold=0.8")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _log(notebook: NotebookSession, words: list[str]) -> GridView:
    no_arguments("policies log", words)
    now = datetime.now(UTC)
    rows = tuple(
        (
            ago(event.created_at, now),
            str(event.data.get("name", "")),
            event.event_type.removeprefix("policy."),
            str(event.data.get("action") or ""),
            str(event.data.get("error") or event.data.get("reason") or ""),
        )
        for event in notebook.tract.policies.log(50)
    )
    lines = () if rows else ("No policy has fired yet.",)
    return GridView(
        "Actions of policies", lines, (Grid(("When", "Policy", "Outcome", "Action", "Why"), rows),)
    )


def _now(notebook: NotebookSession, words: list[str]) -> GridView:
    no_arguments("policies now", words)
    rows = tuple(
        (proposal.name, proposal.would, proposal.action, _short(proposal.params), proposal.reason)
        for proposal in notebook.tract.policies.preview()
    )
    lines = ("This preview changes nothing.",) if rows else ("No policy is on.",)
    heads = ("Policy", "Would", "Action", "With", "Why")
    return GridView("Current proposals of policies", lines, (Grid(heads, rows, code=frozenset({"With"})),))


def _short(params: Any) -> str:
    setting = {
        key: value[:8] if isinstance(value, str) and len(value) == _HASH else value
        for key, value in params.items()
    }
    text = canonical_json(setting) if setting else ""
    return cut(text, _LONGEST)


_RUN: dict[str, Callable[[NotebookSession, list[str]], GridView]] = {
    "on": _on, "off": _off, "add": _add, "remove": _remove, "log": _log, "now": _now,
}  # fmt: skip


def _completions(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    if not typed:
        return [(verb, "verb") for verb in _RUN]
    if typed[0] == "add":
        if len(typed) == 1:
            return [(name, "type") for name in policy_types()]
        kind = policy_types().get(typed[1])
        return [] if kind is None else [(f"{key}=", "setting") for key in _settings(kind)]
    if typed[0] in {"on", "off", "remove"} and len(typed) == 1:
        return [(row.name, "policy") for row in notebook.tract.policies.list()]
    return []


def _settings(kind: Any) -> list[str]:
    try:
        return ["name", *kind().to_config()]
    except TractError:  # it needs one of its settings
        return ["name", *(field.name for field in fields(Trigger)), "autonomy"]


COMMANDS = (
    Command(
        _USAGE, "list policies, turn them on and off, and show past and current actions", _policies,
        (_completions,),
    ),
)  # fmt: skip
