"""Load and unload the extension, and complete what is typed.

Everything that is put into IPython is taken out again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.config import TractJupyter
from tract_jupyter.notebook.formatters import register, unregister
from tract_jupyter.notebook.magics import TractMagics
from tract_jupyter.notebook.session import LazyTools, LazyTract, NotebookSession, inject, withdraw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from IPython.core.interactiveshell import InteractiveShell


_ATTRIBUTE = "_tract_jupyter"


@dataclass
class _Loaded:
    notebook: NotebookSession
    magics: TractMagics
    matcher: Callable[[Any], Any]
    names: dict[str, Any]


def load(shell: InteractiveShell) -> None:
    """Register magics, completions and settings; put `tract` and `tools` into the namespace. Opens nothing yet."""
    if getattr(shell, _ATTRIBUTE, None) is not None:
        return
    config = TractJupyter(parent=shell)
    notebook = NotebookSession(shell, config)
    names, taken = inject(notebook)
    loaded = _Loaded(notebook, TractMagics(notebook), make_matcher(notebook), names)
    shell.register_magics(loaded.magics)
    register(shell)
    shell.configurables.append(config)  # type: ignore[arg-type] # IPython declares a list of shells
    shell.input_transformers_cleanup.append(await_waiting_cells)
    shell.events.register("pre_run_cell", tell_of_keys)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(loaded.matcher)
    setattr(shell, _ATTRIBUTE, loaded)
    if not config.quiet:
        print(_greeting(config, list(names), taken))  # noqa: T201 # the one line that says so
    problem = notebook.why_not_written()
    if problem:
        print(problem)  # noqa: T201 # also where it is to be quiet: whatever follows would fail


def unload(shell: InteractiveShell) -> None:
    """Take everything out again, and close the store."""
    loaded: _Loaded | None = getattr(shell, _ATTRIBUTE, None)
    if loaded is None:
        return
    withdraw(loaded.notebook, loaded.names)
    for kind, functions in loaded.magics.magics.items():
        for name in functions:
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(type(loaded.magics).__name__, None)
    for configurable in (loaded.notebook.config, loaded.magics):
        shell.configurables.remove(configurable)  # type: ignore[arg-type] # see `load`
    shell.input_transformers_cleanup.remove(await_waiting_cells)
    shell.events.unregister("pre_run_cell", tell_of_keys)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    unregister(shell)
    loaded.notebook.close()
    delattr(shell, _ATTRIBUTE)


def _greeting(config: TractJupyter, names: list[str], taken: list[str]) -> str:
    from tract_jupyter import __version__

    ready = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} ready" if names else "ready"
    line = f"tract_jupyter {__version__}: {ready}; the context is kept in {config.store}. %tract help tells more."
    for name in taken:
        setting = "tract_name" if name == config.tract_name else "tools_name"
        line += (
            f"\n{name!r} is a variable of yours and was left alone; for another name: "
            f"%config TractJupyter.{setting} = '{name}_'"
        )
    return line


def tell_of_keys(info: Any) -> None:
    """Say it when a cell that is about to run holds something like a key, without repeating it."""
    from tract_jupyter.llm import key_lines

    lines = key_lines(info.raw_cell or "")
    if lines:
        print(  # noqa: T201 # beside what the cell prints
            f"Line {lines[0]} of this cell holds something like a key. It is saved with the notebook, and kept in "
            "IPython's history: withdraw it where it was made, and take it out. %tract model NAME --key asks for a key "
            "without showing it."
        )


# Cells that wait are rewritten to an `await` of them: IPython does not await a cell magic's coroutine, so the first
# line must become an expression that is.
_WAITING_CELL = re.compile(
    r"\s*%%(?P<name>tract_script\b|tract_run\b|tract_operation\b(?=[^\n]*(?<!\S)--wait(?!\S)))(?!\?)"  # ? asks for help
    r"(?P<line>[^\n]*)\n?"
)


def await_waiting_cells(lines: list[str]) -> list[str]:
    """Rewrite a cell that waits to an `await` of it; an input transformer of IPython."""
    match = _WAITING_CELL.match("".join(lines))
    if match is None:
        return lines
    cell = "".join(lines)[match.end() :]
    if not cell and match["name"] == "tract_run":
        cell = "\n"  # it may be empty, and IPython refuses a magic without any body
    return [f"await get_ipython().run_cell_magic({match['name']!r}, {match['line'].strip()!r}, {cell!r})\n"]


# IPython's word for: not while a terminal asks whether the cell is complete; it would be, after its first line.
await_waiting_cells.has_side_effects = True  # type: ignore[attr-defined]


# Completion of the arguments of magics: subcommands, operation names, their fields, options.
_MAGIC = re.compile(
    r"(?:^|=\s*|\()\s*(?P<magic>%%?tract(?:_operation|_fire|_check|_run|_script)?)\s+(?P<rest>[^\n]*)$"
)
_MEMBER = re.compile(r"(?<![\w.])(?P<name>\w+)\.((?P<space>\w+)\.)?(?P<token>\w*)$")
_OPTIONS = {
    "tract_operation": ("--json", "--yaml", "--activate", "--ask", "--sandbox", "--wait"),
    "tract_check": ("--strict", "--mode"),
    "tract_script": ("--sandbox", "--notebook", "--fresh", "--anew", "--timeout", "--calls", "--out"),
    "tract_run": ("--profile", "--regenerate", "--model", "--out"),
}


def make_matcher(notebook: NotebookSession) -> Callable[[Any], Any]:
    """Return the matcher that IPython's completer asks."""

    @context_matcher(identifier="tract_jupyter")
    def match(context: Any) -> Any:
        line = context.line_with_cursor[: context.cursor_position]
        token, words = _attributes(notebook, line) or _arguments(notebook, line) or ("", [])
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


