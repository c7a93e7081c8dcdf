"""The commands of `%tract` about automatic work: autonomy, policies, and the runs of the orchestrator."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, TractError, nearest
from tract_jupyter.models import AutonomyLevel, Trigger, canonical_json, cut, one_line
from tract_jupyter.notebook.commands.command import Command, arguments, no_arguments
from tract_jupyter.notebook.views.html import Grid, GridView, ago

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.tract import Tract

# --- autonomy

_AUTONOMY_USAGE = "autonomy [LEVEL] [--destructive | --no-destructive]"
_MEANS = {
    AutonomyLevel.MANUAL: "policies and orchestrators report their proposals and change nothing",
    AutonomyLevel.COLLABORATIVE: "policies and orchestrators ask you before each change; they may read",
    AutonomyLevel.AUTONOMOUS: "policies and orchestrators act without asking you",
}
_ASKED = "; destructive actions still need your approval"
_DESTRUCTIVE = ", including destructive actions"


def _autonomy(notebook: NotebookSession, words: list[str]) -> GridView:
    autonomy = notebook.tract.autonomy
    options = [word for word in words if word.startswith("--")]
    levels = arguments(_AUTONOMY_USAGE, [word for word in words if not word.startswith("--")], 0, 1)
    if len(options) > 1:
        raise OperationError(f"usage: %tract {_AUTONOMY_USAGE}; got both options")
    wanted = [AutonomyLevel(level) for level in levels]  # report errors before changing a setting
    for option in options:
        autonomy.allows_destructive = option == "--destructive"
    for level in wanted:
        autonomy.ceiling = level
    ceiling = autonomy.ceiling
    more = ""
    if ceiling is AutonomyLevel.AUTONOMOUS:
        more = _DESTRUCTIVE if autonomy.allows_destructive else _ASKED
    lines = [f"{_MEANS[ceiling].capitalize()}{more}."]
    limit = notebook.tract.orchestrator.config.autonomy_ceiling
    if limit.rank < ceiling.rank:
        lines.append(
            f"The settings of the orchestrator limit it to the level {limit}. To raise it: tract.orchestrator.config = "
            f"OrchestratorConfig(autonomy_ceiling={ceiling.value!r}), or --autonomy for one run."
        )
    return GridView(f"Autonomy: {ceiling}", tuple(lines))


def _levels(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:  # noqa: ARG001 # the same everywhere
    return [] if typed else [(level.value, "level") for level in AutonomyLevel]


# --- policies

_POLICIES_USAGE = "policies [on NAME | off NAME | add TYPE KEY=VALUE... | remove NAME | log | now]"
_LONGEST, _HASH = 80, 64  # characters


def _policies(notebook: NotebookSession, words: list[str]) -> GridView:
    if not words:
        return _policy_list(notebook)
    verb, rest = words[0], words[1:]
    run = _POLICY_VERBS.get(verb)
    if run is None:
        raise OperationError(
            f"%tract policies has no {verb!r}.{nearest(verb, _POLICY_VERBS)} Usage: %tract {_POLICIES_USAGE}"
        )
    return run(notebook, rest)


def _policy_list(notebook: NotebookSession, *notes: str) -> GridView:
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


def _change(notebook: NotebookSession, words: list[str], *, verb: str) -> GridView:
    (name,) = arguments(f"policies {verb} NAME", words, 1, 1)
    getattr(notebook.tract.policies, verb)(name)
    return _policy_list(notebook, *([f"Removed {name}."] if verb == "remove" else []))


def _add(notebook: NotebookSession, words: list[str]) -> GridView:
    from tract_jupyter.policy import policy_types  # `%tract autonomy` does not need it

    if not words:
        raise OperationError(
            f"usage: %tract policies add TYPE KEY=VALUE...; the types are {', '.join(policy_types())}"
        )
    config = dict(map(_setting, words[1:]))
    name = config.pop("name", "")
    if not isinstance(name, str):
        raise OperationError(f"Invalid policy name {name!r}. Use a text")
    policy = notebook.tract.policies.add(words[0], name=name, **config)
    return _policy_list(notebook, f"Added {policy}.")


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


_POLICY_VERBS: dict[str, Callable[[NotebookSession, list[str]], GridView]] = {
    "on": partial(_change, verb="on"), "off": partial(_change, verb="off"), "add": _add,
    "remove": partial(_change, verb="remove"), "log": _log, "now": _now,
}  # fmt: skip


def _policy_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    from tract_jupyter.policy import policy_types

    if not typed:
        return [(verb, "verb") for verb in _POLICY_VERBS]
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


# --- the orchestrator

_ORCHESTRATOR_USAGE = "orchestrator [show [RUN]]"
_MOST = 20
_SAID = 60


def _orchestrator(notebook: NotebookSession, words: list[str]) -> Any:
    what, *rest = words or [""]
    if what == "show" and len(rest) <= 1:
        from tract_jupyter.notebook.orchestration.log import stored_run

        return stored_run(notebook.tract, *rest)
    if words:
        raise OperationError(f"usage: %tract {_ORCHESTRATOR_USAGE}; got orchestrator {' '.join(words)}")
    return _runs(notebook.tract)


def _runs(tract: Tract) -> GridView:
    orchestrator = tract.orchestrator
    config, names = orchestrator.config, orchestrator.runs()
    level = tract.autonomy.effective(config.autonomy_ceiling)
    settings = f"Highest level {level}, at most {config.max_steps:,} calls per run."
    if not names:
        return GridView("Orchestrator", (settings, "No runs yet: %tract_orchestrate begins one."))
    now = datetime.now(UTC)
    rows = tuple(_run_row(tract, name, now) for name in reversed(names[-_MOST:]))
    more = f" The newest {_MOST} of {len(names):,}." if len(names) > _MOST else ""
    heads = ("Run", "When", "Why", "Level", "Calls", "Outcome", "Model")
    grid = Grid(heads, rows, code=frozenset({"Run"}), right=frozenset({"Calls"}))
    return GridView(
        "Orchestrator", (settings, f"%tract orchestrator show RUN draws one again.{more}"), (grid,)
    )


def _run_row(tract: Tract, name: str, now: datetime) -> tuple[str, ...]:
    from tract_jupyter.notebook.orchestration.log import StepPart, conversation, run_log

    with conversation(tract.orchestrator, name) as (conversation_tract, turn):
        if turn is None:
            return (name, "", "", "", "", "ended before a request to its model", "")
        log = run_log(tract, conversation_tract, turn)
        view = log.view()
        calls = sum(isinstance(part, StepPart) for part in view.parts)
        return (
            name,
            ago(turn.at, now).replace(" ", "\N{NO-BREAK SPACE}"),
            one_line(log.reason, _SAID),
            log.level.value,
            f"{calls:,}" if calls else "",
            view.summary,
            one_line(view.model, 40),
        )


def _run_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    if not typed:
        return [("show", "command")]
    if typed == ["show"]:
        return [(name, "run") for name in reversed(notebook.tract.orchestrator.runs()[-_MOST:])]
    return []


COMMANDS = (
    Command(
        _AUTONOMY_USAGE,
        "show or set what policies and orchestrators may do without you",
        _autonomy,
        (_levels, "--destructive", "--no-destructive"),
    ),
    Command(
        _POLICIES_USAGE,
        "list policies, turn them on and off, and show past and current actions",
        _policies,
        (_policy_words,),
    ),
    Command(
        _ORCHESTRATOR_USAGE,
        "list the runs of the orchestrator, or draw one again",
        _orchestrator,
        (_run_words,),
    ),
)
