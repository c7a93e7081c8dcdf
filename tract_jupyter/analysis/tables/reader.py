"""The reader of tables: lines ``level owner: name name ...``. Lines without a colon continue the line before.

The owner and each name make a dotted name::

    critical os: system popen
    high pathlib.Path(): unlink        a method of an instance
    high .: requests.* httpx.*         whole names; here everything of two modules
    high *: __globals__                an attribute of anything
    high ?: system                     an attribute of a module that was fetched by an unknown name
    high builtins:                     the name itself

A table of modules has lines ``level: module module ...``. The level ``none`` marks a harmless module or submodule. A
``#`` begins a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import RiskLevel

if TYPE_CHECKING:
    from collections.abc import Mapping


def levels(text: str) -> Mapping[str, RiskLevel]:
    """Return a table from dotted names to levels. If two lines have the same name, the later one applies."""
    table: dict[str, RiskLevel] = {}
    for head, names in _lines(text):
        level, owner = head.split()
        table.update(dict.fromkeys(_dotted(owner, names or [""]), RiskLevel(level)))
    return table


def modules(text: str) -> Mapping[str, RiskLevel | None]:
    """Return a table from modules to levels; None for ``none``."""
    return {
        name: None if level == "none" else RiskLevel(level) for level, names in _lines(text) for name in names
    }


def words(text: str, beginning: str = "") -> frozenset[str]:
    """Return the set of words in a text, each after the same beginning."""
    return frozenset([beginning + word for word in text.split()] if beginning else text.split())


def symbols(text: str) -> Mapping[str, str]:
    """Return a table from dotted names to the first word of the line, such as a kind of file operation."""
    table: dict[str, str] = {}
    for head, names in _lines(text):
        kind, owner = head.split()
        table.update(dict.fromkeys(_dotted(owner, names), kind))
    return table


def aliases(text: str) -> Mapping[str, str]:
    """Return a table from each further name of a line to the first name."""
    return {alias: name for name, others in _lines(text) for alias in others}


def names(text: str) -> list[str]:
    """Return the dotted names of lines ``owner: name name``."""
    return [name for owner, members in _lines(text) for name in _dotted(owner, members or [""])]


def keywords(text: str) -> list[tuple[str, str, RiskLevel]]:
    """Return the names of arguments, each with the word for its value, and a level."""
    found: list[tuple[str, str, RiskLevel]] = []
    for head, members in _lines(text):
        value, word = head.split()
        level = RiskLevel(value)
        found += [(name, word, level) for name in members]
    return found


def patterns_of(name: str) -> list[str]:
    """Return the entries of a table that cover a dotted name: the name itself, and `os.*` for `os.path`."""
    parts = name.split(".")
    return [name, *(".".join([*parts[:length], "*"]) for length in range(len(parts) - 1, 0, -1))]


def _dotted(owner: str, names: list[str]) -> list[str]:
    return names if owner == "." else [f"{owner}.{name}" if name else owner for name in names]


def _lines(text: str) -> list[tuple[str, list[str]]]:
    lines: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        first, colon, rest = line.partition("#")[0].partition(":")
        if colon:
            lines.append((first.strip(), rest.split()))
        elif lines:
            lines[-1][1].extend(first.split())
    return [line for line in lines if line[0]]
