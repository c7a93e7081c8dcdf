"""Data formats that run code when read (TJ108)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, LOW, MEDIUM, Rule, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import View

_HARMLESS_WITH = {
    "torch.load": ("weights_only", True),
    "yaml.load": ("Loader", "Safe"),
    "yaml.load_all": ("Loader", "Safe"),
}
_HARMFUL_WITH = {"numpy.load": "allow_pickle", "numpy.lib.npyio.load": "allow_pickle"}


@register
class LoadsObjects(Rule):
    """Reads a format that can run code.

    ## What it does
    Reports reading pickles and their relatives (dill, joblib, shelve, marshal, `pandas.read_pickle`), YAML
    with a loader that builds objects, `torch.load` without `weights_only=True`, `numpy.load` with
    `allow_pickle`.

    ## Why it matters
    A pickle is a program: reading one from somebody else runs what they put into it.

    ## Example
    ```python
    pickle.loads(data)
    ```

    ## What to do instead
    Use JSON, CSV, Parquet or safetensors; `yaml.safe_load`; `torch.load(path, weights_only=True)`.
    """

    code = "TJ108"
    name = "loads-objects"
    category = Category.DESERIALISATION
    level = HIGH
    effect = "runs code that the data contains"
    remedy = "Use a format of plain data: JSON, CSV, Parquet, safetensors, yaml.safe_load."

    def check(self, view: View) -> Iterator[Finding]:
        """Look for objects that say what is called when they are read."""
        for function in view.of(ast.FunctionDef):
            if function.name in {"__reduce__", "__reduce_ex__"}:
                reason = f"{function.name} names a function that runs when the object is read from a pickle."
                yield self.finding(view, view.source.line_span(function.lineno), reason, MEDIUM)

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """Some readers are harmless with, or harmful only with, a certain argument."""
        call = view.call_of(reference.node)
        given = {keyword.arg: keyword.value for keyword in call.keywords} if call else {}
        level = reference.level
        harmful = _HARMFUL_WITH.get(reference.symbol)
        if harmful is not None and call is not None and _is_false(given.get(harmful) or _third(call), view):
            return
        harmless = _HARMLESS_WITH.get(reference.symbol)
        if harmless is not None and call is not None:
            argument = given.get(harmless[0]) or (call.args[1] if len(call.args) > 1 else None)
            if _is_true(argument) or _is_plain_loader(argument):
                level = LOW
        if reference.symbol.startswith("yaml.load") and level is LOW:
            return
        yield self.finding(
            view, reference.node, f"{reference.shown} {self.effect}.", level, reference.confidence
        )


def _is_false(node: ast.expr | None, view: View) -> bool:
    """Whether it is left out, or known to be false."""
    if isinstance(node, ast.Name):
        node = view.program.sole_value(node) or node
    return node is None or (isinstance(node, ast.Constant) and not node.value)


def _third(call: ast.Call) -> ast.expr | None:
    return call.args[2] if len(call.args) > 2 else None  # noqa: PLR2004 - where numpy has allow_pickle


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_plain_loader(node: ast.expr | None) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in {"SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"}
