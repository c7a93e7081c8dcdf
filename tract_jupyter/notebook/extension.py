"""Load and unload the extension, and complete magics.

`unload` removes everything that `load` adds to IPython.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.error import UsageError

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import observing
from tract_jupyter.notebook.config import TractJupyter
from tract_jupyter.notebook.formatters import register, unregister
from tract_jupyter.notebook.magics import TractMagics
from tract_jupyter.notebook.options import ALL_OPTIONS
from tract_jupyter.notebook.progress import ProgressBars, progress_place
from tract_jupyter.notebook.session import LazyTools, LazyTract, NotebookSession, inject, restore, withdraw
from tract_jupyter.review import naming_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from IPython.core.interactiveshell import InteractiveShell


_ATTRIBUTE = "_tract_jupyter"
_CELLS = "tract_jupyter.cells"
"""The comm that a page opens for the cells of the notebook."""


@dataclass
class _Loaded:
    notebook: NotebookSession
    magics: TractMagics
    matcher: Callable[[Any], Any]
    names: dict[str, Any]
    until_unloaded: ExitStack
    until_greeted: ExitStack = field(default_factory=ExitStack)

    def restore_names(self, _info: object) -> None:
        """Restore `tract` and `tools` if the last cell removed them.

        After `%reset`, also end standing rules for scripts.
        """
        restore(self.notebook, self.names)
        self.notebook.end_rules_after_reset()


def load(shell: InteractiveShell) -> None:
    """Register magics, completions and settings, and add `tract` and `tools` to the namespace.

    The store stays closed.
    """
    if getattr(shell, _ATTRIBUTE, None) is not None:
        return
    config = TractJupyter(parent=shell)
    notebook = NotebookSession(shell, config)
    names, existing = inject(notebook)
    loaded = _Loaded(notebook, TractMagics(notebook), make_matcher(notebook), names, ExitStack())
    bars = ProgressBars(partial(progress_place, notebook.front_end))
    loaded.until_unloaded.enter_context(observing(bars))
    loaded.until_unloaded.enter_context(naming_cells(notebook.cell_name))
    comms = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if comms is not None:
        comms.register_target(_CELLS, notebook.connect_page)
        loaded.until_unloaded.callback(comms.unregister_target, _CELLS, notebook.connect_page)
    shell.register_magics(loaded.magics)
    register(shell)
    shell.configurables.append(config)  # type: ignore[arg-type] # IPython declares a list of shells
    shell.input_transformers_cleanup.extend((await_waiting_cells, run_questions))
    for event, callback in _events(loaded):
        shell.events.register(event, callback)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(loaded.matcher)
    setattr(shell, _ATTRIBUTE, loaded)
    if not config.quiet:
        _greet(shell, loaded, existing)
    problem = notebook.why_not_written()
    if problem:
        print(problem)  # noqa: T201 # also with `quiet`, because all further use fails


def unload(shell: InteractiveShell) -> None:
    """Remove everything that `load` added, and close the store."""
    loaded: _Loaded | None = getattr(shell, _ATTRIBUTE, None)
    if loaded is None:
        return
    loaded.until_greeted.close()
    loaded.until_unloaded.close()
    withdraw(loaded.notebook, loaded.names)
    for kind, functions in loaded.magics.magics.items():
        for name in functions:
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(type(loaded.magics).__name__, None)
    for configurable in (loaded.notebook.config, loaded.magics):
        shell.configurables.remove(configurable)  # type: ignore[arg-type] # see `load`
    for transformer in (await_waiting_cells, run_questions):
        shell.input_transformers_cleanup.remove(transformer)
    for event, callback in _events(loaded):
        shell.events.unregister(event, callback)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    unregister(shell)
    loaded.notebook.close()
    delattr(shell, _ATTRIBUTE)


def _greet(shell: InteractiveShell, loaded: _Loaded, existing: list[str]) -> None:
    """Print the greeting at the end of the cell, which may still choose another store."""

    def tell(_result: object = None) -> None:
        loaded.until_greeted.close()
        loaded.notebook.tells_store = True
        print(_greeting(loaded.notebook, list(loaded.names), existing))  # noqa: T201 # the greeting

    if getattr(shell.displayhook, "exec_result", None) is None:  # no cell loads it
        tell()
        return
    loaded.notebook.tells_store = False
    shell.events.register("post_run_cell", tell)
    loaded.until_greeted.callback(shell.events.unregister, "post_run_cell", tell)


def _events(loaded: _Loaded) -> tuple[tuple[str, Callable[[Any], None]], ...]:
    notebook, waiting = loaded.notebook, loaded.notebook.waiting
    return (
        ("pre_run_cell", loaded.restore_names),
        ("pre_run_cell", tell_of_keys),
        ("pre_run_cell", waiting.begin),
        ("post_run_cell", waiting.end),
        ("post_run_cell", notebook.turns.refresh),
        ("post_run_cell", notebook.side.cell_ended),
    )


def _greeting(notebook: NotebookSession, names: list[str], existing: list[str]) -> str:
    from tract_jupyter import __version__

    ready = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} ready" if names else "ready"
    line = (
        f"tract_jupyter {__version__}: {ready}; the context is stored in {notebook.store}. "
        "%tract help lists the commands."
    )
    for name in existing:
        setting = "tract_name" if name == notebook.config.tract_name else "tools_name"
        line += (
            f"\n{name!r} is already a variable, which stays unchanged. To use another name: "
            f"%config TractJupyter.{setting} = '{name}_'"
        )
    return line


_ASKS_A_MODEL = re.compile(r"\s*%%tract_(chat|run|propose|orchestrate)\b")


def tell_of_keys(info: Any) -> None:
    """Warn if a cell seems to contain a key. The warning does not repeat the key."""
    from tract_jupyter.llm import key_lines

    lines = key_lines(info.raw_cell or "")
    if lines:
        sent = ", and the model receives it" if _ASKS_A_MODEL.match(info.raw_cell) else ""
        print(  # noqa: T201 # a warning above the cell's output
            f"Line {lines[0]} of this cell seems to contain a key. The notebook and IPython's history store it{sent}. "
            "Revoke it at the provider, and remove it from the cell. %tract model NAME --key asks for a key "
            "without showing it."
        )


# IPython does not await the coroutine of a cell magic. So the transformer rewrites such a cell to an `await`
# expression.
_AWAITED = [one for one in ALL_OPTIONS.values() if one.waits]
_WAITING = (
    rf"%%(?P<name>(?:{'|'.join(one.magic for one in _AWAITED)})\b"
    r"|tract_operation\b(?=[^\n]*(?<!\S)--wait(?!\S)))(?!\?)"
)
_WAITING_CELL = re.compile(rf"\s*{_WAITING}(?P<line>[^\n]*)\n?")
_UNDER_ANOTHER = re.compile(
    rf"\s*%%(?P<other>time|timeit|capture|prun)\b[^\n]*\n(?:\s*%%\w+[^\n]*\n)*?\s*{_WAITING}"
)


_WAITING_LINE = re.compile(
    r"%tract[ \t]+(?:chat[ \t]+resume|agents[ \t]+resume[ \t]+(?P<agent>[^\n]*[^\s?]))[ \t]*\n?"
)
_ASKING_LINE = re.compile(
    rf"%(?P<name>{'|'.join(one.magic for one in _AWAITED if one.text_field)})\b(?!\?)[ \t]*(?P<line>[^\n]*)\n?"
)


def await_waiting_cells(lines: list[str]) -> list[str]:
    """Rewrite a cell or line that waits to an `await` expression. An input transformer of IPython."""
    under = _UNDER_ANOTHER.match("".join(lines))
    if under is not None:
        raise UsageError(
            f"%%{under['other']} cannot wait for %%{under['name']}. Remove its line. Nothing was run"
        )
    match = _WAITING_CELL.match("".join(lines))
    if match is None:
        return [_awaited(line) for line in lines]
    cell = "".join(lines)[match.end() :]
    if not cell and match["name"] in {"tract_run", "tract_chat", "tract_orchestrate"}:
        cell = "\n"  # the cell may be empty, but IPython rejects a cell magic without a body
    return [f"await get_ipython().run_cell_magic({match['name']!r}, {match['line'].strip()!r}, {cell!r})\n"]


def _awaited(line: str) -> str:
    waiting = _WAITING_LINE.fullmatch(line)
    if waiting is not None:
        resumed = "chat resume" if waiting["agent"] is None else f"agents resume {waiting['agent'].strip()}"
        return f"await get_ipython().run_line_magic('tract', {resumed!r})\n"
    asking = _ASKING_LINE.fullmatch(line)
    if asking is None:
        return line
    return f"await get_ipython().run_line_magic({asking['name']!r}, {asking['line'].strip()!r})\n"


# IPython skips such transformers when a terminal checks if a cell is complete. It would be after its first line.
await_waiting_cells.has_side_effects = True  # type: ignore[attr-defined]


_QUESTION_LINE = re.compile(r"%tract[ \t]+(?P<line>\w+[ \t]+[^\n]*\?)[ \t]*\n?")


def run_questions(lines: list[str]) -> list[str]:
    """Run a line such as `%tract fork -- And why?`. IPython takes it for a request for help."""
    matches = [_QUESTION_LINE.fullmatch(line) for line in lines]
    return [
        line if match is None else f"get_ipython().run_line_magic('tract', {match['line']!r})\n"
        for line, match in zip(lines, matches, strict=True)
    ]


# Completion of the arguments of magics: subcommands, operation names, their fields, options.
_MAGIC = re.compile(r"(?:^|=\s*|\()\s*(?P<magic>%%?tract(?:_\w+)?)\s+(?P<rest>[^\n]*)$")
_MEMBER = re.compile(r"(?<![\w.])(?P<name>\w+)\.((?P<space>\w+)\.)?(?P<token>\w*)$")


def make_matcher(notebook: NotebookSession) -> Callable[[Any], Any]:
    """Return the matcher for IPython's completer."""

    @context_matcher(identifier="tract_jupyter")
    def match(context: Any) -> Any:
        line = context.line_with_cursor[: context.cursor_position]
        token, completions = "", []
        with suppress(TractError):  # a store that cannot be opened is reported when it is used, not at Tab
            words_here = _in_cell(notebook, context.full_text, context.cursor_line, line)
            token, words = words_here or _attributes(notebook, line) or _arguments(notebook, line) or ("", [])
            completions = [
                SimpleCompletion(text=word, type=kind) for word, kind in words if word.startswith(token)
            ]
        return {
            "completions": completions,
            "matched_fragment": token,
            "suppress": bool(completions),
            "do_not_suppress": set(),
            "ordered": True,
        }

    return match  # type: ignore[no-any-return] # IPython's decorator has no types


