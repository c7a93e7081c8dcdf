"""What the analysis says about code for whoever reviews it, and with which rules it looked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter.analysis import CodeAnalyzer, own_effects
from tract_jupyter.hooks.dynamic.sandboxed import REACH
from tract_jupyter.review.request import CodeBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.analysis import Definition
    from tract_jupyter.hooks.dynamic.spec import ActionDef


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

    def block(self, action: ActionDef, definition: Definition | None = None) -> CodeBlock:
        """An action's code as a reviewer sees it: the `def` line, then the body with its own line numbers.

        Args:
            action: the action.
            definition: what its operation says about the names in it.
        """
        header = f"def {action.name}{action.parameters().signature_text('pending')}:"
        block = self.code_block(action.name, action.code, definition=definition)
        notes = [REACH if action.is_sandboxed else "", block.analysis_note]
        note = " ".join(filter(None, notes))
        return replace(block, header=header, description=action.description, analysis_note=note)

    def code_block(
        self, title: str, code: str, *, tools: Iterable[str] = (), definition: Definition | None = None
    ) -> CodeBlock:
        """Code as a reviewer sees it, which may call these tools."""
        result = self.analyzer.analyze(code, tools=tools, definition=definition)
        nothing = "" if result.findings else result.summary()
        note = " ".join(filter(None, [nothing, self.note]))
        return CodeBlock(title, code, result.findings, analysis_note=note)


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # a cell may have removed it
        return None
