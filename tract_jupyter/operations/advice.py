"""The reach of code, the additional reach of a new version, and the findings of the analysis.

`Advice` configures the analysis for reviews: the active rules, and notes for the reviewer about them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter.models.schema import type_text
from tract_jupyter.operations.abilities import abilities, ability_text, used_files
from tract_jupyter.operations.sandboxed import REACH
from tract_jupyter.review import ACCESS, CodeBlock, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.analysis import AnalysisResult, AnalysisSession, Capabilities, CodeAnalyzer
    from tract_jupyter.operations.spec import ActionDef, OperationSpec


_SHOWN = 40  # entries of each kind
_MEANING = {
    "imports": "modules",
    "calls": "called functions",
    "attributes": "read and written names",
    "files": "files",
    "hosts": "hosts",
    "tools": "tools",
    "unknown": "not visible in its text",
    "fields": "fields",
    "actions": "actions",
    "decides": "default decision",
}
Reach = dict[str, frozenset[str]]
"""Names by kind: the kinds of `Capabilities`, and `fields`, `actions`, `decides`."""


def spec_reach(spec: OperationSpec) -> Reach:
    """Return the access of an operation: its code, typed fields and actions, and its default decision.

    Code in the sandbox can access only the fields, so its text does not count.
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
        "decides": frozenset(
            [
                *(["approved if no handler decides"] if spec.unhandled == "approve" else []),
                *([f"fires by itself {spec.fires_on}"] if spec.fires_on is not None else []),
                *(["each firing asks a model for guidance"] if spec.two_stage else []),
            ]
        ),
    }


def handler_reach(operation: str, code: ActionDef) -> Reach:
    """Return the access of a handler, and the operation that it decides about."""
    return {**_code_reach([code]), "decides": frozenset({f"decides about {operation}"})}


def gained(old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]]) -> Reach:
    """Return the access that the new version adds. Without an old version, return all access.

    Access that the analysis cannot understand never counts as unchanged. It counts as added again.
    """
    if old is None:
        return dict(new)
    from tract_jupyter.analysis import Capabilities, widened

    of_code = frozenset(_as_dict(Capabilities()))
    before, now = (Capabilities(**{kind: reach[kind] for kind in of_code}) for reach in (old, new))
    added = {
        **_as_dict(widened(before, now)),
        **{kind: new[kind] - old.get(kind, frozenset()) for kind in new if kind not in of_code},
    }
    return {kind: names for kind, names in added.items() if names}


def reach_table(
    old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]], summary: str = ""
) -> ValueTable:
    """Return a table of the added access for a reviewer, under a summary. If there is none, the table says so."""
    added = gained(old, new)
    title = ACCESS if old is None else f"{ACCESS} that the approved version could not"
    rows = tuple(ValueRow(kind, _MEANING[kind], _listed(added[kind])) for kind in _MEANING if added.get(kind))
    nothing = ValueRow("nothing new", "", "It can access nothing that the approved version could not.")
    return ValueTable(title, rows or ((nothing,) if old is not None else ()), "nothing", summary)


def _code_reach(actions: Iterable[ActionDef]) -> Reach:
    from tract_jupyter.analysis import Capabilities, capabilities_of

    each = [capabilities_of(action.code, parameters=("pending", *action.params)) for action in actions]
    return _as_dict(Capabilities().merged(each))


def _as_dict(capabilities: Capabilities) -> Reach:
    return {field.name: getattr(capabilities, field.name) for field in fields(capabilities)}


def _listed(names: frozenset[str]) -> str:
    first = sorted(names)[:_SHOWN]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