_Found = tuple[str, "Iterable[tuple[str, str]]"]


_WRITTEN = {"%%tract_profile": "profile_cell", "%%tract_agent": "agents.cell"}
"""The cells with completions in their body, and the module of each."""
_LAST_WORD = re.compile(r"[\w.-]*$")


def _in_cell(notebook: NotebookSession, text: str, number: int, line: str) -> _Found | None:
    """Complete a line of a profile or of the front matter of an agent, both in YAML."""
    module = next((name for magic, name in _WRITTEN.items() if text.startswith(magic)), None)
    if not number or module is None:
        return None
    body_words = import_module(f"tract_jupyter.notebook.{module}").body_words
    above = text.splitlines()[1:number]
    token = _LAST_WORD.search(line)
    return "" if token is None else token[0], body_words(notebook, above, line)


def _attributes(notebook: NotebookSession, line: str) -> _Found | None:
    """Complete after `tract.`, `tools.` and `tools.<server>.`.

    IPython cannot list attributes before the store is open.
    """
    match = _MEMBER.search(line)
    if match is None:
        return None
    value = notebook.shell.user_ns.get(match["name"])
    if not isinstance(value, LazyTools if match["space"] else LazyTract | LazyTools):
        return None
    space, names = match["space"], list[str]()
    if space is None:
        names = dir(value)
    elif space in notebook.tract.executor.namespaces():
        names = dir(getattr(value, space))
    return match["token"], [(name, "function") for name in names]


