"""Code made from text: exec and eval (TJ102), and languages inside strings that lead there (TJ105)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.arguments import kind_of_code
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.source import arguments_of, last_name
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView


@register
class RunsText(Rule):
    """Runs text as code.

    ## Description
    Reports every mention of `exec`, `eval`, `compile` and of functions that lead to them:
    `timeit.timeit`, `pdb.run`, `runpy.run_path`, `typing.get_type_hints`, `types.FunctionType`, the shell's
    `run_cell`. Annotations that are texts with such code are high, because pydantic evaluates them.

    ## Why it matters
    The text exists only at run time, so a review cannot see it.

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

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel | None:
        """Leave out types in comparisons: ``isinstance(x, types.FunctionType)``."""
        is_type = reference.symbol.startswith("types.")
        is_left_out = isinstance(reference.node, ast.alias) or _is_type_test(reference.node, view)
        return None if is_type and is_left_out else reference.level

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check annotations that are texts. Pydantic and get_type_hints evaluate them."""
        for text in _annotations(view):
            if "reaches" in view.look(kind_of_code, str(text.value)):
                yield self.finding(view, text, "The annotation is code, and is evaluated.", HIGH, LIKELY)


def _annotations(view: CodeView) -> Iterator[ast.Constant]:
    """Yield the texts in annotations, and in calls that turn a text into a type."""
    annotations: list[ast.expr | None] = [node.annotation for node in view.of(ast.AnnAssign)]
    annotations += [node.annotation for node in view.of(ast.arg)]
    annotations += [node.returns for node in view.of(ast.FunctionDef)]
    annotations += [node.returns for node in view.of(ast.AsyncFunctionDef)]
    for call in view.of(ast.Call):
        if last_name(call.func) in _MAKES_TYPES:
            annotations += arguments_of(call)
    for annotation in view.deadline.watched(annotations):
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node


_MAKES_TYPES = words("ForwardRef TypeAdapter create_model make_dataclass NamedTuple TypedDict NewType")


def _is_type_test(node: ast.AST, view: CodeView) -> bool:
    """Return True if this is a type in ``isinstance`` or a comparison."""
    parent = view.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = view.parent(parent)
    if isinstance(parent, (ast.Compare, ast.arg, ast.AnnAssign, ast.BinOp, ast.FunctionDef, ast.Subscript)):
        return True
    names = view.resolver.value(parent.func).names if isinstance(parent, ast.Call) else frozenset()
    return not names.isdisjoint({"builtins.isinstance", "builtins.issubclass"})


@register
class AllowsCode(Rule):
    """Enables an option that is off by default because it runs code.

    ## Description
    Reports arguments such as `trust_remote_code=True`, `allow_dangerous_deserialization=True` and
    `safe_mode=False` of any function. A dictionary entry or an attribute with such a name counts, as well.

    ## Why it matters
    Libraries turn these options off by default, because a loaded file may then run its own code.

    ## Example
    ```python
    AutoModel.from_pretrained("acme/model", trust_remote_code=True)
    ```

    ## What to do instead
    Keep the default. Otherwise read the code of the file, and pin its version.
    """

    code = "TJ111"
    name = "allows-code"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "lets loaded files run code"
    remedy = "Keep the default. Otherwise read the code of the file, and pin its version."


@register
class EvaluatesExpression(Rule):
    """Evaluates an expression language that reaches Python objects.

    ## Description
    Reports templates and expression parsers that end in `eval` (`sympy.sympify`, `jinja2.Template`,
    `numexpr.evaluate`), and `query`/`eval` of data frames when the text reaches through `@name.attribute`.

    ## Why it matters
    Such text looks like data, but it can call any function that its objects lead to.

    ## Example
    ```python
    df.query("@os.system('...') == 0")
    ```

    ## What to do instead
    Use plain column expressions or a boolean mask. Fill your templates with `string.Template`.
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
    """Configures a library that calls functions by name.

    ## Description
    Reports `logging.config` dictionaries and files. The level is high if the code contains the key `"()"`.

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
    effect = "calls the functions that its configuration names"
    remedy = "Create the objects in code."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel:
        """Raise the level if the code contains a factory key."""
        factory = any(node.value in _FACTORIES for node in view.of(ast.Constant))
        return HIGH if factory else reference.level


@register
class LoadsObjects(Rule):
    """Reads a format that can run code.

    ## Description
    Reports reading pickles and their relatives (dill, joblib, shelve, marshal, `pandas.read_pickle`), YAML
    with a loader that builds objects, `torch.load` without `weights_only=True`, `numpy.load` with
    `allow_pickle`. Other functions are judged by their name (`load_pickle`) and the file (`model.pkl.gz`).

    ## Why it matters
    A pickle is a program. Loading one from another person runs that person's code.

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

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check classes that choose a function to run during unpickling."""
        for function in view.of(ast.FunctionDef):
            if function.name in {"__reduce__", "__reduce_ex__"}:
                reason = f"{function.name} names a function that runs when the object is unpickled."
                yield self.finding(view, view.source.line_span(function.lineno), reason, MEDIUM)


_WRITES = ("write", "write_text", "writelines", "write_bytes")
_LIKE_CODE = re.compile(r"(?m)^[^\S\n]*(?:import|from)\s+\w|\b(?:exec|eval|__import__)\s*\(")


@register
class WritesCode(Rule):
    r"""Writes code to a file that needs a separate review.

    ## Description
    Analyzes the text that the code writes to files. Reports Python that has findings of a high level.

    ## Why it matters
    An import, a later session or another program may run the file without asking the user.

    ## Example
    ```python
    Path("helpers.py").write_text("import os\nos.system('...')\n")
    ```

    ## What to do instead
    Keep code in cells, which the user reviews, or ask the user to write the file.
    """

    code = "TJ112"
    name = "writes-code"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "writes code to a file that needs a separate review"
    remedy = "Keep code in cells, which the user reviews."


def written_code(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that write text which looks like Python, each with its text."""
    for call in view.method_calls(_WRITES):
        for text in view.resolver.value(call.args[0]).texts if call.args else ():
            if view.look(_LIKE_CODE.search, text):
                yield call, text


@register
class CallsNativeCode(Rule):
    """Calls native code or touches raw memory.

    ## Description
    Reports `ctypes`, `cffi`, `mmap` and functions that load shared libraries or compile C.

    ## Why it matters
    Native code bypasses all checks of the interpreter. A wrong pointer crashes the kernel.

    ## Example
    ```python
    import ctypes
    ctypes.CDLL(None).system(b"...")
    ```

    ## What to do instead
    Use a package that wraps the library, or numpy for arrays.
    """

    code = "TJ107"
    name = "calls-native-code"
    category = Category.NATIVE
    level = HIGH
    effect = "calls native code or reaches raw memory"
    remedy = "Use a package that wraps the library."
