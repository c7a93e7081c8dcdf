"""Deleting, moving and changing what exists (TJ203)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import Place
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.sinks import Effect, Sink, paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import View

_FIRST = (Sink(Effect.DELETE, 0, ("path", "src", "filename", "paths", "directory", "fd", "path1", "lpath")),)
_BOTH = (*_FIRST, Sink(Effect.DELETE, 1, ("dst", "target", "new", "path2", "rpath")))
_OWN = (Sink(Effect.DELETE, -1),)
_OWN_BOTH = (*_OWN, Sink(Effect.DELETE, 0, ("target", "target_dir")))
_MOVES = frozenset(
    {"rename", "renames", "replace", "move", "move_into", "mv", "move_file", "movedir", "Rename"}
)


_DECISIVE = frozenset({Place.STEERING, Place.SECRET})


@register
class Destroys(Rule):
    """Deletes, moves or changes files.

    ## What it does
    Reports operations that delete, rename, truncate or change the rights of files. The level rises in a
    loop, for whole directory trees, and again when the path leads out of the workspace.

    ## Why it matters
    There is no undo for files.

    ## Example
    ```python
    shutil.rmtree("results")
    ```

    ## What to do instead
    Move the file to a folder for things to delete, and let a person delete them.
    """

    code = "TJ203"
    name = "destroys-files"
    category = Category.FILESYSTEM_DELETE
    level = MEDIUM
    effect = "deletes, moves or changes files"
    remedy = "Move it to a folder of things to delete, and let a person delete them."

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """Judge by how much goes and by where it is."""
        texts = [text for text, _ in paths_of(reference, view, _sinks(reference.symbol)) if text is not None]
        outside = [text for text in texts if view.workspace.place(text) is Place.OUTSIDE]
        view.external.extend(outside)
        steering = [text for text in texts if view.workspace.place(text) in _DECISIVE]
        level = self._level(reference, view, outside=bool(outside or steering))
        reason = f"{reference.shown} {self.effect}{' outside the workspace' if outside else ''}."
        yield self.finding(view, reference.node, reason, level, reference.confidence)

    def _level(self, reference: Reference, view: View, *, outside: bool) -> RiskLevel:
        if reference.level is HIGH:
            return CRITICAL if outside else HIGH
        many = view.in_loop(reference.node) or _is_handed_on(reference.node, view)
        return HIGH if outside or many else reference.level


def _is_handed_on(node: ast.AST, view: View) -> bool:
    """Whether the function is an argument: ``map(os.unlink, paths)`` calls it for each."""
    parent = view.parent(node)
    return isinstance(parent, ast.Call) and node in parent.args


def _sinks(symbol: str) -> tuple[Sink, ...]:
    """Where a call of the symbol has the paths of what goes."""
    owner, _, last = symbol.rpartition(".")
    if owner == "*" or owner.endswith("Path()"):
        return _OWN_BOTH if last in _MOVES else _OWN
    return _BOTH if last in _MOVES else _FIRST
