"""Code made from text: exec and eval (TJ102), and languages inside strings that lead there (TJ105)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, ClassVar

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import (
    CRITICAL,
    HIGH,
    LIKELY,
    Rule,
    register,
)
from tract_jupyter.analysis.tables import execution

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
    symbols: ClassVar = execution.RUNS_TEXT
    modules: ClassVar = execution.RUNS_TEXT_MODULES


_NAME_IN_QUERY = re.compile(r"@\s*\w+\s*\.|__\w+__")


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
    symbols: ClassVar = execution.EVALUATES_EXPRESSION

    def check(self, view: View) -> Iterator[Finding]:
        """Look at the text of ``query`` and ``eval`` methods, whatever they are called on."""
        for node in view.method_calls(("query", "eval")):
            texts = view.resolver.value(node.args[0]).texts if node.args else ()
            if any(_NAME_IN_QUERY.search(text) for text in texts):
                yield self.finding(view, node, "The text reaches into Python objects.", confidence=LIKELY)


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
    symbols: ClassVar = execution.CONFIGURES_BY_NAME

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """A factory key in the code makes the difference."""
        factory = any(node.value == "()" for node in view.of(ast.Constant))
        level = HIGH if factory else reference.level
        yield self.finding(
            view, reference.node, f"{reference.symbol} {self.effect}.", level, reference.confidence
        )
