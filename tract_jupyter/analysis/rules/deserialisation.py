"""Data formats that run code when read (TJ108)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, MEDIUM, Rule, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import View


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
