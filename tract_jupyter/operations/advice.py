"""What an operation or a handler can reach, and what a changed version can newly reach."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis import Capabilities, CodeAnalyzer, capabilities_of, own_effects, widened
from tract_jupyter.models.schema import type_text
from tract_jupyter.operations.action import REACH
from tract_jupyter.review.request import CodeBlock, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.analysis import KnownNames
    from tract_jupyter.operations.spec import ActionDef, OperationSpec


_SHOWN = 40  # entries of a kind
_MEANING = {
    "imports": "modules",
    "calls": "what it calls",
    "attributes": "what it reads and writes",
    "files": "files",
    "hosts": "hosts",
    "tools": "tools",
    "unknown": "what its text does not tell",
    "fields": "fields",
    "actions": "actions",
    "decides": "when it is asked about",
}
Reach = dict[str, frozenset[str]]
"""Names by kind: those of `Capabilities`, and `fields`, `actions`, `decides`."""


def spec_reach(spec: OperationSpec) -> Reach:
    """What an operation can reach: its code, its fields and actions with their types, and whether it asks.

    Code in the sandbox reaches nothing but the fields, whatever its text says.
    """
    return {
        **_code_reach(action for action in spec.actions.values() if not action.is_sandboxed),
        "fields": frozenset(
            f"{p.name}: {type_text(p.annotation)}{', volatile' if p.name in spec.volatile else ''}"
            for p in spec.parameters()
        ),
        "actions": frozenset(
            f"{name}{action.parameters().signature_text()}{', in the sandbox' if action.is_sandboxed else ''}"
            for name, action in spec.actions.items()
        ),
        "decides": frozenset({"approved where no handler decides"} if spec.unhandled == "approve" else ()),
    }


def handler_reach(operation: str, code: ActionDef) -> Reach:
    """What a handler can reach, and what it decides about."""
    return {**_code_reach([code]), "decides": frozenset({f"decides about {operation}"})}


def gained(old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]]) -> Reach:
    """What the new version can reach and the old one could not; everything, without an old one.

    Of code that cannot be understood nothing is the same: it counts as gained again.
    """
    if old is None:
        return dict(new)
    found = {
        **_as_dict(widened(_as_capabilities(old), _as_capabilities(new))),
        **{kind: new[kind] - old.get(kind, frozenset()) for kind in new if kind not in _CAPABILITIES},
    }
    return {kind: names for kind, names in found.items() if names}


def reach_table(old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]]) -> ValueTable:
    """The same for a reviewer; says so if nothing is new."""
    found = gained(old, new)
    title = "What it can reach" if old is None else "What it can newly reach"
    rows = tuple(ValueRow(kind, _MEANING[kind], _listed(found[kind])) for kind in _MEANING if found.get(kind))
    nothing = ValueRow("nothing new", "", "It can reach nothing that the approved version could not.")
    return ValueTable(title, rows or ((nothing,) if old is not None else ()), "nothing")


_CAPABILITIES = tuple(field.name for field in fields(Capabilities))


def _code_reach(actions: Iterable[ActionDef]) -> Reach:
    each = [capabilities_of(action.code, parameters=("pending", *action.params)) for action in actions]
    return _as_dict(Capabilities().merged(each))


def _as_dict(found: Capabilities) -> Reach:
    return {name: getattr(found, name) for name in _CAPABILITIES}


def _as_capabilities(reach: Mapping[str, frozenset[str]]) -> Capabilities:
    values: dict[str, Any] = {name: reach[name] for name in _CAPABILITIES}
    return Capabilities(**values)


def _listed(names: frozenset[str]) -> str:
    shown = sorted(names)[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


class Advice:
    """The one way to the analysis for everything that is reviewed; paths are judged against the working directory.

    Args:
        off: codes of rules that do not look.
        levels: the levels of rules that are to matter more, or less, than they do by themselves.

    Raises:
        TractError: a rule or a level does not exist, or the rule cannot be switched off.
    """

    def __init__(self, off: Iterable[str] = (), levels: Mapping[str, str] | None = None) -> None:
        self.off = tuple(sorted(set(off)))
        self.levels = dict(sorted((levels or {}).items()))
        self.effects = own_effects()
        self.analyzer = CodeAnalyzer(_working_directory(), off=self.off, levels=self.levels)

    def is_of(self, off: Iterable[str], levels: Mapping[str, str], effects: Iterable[str] = ()) -> bool:
        """Whether it was made of these settings."""
        return (set(self.off), self.levels, self.effects) == (set(off), dict(levels), tuple(effects))

    @property
    def note(self) -> str:
        """What a reviewer must know, as silence would pass for safety: what the analysis was told here."""
        parts = []
        if self.off:
            count = f"{len(self.off)} rules are" if len(self.off) > 1 else "1 rule is"
            parts.append(f"{count} switched off: {', '.join(self.off)}.")
        if self.levels:
            levels = ", ".join(f"{code} {level}" for code, level in self.levels.items())
            parts.append(f"Levels that were set here: {levels}.")
        if self.effects:
            parts.append(f"What calls do is also told by {', '.join(self.effects)}.")
        return " ".join(parts)

    def block(self, action: ActionDef, known_names: KnownNames | None = None) -> CodeBlock:
        """An action's code as a reviewer sees it: the `def` line, then the body with its own line numbers.

        Args:
            action: the action.
            known_names: what its operation says about the names in it.
        """
        header = f"def {action.name}{action.parameters().signature_text('pending')}:"
        block = self.code_block(action.name, action.code, known_names=known_names)
        notes = [REACH if action.is_sandboxed else "", block.analysis_note]
        note = " ".join(filter(None, notes))
        return replace(block, header=header, description=action.description, analysis_note=note)

    def code_block(
        self, title: str, code: str, *, tools: Iterable[str] = (), known_names: KnownNames | None = None
    ) -> CodeBlock:
        """Code as a reviewer sees it, which may call these tools."""
        result = self.analyzer.analyze(code, tools=tools, known_names=known_names)
        nothing = "" if result.findings else result.summary()
        note = " ".join(filter(None, [nothing, self.note]))
        return CodeBlock(title, code, result.findings, analysis_note=note)


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # a cell may have removed it
        return None