def _attributes(notebook: NotebookSession, line: str) -> _Found | None:
    """Complete after `tract.`, `tools.` and `tools.<server>.`: IPython cannot see what is not opened yet."""
    found = _MEMBER.search(line)
    if found is None:
        return None
    value = notebook.shell.user_ns.get(found["name"])
    if not isinstance(value, LazyTools if found["space"] else LazyTract | LazyTools):
        return None
    try:
        return found["token"], [
            (name, "function") for name in _attributes_of(notebook, value, found["space"])
        ]
    except TractError:  # a store that cannot be opened is reported when it is used, not at Tab
        return None


def _attributes_of(notebook: NotebookSession, value: object, space: str | None) -> Iterable[str]:
    if space is None:
        return dir(value)
    return dir(getattr(value, space)) if space in notebook.tract.executor.namespaces() else ()


def _arguments(notebook: NotebookSession, line: str) -> _Found | None:
    found = _MAGIC.search(line)
    if found is None:
        return None
    parts = found["rest"].split(" ")
    return parts[-1], _words(notebook, found["magic"], parts)


def _words(notebook: NotebookSession, magic: str, parts: list[str]) -> Iterable[tuple[str, str]]:
    if magic == "%tract":
        from tract_jupyter.notebook.commands import all_commands

        commands = all_commands()
        if len(parts) == 1:
            return [(name, "command") for name in commands]
        command = commands.get(parts[0])
        return command.words(notebook, parts[1:-1]) if command else ()
    if magic.endswith("tract_run") and parts[-2:-1] == ["--profile"]:
        return _profiles(notebook)
    options = _OPTIONS.get(magic.lstrip("%"))
    if options is not None:
        return [(option, "option") for option in options]
    if len(parts) == 1:
        return [(name, "operation") for name in _operations(notebook)]
    given = {part.partition("=")[0] for part in parts[1:-1]}
    fields = [(f"{name}=", "field") for name in _fields(notebook, parts[0]) if name not in given]
    return [*fields, ("--fields", "option"), ("--review", "option")]


def _profiles(notebook: NotebookSession) -> Iterable[tuple[str, str]]:
    from tract_jupyter.notebook.commands.profiles import profile_words

    try:
        return profile_words(notebook, [])
    except TractError:
        return []


def _operations(notebook: NotebookSession) -> list[str]:
    try:
        operations = notebook.tract.operations
    except TractError:
        return []
    return sorted(operations.registry.operation_names)


def _fields(notebook: NotebookSession, operation: str) -> list[str]:
    try:
        spec = notebook.tract.operations.registry.get_spec(operation)
    except TractError:
        return []
    return list(spec.fields) if spec else []
