"""Code made from text: exec and eval (TJ102), and languages inside strings that lead there (TJ105)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import (
    CRITICAL,
    HIGH,
    Rule,
    register,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import View


@register
class RunsText(Rule):
    """Runs text as code.

    ## What it does
    Reports every mention of `exec`, `eval`, `compile` and of functions that come down to them:
    `timeit.timeit`, `pdb.run`, `runpy.run_path`, `typing.get_type_hints`, `types.FunctionType`, the shell's
    `run_cell`.

    ## Why it matters
    What the text contains cannot be reviewed, because it exists only when it runs.

    ## Example
    ```python
    exec(base64.b64decode(payload))
    ```

    ## What to do instead
    Write the code itself. For data use `ast.literal_eval` or `json.loads`.
    """

    code = "TJ102"
    name = "runs-text"
    category = Category.CODE_EXECUTION
    level = CRITICAL
    effect = "runs text as code"
    remedy = "Write the code itself; for data use ast.literal_eval or json.loads."

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """To ask for a type makes no text into code."""
        is_type = reference.symbol.startswith("types.")
        if is_type and (isinstance(reference.node, ast.alias) or _is_asked(reference.node, view)):
            return
        yield self.finding(
            view, reference.node, f"{reference.shown} {self.effect}.", reference.level, reference.confidence
        )


def _is_asked(node: ast.AST, view: View) -> bool:
    """Whether this is a type in ``isinstance`` or a comparison."""
    parent = view.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = view.parent(parent)
    if isinstance(parent, (ast.Compare, ast.arg, ast.AnnAssign, ast.BinOp, ast.FunctionDef, ast.Subscript)):
        return True
    names = view.resolver.value(parent.func).names if isinstance(parent, ast.Call) else frozenset()
    return not names.isdisjoint({"builtins.isinstance", "builtins.issubclass"})


@register
class AllowsCode(Rule):
    """Switches on what is off because it runs code.

    ## What it does
    Reports arguments such as `trust_remote_code=True`, `allow_dangerous_deserialization=True` and
    `safe_mode=False`, whatever is called with them, also by way of a dictionary or an attribute.

    ## Why it matters
    Their authors made them off by default, because what is loaded may then run code of its own.

    ## Example
    ```python
    AutoModel.from_pretrained("somebody/model", trust_remote_code=True)
    ```

    ## What to do instead
    Leave the default, or read the code that would run and pin its version.
    """

    code = "TJ111"
    name = "allows-code"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "lets what is loaded run code"
    remedy = "Leave the default, or read the code that would run and pin its version."


@register
class EvaluatesExpression(Rule):
    """Evaluates an expression language that reaches Python objects.

    ## What it does
    Reports templates and expression parsers that end in `eval` (`sympy.sympify`, `jinja2.Template`,
    `numexpr.evaluate`), and `query`/`eval` of data frames when the text reaches through `@name.attribute`.

    ## Why it matters
    Such text looks like data and can call any function that an object in it leads to.

    ## Example
    ```python
    df.query("@os.system('...') == 0")
    ```

    ## What to do instead
    Use plain column expressions or a boolean mask; fill templates of your own with `string.Template`.
    """

    code = "TJ105"
    name = "evaluates-expression"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "evaluates text that can reach any object"
    remedy = "Use plain column expressions, a boolean mask, or string.Template."


_FACTORIES = frozenset({"()", "_target_", "class_path", "_partial_"})


@register
class ConfiguresByName(Rule):
    """Has a library call functions that a configuration names.

    ## What it does
    Reports `logging.config` dictionaries and files, at a high level when the code contains the key `"()"`.

    ## Why it matters
    Such a configuration names any importable function and its arguments, and loading it makes the call.

    ## Example
    ```python
    logging.config.dictConfig({"handlers": {"h": {"()": "os.system", "command": "..."}}, "version": 1})
    ```

    ## What to do instead
    Create handlers and formatters in code.
    """

    code = "TJ110"
    name = "configures-by-name"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "calls whatever its configuration names"
    remedy = "Create the objects in code."

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """A factory key in the code makes the difference."""
        factory = any(node.value in _FACTORIES for node in view.of(ast.Constant))
        level = HIGH if factory else reference.level
        yield self.finding(
            view, reference.node, f"{reference.shown} {self.effect}.", level, reference.confidence
        )
