"""A profile, shown: its operations as a graph, what is probably a mistake, and what each operation is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tract_jupyter.models.text import one_line, printable
from tract_jupyter.notebook.runs.graph import profile_svg
from tract_jupyter.notebook.runs.picture import planned
from tract_jupyter.notebook.runs.view import legend_html
from tract_jupyter.notebook.views.html import OWN_KEYS, Grid, escaped, heading, style_tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.model import Operation


_NAME = 60
_ABOUT = ("description", "capabilities")
_MORE = ("runConditions", "artifact", "activation", "provider", "timeoutMs", "retry", "debug")


class LintWarning(Protocol):
    """A warning about a profile: something allowed that is probably a mistake."""

    @property
    def where(self) -> str:
        """The operation, and what of it."""
        ...

    @property
    def message(self) -> str:
        """A sentence."""
        ...


@dataclass(frozen=True)
class ProfileView:
    """A profile, shown.

    Attributes:
        standing: a word on whether runs use it, where that is not whether it is active.
        to_be_read: a person is to read what the operations are given, so that is open, and stands in the text.
    """

    name: str
    operations: Sequence[Operation]
    warnings: Sequence[LintWarning] = ()
    is_active: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    said: str = ""
    standing: str = ""
    to_be_read: bool = False

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """Return a part of a page that stands alone, everything escaped."""
        styles = style_tag("views/views.css", "views/runs.css", "views/display.css")
        badge = f'<span class="tract-badge{" tract-done" if self.is_active else ""}">{self._standing}</span>'
        facts = "".join(f"<span><b>{escaped(n)}</b> {escaped(v)}</span>" for n, v in self.facts)
        said = f"<p>{escaped(self.said)}</p>" if self.said else ""
        return (
            f'{styles}<section class="tract-views tract-run" data-testid="tract-profile" '
            f'aria-label="Profile"><header>'
            f"{heading(f'Profile {one_line(self.name, _NAME)}', 3)}{badge}</header>"
            f'<p class="tract-facts">{facts}</p>{said}{self._graph_html()}{self._warnings_html()}'
            f'<details class="tract-section"{self._opened}><summary {OWN_KEYS}>Operations <span class="tract-about">'
            f'{len(self.operations):,}</span></summary><div class="tract-canvas tract-view">{self._grid().to_html()}'
            f"</div></details>{self._given_html()}</section>"
        )

    def to_text(self) -> str:
        """Return a line for each operation and warning."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts)
        lines = [f"Profile {one_line(self.name, _NAME)}: {self._standing}{f' ({facts})' if facts else ''}"]
        lines += [self.said] if self.said else []
        lines += [self._grid().to_text()] if self.operations else ["It has no operations."]
        lines += [f"! {one_line(w.where, _NAME)}: {one_line(w.message, 400)}" for w in self.warnings]
        if self.to_be_read:
            lines += [f"{one_line(one.id, _NAME)}: {_given(one)}" for one in self.operations]
        return printable("\n".join(lines))

    @property
    def _standing(self) -> str:
        return self.standing or ("active" if self.is_active else "not active")

    @property
    def _opened(self) -> str:
        return " open" if self.to_be_read else ""

    def _graph_html(self) -> str:
        nodes = planned(self.operations)
        if not nodes:
            return '<p class="tract-dim">It has no operations.</p>'
        return (
            f'<div class="tract-canvas tract-flow tract-plan" data-testid="tract-profile-graph" '
            f'{OWN_KEYS} tabindex="0" role="region" aria-label="Graph of operations">{profile_svg(nodes)}</div>'
            f"{legend_html(nodes)}"
        )

    def _warnings_html(self) -> str:
        rows = "".join(
            f'<li><i class="tract-mark tract-waiting">!</i><b>{escaped(w.where)}</b> {escaped(w.message)}</li>'
            for w in self.warnings
        )
        return f'<ul class="tract-reasons" data-testid="tract-profile-warnings">{rows}</ul>' if rows else ""

    def _given_html(self) -> str:
        rows = "".join(
            f"<dt>{escaped(one_line(one.id, _NAME))}</dt><dd><pre>{escaped(_given(one))}</pre></dd>"
            for one in self.operations
        )
        if not rows:
            return ""
        return (
            f'<details class="tract-section" data-testid="tract-profile-given"{self._opened}><summary {OWN_KEYS}>'
            f"What they are given</summary><dl>{rows}</dl></details>"
        )

    def _grid(self) -> Grid:
        heads = ("Operation", "Kind", "Hooks", "Triggers", "Order", "After", "Artifact", "")
        return Grid(
            heads, tuple(map(_row, self.operations)), code=frozenset({"Artifact"}), right=frozenset({"Order"})
        )


def _given(operation: Operation) -> str:
    """Return what an operation is given, what it may do and when, and where its value goes: a line each, as JSON."""
    given = operation.to_dict()
    config = given["config"]
    more = [
        (name, of[name])
        for of, names in [(given["definition"], _ABOUT), (config, _MORE)]
        for name in names
        if name in of
    ]
    lines = [*config.get("params", {}).items(), *more]
    return "\n".join(
        f"{one_line(name, _NAME)}: {json.dumps(value, ensure_ascii=False)}" for name, value in lines
    )


def _row(operation: Operation) -> tuple[str, ...]:
    config = operation.config
    marks = [word for word, holds in (("required", config.required), ("off", not config.enabled)) if holds]
    return (
        one_line(operation.id, _NAME),
        one_line(operation.definition.kind, _NAME),
        ", ".join(hook.value for hook in config.hooks),
        ", ".join(trigger.value for trigger in config.triggers),
        f"{config.order:g}",
        one_line(", ".join(config.depends_on), _NAME),
        f"art.{config.artifact.tag}" if config.artifact else "",
        ", ".join(marks),
    )
