"""The commands of `%tract` about language models: their choice, costs, budgets, cassettes and forks."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.llm import EXAMPLE, MODEL_OPERATIONS, PROVIDERS, served_models
from tract_jupyter.models import counted, one_line, parse_message
from tract_jupyter.notebook.commands.command import (
    Command,
    arguments,
    commit_words,
    hidden_input,
    limit,
    option,
    option_value,
)
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from tract_jupyter.llm import CostReport, ModelConnection, Provider
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import Costs, ForkTable
    from tract_jupyter.tract import Tract

_MODEL_USAGE: Final = "model [PROVIDER/NAME | NAME --base-url URL | off] [--for PURPOSE] [--key] [--local]"
_BUDGET_USAGE: Final = "budget [N USD | N tokens | off]"
_OFF: Final = "off"
_QUESTION: Final = 60

# --- the choice of models


def _model(notebook: NotebookSession, words: list[str]) -> GridView:
    purpose, rest = _value_of(words, "--for", "a purpose")
    base_url, rest = _value_of(rest, "--base-url", "an address")
    asks_key, rest = option(rest, "--key")
    is_local, rest = option(rest, "--local")
    models = notebook.tract.models
    if not rest and not (purpose or base_url or asks_key):
        return _overview(notebook.tract, is_local=is_local)
    if len(rest) != 1 or is_local:
        raise OperationError(f"usage: %tract {_MODEL_USAGE}; such as %tract model {EXAMPLE}")
    operation: Any = purpose
    if rest == [_OFF]:
        models.use(None, operation=operation)
        off = (
            f"Requests for {purpose} go to the model for everything else."
            if purpose
            else "No model is chosen now."
        )
        return GridView("Models", (off,), (_chosen_grid(notebook.tract),))
    before, costs = models.connection("chat"), notebook.tract.costs
    lost = 0 if before is None else costs.of_rewrite().replies
    chosen = models.use(rest[0], operation=operation, base_url=base_url)
    if asks_key:
        chosen = models.use(rest[0], operation=operation, base_url=base_url, api_key=_typed_key(rest[0]))
    lines: tuple[str, ...] = ()
    if before is not None and before != models.connection("chat"):
        cost = replace(costs.of_rewrite(), replies=lost)  # at the price of the new one
        lines = (f"With another model than before, {cost}.",) if cost else ()
    return GridView(
        "Models",
        (*_advice(chosen, is_kept=not (purpose or base_url)), *lines),
        (_chosen_grid(notebook.tract),),
    )


def _value_of(words: list[str], name: str, what: str) -> tuple[str | None, list[str]]:
    """Return the word after an option, and the other words. The value is None without the option."""
    value, rest = option_value(words, name)
    if value is not None and (not value or value.startswith("--")):
        raise OperationError(f"{name} needs {what}. Usage: %tract {_MODEL_USAGE}")
    return value, rest


def _typed_key(model: str) -> str:
    """Ask for a key. It stays in this kernel only."""
    otherwise = "The model is chosen, with its key from the environment or the system's keyring"
    key = hidden_input(f"Key for {model}", otherwise)
    if not key:
        raise OperationError(f"no key was typed. {otherwise}")
    return key


def _advice(chosen: ModelConnection | None, *, is_kept: bool) -> tuple[str, ...]:
    """Return how to set a missing key, and how to keep the choice."""
    if chosen is None:
        return ()
    advice = "Until the kernel ends."
    if is_kept:
        advice += f" For every kernel, set c.TractJupyter.model = {chosen.name!r} in ipython_config.py."
    if chosen.key is None or not chosen.key.needed or chosen.key.is_set:
        return (advice,)
    return (f"There is no key yet: %tract model {chosen.name} --key asks for it.", advice)


def _overview(tract: Tract, *, is_local: bool) -> GridView:
    nothing = "No model is chosen yet." if None not in tract.models.purposes else ""
    lines = (
        f"%tract model {EXAMPLE} chooses a model, --for compress only for summaries. --key asks for its key."
    )
    grids = [_chosen_grid(tract), _registered(tract), _providers()]
    return GridView(
        "Models", tuple(filter(None, (nothing, lines))), (*grids, *([_local_models()] if is_local else []))
    )


def _chosen_grid(tract: Tract) -> Grid:
    models, purposes = tract.models, tract.models.purposes
    rows = []
    for purpose in sorted(purposes, key=lambda purpose: purpose or ""):
        options = {} if purpose is None else models.options(purpose)
        settings = ", ".join(f"{name}={value}" for name, value in options.items())
        others = "everything else" if len(purposes) > 1 else "everything"
        for_what = purpose or others
        rows.append((for_what, *_connection_row(purposes[purpose]), settings))
    heads = ("For", "Model", "Where", "Key", "Settings")
    return Grid(heads, tuple(rows), "Chosen", code=frozenset({"Model"}))


def _connection_row(connection: ModelConnection) -> tuple[str, str, str]:
    key = connection.key
    where = "" if key is None else str(key)
    return (
        connection.name or connection.model or connection.place,
        connection.place,
        where if key is None or key.is_set else f"{where}: not set" if key.needed else "none needed",
    )


def _registered(tract: Tract) -> Grid:
    rows = tuple(
        (name, *_connection_row(model)[1:], model.model or "") for name, model in tract.models.items()
    )
    return Grid(
        ("Name", "Where", "Key", "Model"), rows, "Registered with tract.models.add", code=frozenset({"Name"})
    )


def _providers() -> Grid:
    rows = tuple((f"%tract model {p.example_model}", _key_state(p), p.address()) for p in PROVIDERS.values())
    return Grid(("Type", "Key", "Where"), rows, "Available", code=frozenset({"Type"}))


def _key_state(provider: Provider) -> str:
    key = provider.key_source()
    if key.is_set:
        return f"from {key}"
    return f"{' or '.join(key.variables)} is not set" if provider.needs_key else "none needed"


def _local_models() -> Grid:
    ollama = PROVIDERS["ollama"]
    served = served_models(ollama.address())
    rows = tuple((f"%tract model ollama/{name}",) for name in served or ())
    title = f"Ollama at {ollama.address()}" + ("" if served is not None else " does not answer")
    return Grid(("Type",), rows or (("",),), title, code=frozenset({"Type"}))


def model_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    """Return the words that may follow in a line that chooses a model."""
    if typed[-1:] == ["--for"]:
        return [(word, "purpose") for word in MODEL_OPERATIONS]
    if any(not word.startswith("-") for word in typed):
        return []
    return [
        *((name, "model") for name in notebook.tract.models),
        *((provider.example_model, "model") for provider in PROVIDERS.values()),
    ]


# --- money


def _cost(notebook: NotebookSession, words: list[str]) -> GridView:
    costs = notebook.tract.costs
    if words and not words[0].isdecimal():
        return _reply_cost(costs, *arguments("cost COMMIT", words, 1, 1))
    report, turns = costs(), costs.turns(limit("cost", words))
    budget = f"Budget: {report.budget}" if report.budget is not None else ""
    unpriced = sorted({line.model for line in report.unknown})
    unknown = (
        f"The price of {', '.join(unpriced)} is unknown. To set it: tract.models.price({unpriced[0]!r}, input=..., "
        "output=...), in US dollars per million tokens."
        if unpriced
        else ""
    )
    rows = tuple(
        (one_line(parse_message(turn.text)[1], _QUESTION), *_figures(turn.report))
        for turn in turns
        if turn.report.lines
    )
    grids = (
        Grid(_HEADS, _lines(report), "This session", code=frozenset({"Model"}), right=_RIGHT),
        Grid(("Turn", *_FIGURES), rows, "Turns of this branch, the newest first", right=_RIGHT),
    )
    return GridView("Cost", tuple(filter(None, (f"This session: {report}.", budget, unknown))), grids)


def _reply_cost(costs: Costs, commit: str) -> GridView:
    report = costs.of(commit)
    about = (
        f"{commit}: {report}."
        if report.lines
        else f"{commit} has no token counts. It is not a reply, or its provider reported none."
    )
    return GridView(
        "Cost",
        (about,),
        (Grid(_HEADS, _lines(report), "This reply", code=frozenset({"Model"}), right=_RIGHT),),
    )


_FIGURES: Final = ("Requests", "Input", "From cache", "Output", "Cost")
_HEADS: Final = ("Model", "For", *_FIGURES)
_RIGHT: Final = frozenset(_FIGURES)


def _lines(report: CostReport) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            line.model,
            line.operation,
            f"{line.requests:,}",
            _tokens(line.input_tokens, line.is_estimate),
            _tokens(line.cached_tokens, line.is_estimate) if line.cached_tokens else "",
            _tokens(line.output_tokens, line.is_estimate),
            "price unknown" if line.cost is None else str(line.cost),
        )
        for line in report.lines
    )


def _figures(report: CostReport) -> tuple[str, ...]:
    lines, about = report.lines, report.is_estimate
    cached = sum(line.cached_tokens for line in lines)
    return (
        f"{report.requests:,}",
        _tokens(sum(line.input_tokens for line in lines), about),
        _tokens(cached, about) if cached else "",
        _tokens(sum(line.output_tokens for line in lines), about),
        "price unknown" if report.cost is None else str(report.cost),
    )


def _tokens(number: int, is_estimate: bool) -> str:  # noqa: FBT001 # a figure and how sure it is
    return f"{'≈' if is_estimate else ''}{number:,}"


_BUDGET: Final = re.compile(
    r"(?i)(?P<dollar>\$)?(?P<number>\d[\d_,]*(\.\d+)?|\.\d+)\s*(?P<unit>usd|tokens?)?"
)


def _budget(notebook: NotebookSession, words: list[str]) -> GridView:
    costs = notebook.tract.costs
    if words == [_OFF]:
        costs.remove_budget()
    elif words:
        match = _BUDGET.fullmatch(" ".join(words))
        unit = (match["unit"] or ("usd" if match["dollar"] else "")).lower() if match else ""
        if match is None or not unit or (match["dollar"] and unit != "usd"):
            raise OperationError(
                f"usage: %tract {_BUDGET_USAGE}, such as %tract budget 2 USD or %tract budget 50000 tokens"
            )
        number = Decimal(match["number"].replace(",", "").replace("_", ""))
        if unit == "usd":
            costs.set_budget(usd=number)
        else:
            costs.set_budget(tokens=int(number))
    report = costs()
    if report.budget is None:
        text = (
            "There is no budget. %tract budget 2 USD or %tract budget 50000 tokens sets one for this session."
        )
    else:
        text = f"This session may spend {report.budget}. A request that could exceed it is not sent."
    unpriced = sum(line.requests for line in report.unknown)
    besides = f"{counted(unpriced, 'request')} had no known price." if unpriced else ""
    return GridView("Budget", tuple(filter(None, (text, f"So far: {report}.", besides))))


# --- cassettes

_CASSETTE_USAGE: Final = "cassette [record FILE [--replace] | replay FILE | stop]"
_REPLAYED: Final = "All replies come from the cassette. No request goes to a model, function or server."
_NO_CASSETTE: Final = (
    "No cassette is active. %tract cassette record talk.cassette.jsonl records all requests to models and "
    "calls of tools from now on. %tract cassette replay talk.cassette.jsonl, in the first cell, replays them."
)


def _cassette(notebook: NotebookSession, words: list[str]) -> GridView:
    replaces, rest = option(words, "--replace")
    match rest:
        case ["record", path]:
            notebook.tract.cassette.record(notebook.path_of(path), replace=replaces)
            text = "Requests to models and calls of tools are recorded until %tract cassette stop, or the kernel ends."
            return GridView(f"Recording {path}", (text,))
        case ["replay", path] if not replaces:
            notebook.open_for_replay(notebook.path_of(path))
            return GridView(
                f"Replaying {path}",
                (_REPLAYED,),
            )
        case ["stop"] if not replaces:
            report = notebook.tract.cassette.stop()
        case [] if not replaces:
            report = notebook.tract.cassette.report
        case _:
            raise OperationError(f"usage: %tract {_CASSETTE_USAGE}; got cassette {' '.join(words)}")
    return GridView("Cassette", (_NO_CASSETTE if report is None else str(report),))


def _cassette_words(_: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    return [] if typed else [(word, "option") for word in ("record", "replay", "stop")]


# --- forks

_FORK_USAGE: Final = "fork [COMMIT] [--model NAME] [--agent NAME] [--name NAME] [-- PROMPT]"
_FORK_OPTIONS: Final = {"--model": "model", "--agent": "agent", "--name": "name", "--": "prompt"}


def _fork(notebook: NotebookSession, words: list[str]) -> ForkTable:
    """Make a fork, and list all forks. Without arguments, only list them."""
    given: dict[str, Any] = {}
    rest = words
    for word, name in _FORK_OPTIONS.items():
        value, rest = option_value(rest, word)
        given |= {} if value is None else {name: value}
    if len(rest) > 1 or not all(given.values()):
        raise OperationError(f"usage: %tract {_FORK_USAGE}; got fork {' '.join(words)}")
    if words:
        notebook.tract.fork(*rest, **given)
    return notebook.tract.forks()


COMMANDS = (
    Command(
        _MODEL_USAGE,
        "choose the language model; without a name, list chosen and available models",
        _model,
        (model_words, "--for", "--base-url", "--key", "--local"),
    ),
    Command(
        "cost [N | COMMIT]",
        "show the usage and cost of this session and the newest turns, or of a reply",
        _cost,
    ),
    Command(_BUDGET_USAGE, "limit what this session may spend on models", _budget, (_OFF,)),
    Command(
        _CASSETTE_USAGE,
        "record all traffic with models and tools to a file, or replay it",
        _cassette,
        (_cassette_words,),
    ),
    Command(
        _FORK_USAGE,
        "continue from a commit with another model, agent or prompt, on a branch; list the forks",
        _fork,
        (commit_words, "--model", "--agent", "--name"),
    ),
)
