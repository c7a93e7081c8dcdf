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
    from collections.abc import Iterator, Mapping


def levels(text: str) -> Mapping[str, RiskLevel]:
    """Return a table from dotted names to levels. If two lines have the same name, the later one applies."""
    table: dict[str, RiskLevel] = {}
    for head, names in _lines(text):
        level, owner = head.split()
        table.update((_dotted(owner, name), RiskLevel(level)) for name in names or [""])
    return table


def modules(text: str) -> Mapping[str, RiskLevel | None]:
    """Return a table from modules to levels; None for ``none``."""
    return {
        name: None if level == "none" else RiskLevel(level) for level, names in _lines(text) for name in names
    }


def words(text: str) -> frozenset[str]:
    """Return the set of words in a text."""
    return frozenset(text.split())


def symbols(text: str) -> Mapping[str, str]:
    """Return a table from dotted names to the first word of the line, such as a kind of file operation."""
    table: dict[str, str] = {}
    for head, names in _lines(text):
        kind, owner = head.split()
        table.update((_dotted(owner, name), kind) for name in names)
    return table


def aliases(text: str) -> Mapping[str, str]:
    """Return a table from each further name of a line to the first name."""
    return {alias: name for name, others in _lines(text) for alias in others}


def names(text: str) -> Iterator[str]:
    """Yield the dotted names of lines ``owner: name name``."""
    return (_dotted(owner, name) for owner, members in _lines(text) for name in members or [""])


def keywords(text: str) -> Iterator[tuple[str, str, RiskLevel]]:
    """Yield the names of arguments, each with the word for its value, and a level."""
    for head, members in _lines(text):
        level, word = head.split()
        yield from ((name, word, RiskLevel(level)) for name in members)


def patterns_of(name: str) -> list[str]:
    """Return the entries of a table that cover a dotted name: the name itself, and `os.*` for `os.path`."""
    parts = name.split(".")
    return [name, *(".".join([*parts[:length], "*"]) for length in range(len(parts) - 1, 0, -1))]


def _dotted(owner: str, name: str) -> str:
    return name if owner == "." else f"{owner}.{name}" if name else owner


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    head = ""
    names: list[str] = []
    for line in text.splitlines():
        first, colon, rest = line.partition("#")[0].partition(":")
        if colon:
            if head:
                yield head, names
            head, names = first.strip(), rest.split()
        else:
            names.extend(first.split())
    if head:
        yield head, names
