"""Reads tables: lines ``level owner: name name ...``, which further lines without a colon continue.

The owner and each name make a dotted name::

    critical os: system popen
    high pathlib.Path(): unlink        a method of an instance
    high .: requests.* httpx.*         whole names; here everything of two modules
    high *: __globals__                an attribute of anything
    high ?: system                     an attribute of a module that was fetched by an unknown name
    high builtins:                     the name itself

A table of modules has lines ``level: module module ...`` instead; ``none`` says that a part of a module, or a
module, is harmless. A ``#`` begins a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import RiskLevel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def levels(text: str) -> Mapping[str, RiskLevel]:
    """Return a table from dotted name to level; of two lines about a name the later one counts."""
    found: dict[str, RiskLevel] = {}
    for head, names in _lines(text):
        level, owner = head.split()
        found.update((_dotted(owner, name), RiskLevel(level)) for name in names or [""])
    return found


def modules(text: str) -> Mapping[str, RiskLevel | None]:
    """Return a table from module to level, None for ``none``."""
    return {
        name: None if level == "none" else RiskLevel(level) for level, names in _lines(text) for name in names
    }


def words(text: str) -> frozenset[str]:
    """Return a table of names only."""
    return frozenset(text.split())


def symbols(text: str) -> Mapping[str, str]:
    """Return a table from dotted name to the first word of its line, such as a kind of operation on files."""
    found: dict[str, str] = {}
    for head, names in _lines(text):
        kind, owner = head.split()
        found.update((_dotted(owner, name), kind) for name in names)
    return found


def aliases(text: str) -> Mapping[str, str]:
    """Return a table from each further name of a line to its first one."""
    return {alias: name for name, others in _lines(text) for alias in others}


def names(text: str) -> Iterator[str]:
    """Yield the dotted names of lines ``owner: name name``."""
    return (_dotted(owner, name) for owner, members in _lines(text) for name in members or [""])


def keywords(text: str) -> Iterator[tuple[str, str, RiskLevel]]:
    """Yield the names of arguments, each with the word that describes its value, and a level."""
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