class Advice:
    """The entry point to the analysis for all reviewed code. Paths are relative to the working directory.

    Raises:
        TractError: a rule or a level does not exist, or the rule cannot be disabled.
    """

    def __init__(self, off: Iterable[str] = (), levels: Mapping[str, str] | None = None) -> None:
        from tract_jupyter.analysis import own_effects

        self.off = tuple(sorted(set(off)))
        self.levels = dict(sorted((levels or {}).items()))
        self.effects = own_effects()
        self._folder = _working_directory()
        if self.off or self.levels:
            _ = self.analyzer  # checks them

    @cached_property
    def analyzer(self) -> CodeAnalyzer:
        """The analyzer with these settings."""
        from tract_jupyter.analysis import CodeAnalyzer

        return CodeAnalyzer(self._folder, off=self.off, levels=self.levels)

    @cached_property
    def _session(self) -> AnalysisSession:
        from tract_jupyter.analysis import AnalysisSession

        return AnalysisSession(self.analyzer)

    def is_of(self, off: Iterable[str], levels: Mapping[str, str], effects: Iterable[str] = ()) -> bool:
        """Return True if the settings are equal to these."""
        return (set(self.off), self.levels, self.effects) == (set(off), dict(levels), tuple(effects))

    @property
    def note(self) -> str:
        """The analysis settings for a reviewer, because disabled rules report nothing."""
        parts = []
        if self.off:
            count = f"{len(self.off)} rules are" if len(self.off) > 1 else "1 rule is"
            parts.append(f"{count} switched off: {', '.join(self.off)}.")
        if self.levels:
            levels = ", ".join(f"{code} {level}" for code, level in self.levels.items())
            parts.append(f"Levels set here: {levels}.")
        if self.effects:
            parts.append(f"Effects of calls also come from {', '.join(self.effects)}.")
        return " ".join(parts)

    def block(self, action: ActionDef) -> CodeBlock:
        """Return an action's code for review: the `def` line, then the body with its own line numbers."""
        header = f"def {action.name}{action.parameters().signature_text('pending')}:"
        block = self.code_block(action.name, action.code)
        notes = [REACH if action.is_sandboxed else "", block.analysis_note]
        note = " ".join(filter(None, notes))
        return replace(block, header=header, description=action.description, analysis_note=note)

    def code_block(
        self,
        title: str,
        code: str,
        *,
        tools: Iterable[str] = (),
        cells_before: Sequence[str] = (),
    ) -> CodeBlock:
        """Return code for review. The code may call these tools and see the variables of these cells."""
        result = self.analyze(code, tools=tools, cells_before=cells_before)
        nothing = "" if result.findings else result.summary()
        note = " ".join(filter(None, [nothing, self.note]))
        return CodeBlock(title, code, result.findings, analysis_note=note)

    def analyze(
        self,
        code: str,
        *,
        tools: Iterable[str] = (),
        cells_before: Sequence[str] = (),
    ) -> AnalysisResult:
        """Analyze code. Unchanged previous cells are analyzed only once."""
        if not cells_before:
            return self.analyzer.analyze(code, tools=tools)
        return self._session.analyze(code, tools=tools, cells_before=cells_before)

    def ability(self, block: CodeBlock) -> str:
        """Return the abilities of code in a sentence. It mentions files that exist already."""
        from tract_jupyter.analysis import RiskLevel, capabilities_of

        reach = _as_dict(capabilities_of(block.code))
        written = [f for f in block.findings if f.code == "TJ202" and f.level >= RiskLevel.MEDIUM]
        is_sure = any("adds to" not in finding.reason for finding in written)
        paths = [entry.partition(":")[2] for entry in used_files(block.findings, reach)]
        keeps = not is_sure and _APPENDS.search(block.code) is not None
        return ability_text(abilities(block.findings, reach, list(filter(_exists, paths)), keeps=keeps))


_APPENDS = re.compile(r"""(["'])(?:[bt]?a[bt]?\+?|r[bt]?\+[bt]?)\1""")
"""A file mode that does not truncate the file on opening."""


def _exists(path: str) -> bool:
    with suppress(OSError, ValueError):  # not a path
        return Path(path).expanduser().is_file()
    return False


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # a cell may have removed it
        return None
