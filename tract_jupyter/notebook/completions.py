"""Completion of the magics' arguments: subcommands, operation names, their fields, options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.session import LazyTools, LazyTract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tract_jupyter.notebook.session import NotebookSession

_MAGIC = re.compile(
    r"(?:^|=\s*|\()\s*(?P<magic>%%?tract(?:_operation|_fire|_check|_run)?)\s+(?P<rest>[^\n]*)$"
)
_ATTRIBUTE = re.compile(r"(?<![\w.])(?P<name>\w+)\.((?P<space>\w+)\.)?(?P<token>\w*)$")
_OPTIONS = {
    "tract_operation": ("--json", "--yaml", "--activate", "--ask", "--sandbox", "--wait"),
    "tract_check": ("--strict", "--mode"),
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
    """After `tract.`, `tools.` and `tools.<server>.`: the completer cannot see what is not opened yet."""
    found = _ATTRIBUTE.search(line)
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
