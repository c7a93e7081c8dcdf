"""The capability diff: what a piece of code can reach, and what a changed version can newly reach.

It is drawn up for the person who reviews a change, from the text alone: nothing is executed or imported. Where
the text does not tell, the answer errs towards more: an entry too many costs a look, one too few costs the
review. Like the findings it explains and contains nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tract_jupyter.analysis.flows import Flows
from tract_jupyter.analysis.forms import Forms, shorten
from tract_jupyter.analysis.ipython_syntax import transform
from tract_jupyter.analysis.reach import Reach
from tract_jupyter.analysis.source import parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

UNPARSABLE = "code that does not parse"
"""The one entry of `Capabilities.unknown` for code that is not Python."""

_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError)


@dataclass(frozen=True)
class Capabilities:
    """What a piece of code can reach, as far as its text tells.

    In a dotted name ``?`` stands for an object that is not known, ``[...]`` for an item of one, ``()`` for what
    a call of it gives. Names that the code chose itself do not occur.

    Attributes:
        imports: Modules, as the code names them.
        calls: What is called: ``os.system``, ``print``, ``pending.approve``, ``?.append``.
        attributes: Attributes that are read, functions and modules that are handed on, names imported from
            a module; with ``=`` behind it what is written, with ``del`` before it what is deleted:
            ``pending.fields[...] =``. Environment variables by name: ``os.environ['HOME']``.
        files: ``read:PATH``, ``write:PATH`` and ``delete:PATH`` for operations on files, ``?`` for what is
            computed, and ``names:PATH`` for a text elsewhere that looks like a path.
        hosts: Hosts of addresses, wherever they stand; ``?`` for what is computed.
        tools: Tools that are called or handed on; firing an operation counts as its tool ``fire_<name>``.
        unknown: What cannot be told, in the form in which it stands, with ``_`` for names of the code's own and
            an entry for each expression that flows into these.
    """

    imports: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing at all."""
        return not any(getattr(self, field.name) for field in fields(self))

    def merged(self, others: Iterable[Capabilities]) -> Capabilities:
        """These and those of others, such as of all actions of an operation."""
        everyone = (self, *others)
        return Capabilities(
            **{
                field.name: frozenset().union(*(getattr(each, field.name) for each in everyone))
                for field in fields(self)
            }
        )


def capabilities(code: str, *, parameters: Collection[str] = ()) -> Capabilities:
    """Tell what code can reach. Nothing of it is executed or imported.

    Args:
        code: A cell or the body of an action: Python, with IPython's additions.
        parameters: Names that the caller binds, such as ``pending`` and an action's parameters.

    Returns:
        An answer for any text at all.
    """
    try:
        return _read(code, parameters)
    except Exception:  # noqa: BLE001 - what is too much for the analysis is not known, and that is an answer
        digest = hashlib.sha256(code.encode("utf-8", "backslashreplace")).hexdigest()
        return Capabilities(unknown=frozenset({f"code that the analysis gave up on ({digest[:16]})"}))


def widened(old: Capabilities, new: Capabilities) -> Capabilities:
    """What the new version has and the old one had not, entry by entry.

    No entry covers another: what the old version computed, or left unknown, says nothing about what the new
    one names.
    """
    return Capabilities(
        **{field.name: getattr(new, field.name) - getattr(old, field.name) for field in fields(new)}
    )


def _read(code: str, parameters: Collection[str]) -> Capabilities:
    plain, escapes = code, frozenset[str]()
    if not _parses(code):
        changed = transform(code)
        plain = changed.code
        escapes = frozenset(f"a shell line or magic: {shorten(escape.text)}" for escape in changed.escapes)
        if not _parses(plain):
            return Capabilities(unknown=frozenset({UNPARSABLE}))
    flows = Flows(plain, parameters)
    reach = Reach(flows, Forms(plain, flows))
    reach.run()
    return Capabilities(
        imports=frozenset(reach.imports),
        calls=frozenset(reach.calls),
        attributes=frozenset(reach.attributes),
        files=frozenset(reach.files),
        hosts=frozenset(reach.hosts),
        tools=frozenset(reach.tools),
        unknown=escapes | reach.unknown,
    )


def _parses(code: str) -> bool:
    with contextlib.suppress(*_PARSE_ERRORS):
        parse(code)
        return True
    return False
