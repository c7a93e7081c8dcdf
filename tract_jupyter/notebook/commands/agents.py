"""The commands of `%tract` about agents: the tree, one agent, actions on agents, and agents of other programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AgentError, OperationError, nearest
from tract_jupyter.models import brief_repr
from tract_jupyter.notebook.commands.command import Command, arguments
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tract_jupyter.agents import Agent, AgentCall, Agents
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.session import NotebookSession

_USAGE = "agents [NAME | show NAME [N] | stop [NAME] | resume NAME [N] | retire NAME | adopt PATH | promote NAME PATH]"
_ENDING = ".agent"
_MOST_FILES = 50


def _agents(notebook: NotebookSession, words: list[str]) -> Any:
    if not words:
        return _tree(notebook)
    verb, *rest = words
    run = _RUN.get(verb)
    if run is not None:
        return run(notebook, rest)
    if len(words) == 1:
        return _page(notebook, verb)
    raise OperationError(f"%tract agents has no {verb!r}.{nearest(verb, _RUN)} Usage: %tract {_USAGE}")


def _tree(notebook: NotebookSession) -> Any:
    from tract_jupyter.notebook.agents.live import LiveTree
    from tract_jupyter.notebook.agents.tree import drawn_tree

    watch = notebook.agent_watch
    if not notebook.front_end.can_click:
        return drawn_tree(watch)
    if notebook.agent_tree is not None:
        notebook.agent_tree.leave()
    notebook.agent_tree = LiveTree(watch)
    notebook.agent_tree.put_up()
    return None


def _page(notebook: NotebookSession, name: str) -> Any:
    from tract_jupyter.notebook.agents.tree import AgentPage

    agents = notebook.tract.agents
    agent, is_past = _find_agent(agents, name)
    return AgentPage(notebook.agent_watch, agent, agents.calls_of(name), is_past=is_past)


def _show(notebook: NotebookSession, words: list[str]) -> DrawnTurn:
    from tract_jupyter.notebook.chat.source import agent_turn

    name, number = _name_and_number("agents show NAME [N]", words)
    agents = notebook.tract.agents
    call = _calls(agents, name, number)[-1]
    turn = agent_turn(notebook.tract, call)
    if turn is None:
        raise OperationError(f"{call.branch} of {name!r} ended before a request to its model")
    return turn


def _stop(notebook: NotebookSession, words: list[str]) -> GridView:
    if len(words) > 1:
        raise OperationError(f"usage: %tract agents stop [NAME]; got stop {' '.join(words)}")
    agents = notebook.tract.agents
    name = words[0] if words else None
    if name is not None:
        _active_agent(agents, name)
    agents.stop(name)
    return GridView("Agents", (f"{name or 'All agents'} {'is' if name else 'are'} stopping.",))


def _resume(notebook: NotebookSession, words: list[str]) -> Coroutine[Any, Any, None]:
    """Resume a call. `extension.await_waiting_cells` awaits the line."""
    from tract_jupyter.notebook.agents.live import resume

    name, number = _name_and_number("agents resume NAME [N]", words)
    unfinished = [call for call in _calls(notebook.tract.agents, name, number) if call.state.is_open]
    if not unfinished:
        raise OperationError(
            f"{name!r} has no unfinished call. %tract agents show {name} shows its last call"
        )
    return resume(notebook, unfinished[-1])


def _retire(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("agents retire NAME", words, 1, 1)
    agents = notebook.tract.agents
    _active_agent(agents, name)
    agents.retire(name)
    return GridView("Agents", (f"Retired {name}. Its calls can still be read: %tract agents {name}",))


def _adopt(notebook: NotebookSession, words: list[str]) -> None:
    from tract_jupyter.agents import PendingAdoption

    (name,) = arguments("agents adopt PATH", [" ".join(words)] if words else [], 1, 1)
    tract = notebook.tract
    path = notebook.path_of(name).absolute()
    tract.reviewer.show(PendingAdoption(tract.agents, path))


def _promote(notebook: NotebookSession, words: list[str]) -> GridView:
    name, *rest = arguments("agents promote NAME PATH", words, 2, len(words) + 2)
    place = " ".join(rest)
    agents = notebook.tract.agents
    _active_agent(agents, name)
    path = agents.promote(name, place)
    return GridView(
        "Agents",
        (
            f"Wrote {name} to {path.name}.",
            f"%tract agents adopt {place} makes it available from there, also in later sessions.",
        ),
    )


_RUN: dict[str, Callable[[NotebookSession, list[str]], Any]] = {
    "show": _show,
    "stop": _stop,
    "resume": _resume,
    "retire": _retire,
    "adopt": _adopt,
    "promote": _promote,
}


def _name_and_number(usage: str, words: list[str]) -> tuple[str, int | None]:
    if len(arguments(usage, words, 1, 2)) == 1:
        return words[0], None
    text = words[1].removeprefix("call-")
    if not text.isdecimal() or int(text) == 0:
        raise OperationError(f"Invalid call number {words[1][:40]!r}. Use a number such as 1")
    return words[0], int(text)


def _calls(agents: Agents, name: str, number: int | None) -> list[AgentCall]:
    """Return the calls of an agent, or the call with a number. There is at least one."""
    _find_agent(agents, name)
    calls = agents.calls_of(name)
    if not calls:
        raise OperationError(f"{name!r} was not called yet. %tract agents lists the agents")
    matches = [call for call in calls if number in (None, call.number)]
    if not matches:
        numbers = ", ".join(str(call.number) for call in calls[-10:])
        raise OperationError(f"{name!r} has no call {number}; it has {numbers}")
    return matches


def _active_agent(agents: Agents, name: str) -> Agent:
    match = next((agent for agent in agents if agent.name == name), None)
    if match is None:
        raise _unknown(agents, name)
    return match


def _find_agent(agents: Agents, name: str) -> tuple[Agent, bool]:
    """Return an agent, and True if it belongs to an earlier session."""
    active = next((agent for agent in agents if agent.name == name), None)
    if active is not None:
        return active, False
    past = next((agent for agent in agents.past() if agent.name == name), None)
    if past is None:
        raise _unknown(agents, name)
    return past, True


def _unknown(agents: Agents, name: str) -> OperationError:
    names = [agent.name for agent in agents]
    past = [agent.name for agent in agents.past()]
    if name in past:
        return OperationError(
            f"{name!r} belongs to an earlier session and is not active. %tract agents {name} shows it"
        )
    near = nearest(name, [*names, *past, *_RUN])
    return OperationError(f"there is no agent {name[:80]!r}.{near} %tract agents lists them")


def _words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    agents = notebook.tract.agents
    completions = [(agent.name, "agent") for agent in agents]
    if not typed:
        return [
            *((verb, "command") for verb in _RUN),
            *completions,
            *((past.name, "agent") for past in agents.past()),
        ]
    verb, *rest = typed
    if verb == "adopt" and not rest:
        return [(name, "file") for name in _files(notebook.path_of("."))]
    if rest or verb not in _RUN:
        return _numbers(agents, rest) if verb in {"show", "resume"} and len(rest) == 1 else []
    if verb in {"show", "resume"}:
        completions += [(agent.name, "agent") for agent in agents.past()]
    return completions


def _numbers(agents: Agents, rest: list[str]) -> list[tuple[str, str]]:
    try:
        return [(str(call.number), "call") for call in agents.calls_of(rest[0])]
    except AgentError:
        return []


def _files(folder: Path) -> list[str]:
    files = [*folder.glob(f"*{_ENDING}"), *folder.glob(f"*/*{_ENDING}")]
    return sorted(str(path.relative_to(folder)) for path in files[:_MOST_FILES])


# --- agents of other programs

_OUTSIDE_USAGE: Final = "agent [use NAME [--command LINE] [--env VARIABLE ...] | stop]"


def _outside(notebook: NotebookSession, words: list[str]) -> GridView:
    match words:
        case []:
            return _outside_state(notebook)
        case ["use", name, "--command", line, *rest] if _is_env(rest):
            return _use_outside(notebook, name, _env_names(rest), line)
        case ["use", name, *rest] if _is_env(rest):
            return _use_outside(notebook, name, _env_names(rest))
        case ["stop"]:
            notebook.outside_agent = ""
            names = notebook.tract.outside.stop()
            ended = f"Ended: {', '.join(names)}." if names else "No outside agent was running."
            return GridView("Outside agents", (f"{ended} %%tract_chat sends messages to the model.",))
        case _:
            raise OperationError(f"usage: %tract {_OUTSIDE_USAGE}; got agent {brief_repr(' '.join(words))}")


def _is_env(words: list[str]) -> bool:
    return not words or (words[0] == "--env" and len(words) > 1)


def _env_names(words: list[str]) -> list[str]:
    """Return the variables of `--env A B` or of `--env A --env B`."""
    return [word for word in words if word != "--env"]


def _use_outside(notebook: NotebookSession, name: str, env: list[str], command: str = "") -> GridView:
    settings = notebook.tract.outside.use(name, env=env, command=command)
    notebook.outside_agent = name
    text = f"%%tract_chat sends messages to {settings.title} until %tract agent stop."
    unset = [
        f"{one} is not set in this kernel, so the agent does not get it."
        for one in env
        if one not in os.environ
    ]
    return GridView(
        settings.title, tuple(filter(None, (text, settings.why_no_program, *unset, settings.about)))
    )


def _outside_state(notebook: NotebookSession) -> GridView:
    from tract_jupyter.outside import AGENTS

    name = notebook.outside_agent
    lines = [f"%%tract_chat sends messages to {name or 'the model'}."]
    lines += [f"{one.name}: {one.title}. {one.about}" for one in AGENTS]
    return GridView("Outside agents", tuple(lines))


def _outside_words(_: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    from tract_jupyter.outside import AGENTS

    if not typed:
        return [(word, "option") for word in ("use", "stop")]
    return [(one.name, "agent") for one in AGENTS] if typed == ["use"] else []


COMMANDS = (
    Command(
        _USAGE,
        "show the agents, live, with their usage and budgets; read, stop, resume, retire, adopt or promote one",
        _agents,
        (_words,),
    ),
    Command(
        _OUTSIDE_USAGE,
        "let Claude Code, Codex or another agent work on messages",
        _outside,
        (_outside_words,),
    ),
)