def _arguments(notebook: NotebookSession, line: str) -> _Found | None:
    match = _MAGIC.search(line)
    if match is None:
        return None
    parts = match["rest"].split(" ")
    return parts[-1], _words(notebook, match["magic"], parts)


def _words(notebook: NotebookSession, magic: str, parts: list[str]) -> Iterable[tuple[str, str]]:
    if magic == "%tract":
        from tract_jupyter.notebook.commands import command_names, find_command

        if len(parts) == 1:
            return [(name, "command") for name in command_names()]
        command = find_command(parts[0])
        return command.words(notebook, parts[1:-1]) if command else ()
    options = ALL_OPTIONS.get(magic.lstrip("%"))
    if options is not None:
        return options.complete(notebook, parts)
    if magic != "%tract_fire":
        return ()
    from tract_jupyter.notebook.cell_syntax import FIRE_OPTIONS

    registry = notebook.tract.operations.registry
    if len(parts) == 1:
        return [(name, "operation") for name in sorted(registry.operation_names)]
    spec = registry.get_spec(parts[0])
    given_fields = {part.partition("=")[0] for part in parts[1:-1]}
    fields = [(f"{name}=", "field") for name in (spec.fields if spec else ()) if name not in given_fields]
    return [*fields, *((name, "option") for name in FIRE_OPTIONS)]
