"""Rules about the environment: reads (TJ501), writes (TJ502), and secret stores (TJ503)."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, LIKELY, LOW, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.lookup import rules_for
from tract_jupyter.analysis.rules.other_calls import words_of
from tract_jupyter.analysis.source import arguments_of
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.program import Binding
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView

_SECRET = re.compile(
    r"(?i)(?:^|_|api)keys?(?:_|$)|token|secret|pass|pwd$|cred|auth|private|cookie|session|dsn|database|_url$|_uri$|conn|cert|login|sign|salt"
    r"|aws|azure|gcp|google|openai|anthropic|github|slack|stripe|\ue000"
)


@derived
def steers_code(name: str) -> bool:
    """Return True if an environment variable chooses the code or the service that later programs use."""
    known = effects().words.get("steering_variables", frozenset())
    return any(fnmatchcase(name, pattern) for pattern in known) and not _SETTING.match(name)


_SETTING = re.compile(
    r"(?:CUDA_|TF_|OMP_|MKL_|KMP_|OPENBLAS_|NUMEXPR_|TOKENIZERS_|PYTORCH_|TORCH_|XLA_|JAX_|KERAS_|MPL|TRANSFORMERS_"
    r"|HF_HUB_(?!.*TOKEN)|HF_HOME|WANDB_(?!.*KEY)|RAY_|NCCL_|PYTHONHASHSEED|TZ$|LANG|LC_|COLUMNS$|LINES$|OPENCV_|SDL_)"
)
_CHANGES = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"})


@register
class ReadsEnvironment(Rule):
    """Reads environment variables.

    ## Description
    Reports `os.environ`, `os.getenv` and functions that read `.env` files. Reading all variables with their
    values (`dict(os.environ)`) is high, and so is showing, logging or storing the value of a secret.

    ## Why it matters
    The environment holds API keys and passwords. Code that reads them can print, send or commit them.

    ## Example
    ```python
    key = os.environ["OPENAI_API_KEY"]
    ```

    ## What to do instead
    Let the tool that needs the secret read it. Then the secret never passes through a cell.
    """

    code = "TJ501"
    name = "reads-environment"
    category = Category.ENVIRONMENT
    level = MEDIUM
    effect = "reads environment variables, which may hold secrets"
    remedy = "Let the tool that needs the secret read it."

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Leave writes to TJ502, and lower the level of variables whose names do not suggest a secret."""
        if _is_write(reference.node, view):
            return
        keys = _keys(reference.node, view)
        secret = not keys or any(view.look(_SECRET.search, key) for key in keys)
        level = reference.level if secret else LOW
        takes_all = reference.symbol in {"os.environ", "os.environb"} and _takes_all(reference.node, view)
        reason = f"{reference.shown} {_READS_ALL if takes_all else self.effect}."
        yield self.finding(view, reference.node, reason, HIGH if takes_all else level, reference.confidence)

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Find secrets in output, logs and files."""
        clean: set[ast.AST] = set()
        for node, values in view.deadline.watched(_shown(view)):
            if _holds_secret(values, clean, view):
                yield self.finding(view, node, "Shows or stores the value of a secret.", HIGH, LIKELY)


@register
class ChangesEnvironment(Rule):
    """Changes environment variables.

    ## Description
    Reports assignments to `os.environ`, `os.putenv` and `os.unsetenv`.

    ## Why it matters
    Variables such as `LD_PRELOAD`, `PATH` or `PYTHONPATH` choose the code that later programs run.

    ## Example
    ```python
    os.environ["LD_PRELOAD"] = "/tmp/x.so"
    ```

    ## What to do instead
    Pass settings as arguments, or set them before the kernel starts.
    """

    code = "TJ502"
    name = "changes-environment"
    category = Category.ENVIRONMENT
    level = MEDIUM
    effect = "changes environment variables for everything that starts later"
    remedy = "Pass settings as arguments."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel | None:
        """Raise the level for variables that choose which code runs."""
        if reference.symbol in {"os.environ", "os.environb"} and not _is_write(reference.node, view):
            return None
        keys = _keys(reference.node, view)
        if keys and all(map(_SETTING.match, keys)):
            return LOW
        return HIGH if any(map(steers_code, keys)) else reference.level


@register
class ReadsSecret(Rule):
    """Reads from a store of secrets.

    ## Description
    Reports `keyring`, `getpass.getpass`, `netrc` and the secret stores of hosted notebooks.

    ## Why it matters
    A password in a cell ends up in the output, in the history or in the context of a model.

    ## Example
    ```python
    import keyring
    keyring.get_password("service", "me")
    ```

    ## What to do instead
    Let a tool that needs the secret read it.
    """

    code = "TJ503"
    name = "reads-secret"
    category = Category.ENVIRONMENT
    level = MEDIUM
    effect = "reads secrets"
    remedy = "Let the tool that needs the secret read it."


_READS_ALL = "hands over all environment variables with their values"
_GIVES_ALL = frozenset({"items", "values", "copy", "__repr__", "__str__", "_data"})
_NAMES_ONLY = words(
    "len list set sorted iter bool any isinstance type id tuple frozenset enumerate getattr hasattr",
    "builtins.",
)


def _takes_all(node: ast.AST, view: CodeView) -> bool:
    """Return True if the code reads all variables with values: ``dict(os.environ)``, ``os.environ.items()``."""
    parent = view.parent(node)
    if isinstance(node, ast.Call) and view.resolver.value(node.func).names <= _NAMES_ONLY:
        return False
    if isinstance(parent, ast.Attribute):
        return parent.attr in _GIVES_ALL
    if isinstance(parent, ast.Subscript):
        return _is_each_key(parent.slice, view)
    if isinstance(parent, (ast.FormattedValue, ast.Expr, ast.BinOp, ast.Dict)):  # {**os.environ}
        return True
    if isinstance(parent, (ast.keyword, ast.Starred)):
        parent = view.parent(parent)
    if not isinstance(parent, ast.Call) or parent.func is node:
        return False
    names = view.resolver.value(parent.func).names
    own = view.resolver.value(parent.func).functions
    return not own and not (names and names <= _NAMES_ONLY) and not _starts(names)


def _is_each_key(key: ast.expr, view: CodeView) -> bool:
    """Return True if the key comes from a loop over all variables."""
    bindings = view.program.bindings_of(key) if isinstance(key, ast.Name) else ()
    loops = [each.node for each in bindings if each.kind == "element"]
    return any(
        isinstance(each, ast.expr) and "os.environ" in view.resolver.value(each).names for each in loops
    )


def _starts(names: frozenset[str]) -> bool:
    """Return True if the call starts a program. The program gets the environment anyway."""
    return any(
        name.startswith(("subprocess.", "os.exec", "os.spawn", "asyncio.create_sub")) for name in names
    )


def _is_write(node: ast.AST, view: CodeView) -> bool:
    parent = view.parent(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return not isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _CHANGES
    return isinstance(node, (ast.Attribute, ast.Name)) and not isinstance(node.ctx, ast.Load)


def _keys(node: ast.AST, view: CodeView) -> tuple[str, ...]:
    """Return the known names of the variables that the code reads or writes."""
    parent = view.parent(node)
    key = parent.slice if isinstance(parent, ast.Subscript) else view.argument(view.call_of(node), 0, "key")
    if key is None and parent is not None:
        call = view.call_of(parent)
        keywords = [keyword.arg for keyword in call.keywords if keyword.arg] if call is not None else []
        if keywords:
            return tuple(keywords)
        key = view.argument(call, 0)
    if key is None:
        return ()
    known = view.resolver.value(key)
    return tuple(text[:MAX_NAME] for text in (*known.texts, *(str(name) for name, _ in known.entries or ())))


# secrets that are shown

_SHOWS = words("""
    builtins.print pprint.pprint pprint.pp rich.print json.dump yaml.dump yaml.safe_dump pickle.dump sys.stdout.write
    IPython.display.display IPython.display.HTML IPython.display.Markdown IPython.display.Pretty
""")
_LOGS = words("debug info warning error critical log exception write write_text writelines")
_PASSES = words("""
    builtins.str builtins.repr builtins.dict builtins.zip builtins.format builtins.map builtins.filter json.dumps
    pprint.pformat yaml.dump base64.b64encode pandas.Series pandas.DataFrame polars.Series polars.DataFrame
""")
_ITERATES = words("list tuple set sorted enumerate next iter", "builtins.")
_MAPPINGS = frozenset({"os.environ", "os.environb", "dotenv.dotenv_values()", "streamlit.secrets"})
"""Mappings from names to secrets. Iterating over one gives only the names."""

_VALUE = re.compile(
    r"(?i)(?:^|_|api)keys?(?:_|$)|(?<!max_)token(?!s$|iz)|secret|passw|passphrase|_pass$|._?pwd$|(?<!application_)cred|private|cookie"
    r"|(?:^|_)(?:dsn|sas|jwt)(?:_|$)|(?:database|db|redis|mongo\w{0,9}|postgres\w{0,9}|mysql)_ur[il]|conn\w{0,9}_str|\ue000"
)
_NAMES_SECRET = words("secret secrets password passwords passwd credential credentials")
_TAKES = words("get read access fetch retrieve reveal load list describe find")
_LITTLE = words("keys startswith endswith isdigit count index find")
_MAX_PARTS = 300


def _shown(view: CodeView) -> Iterator[tuple[ast.expr, Sequence[ast.expr]]]:
    """Yield the calls that show or store values, and the last expression of the cell, each with these values."""
    for call in (*view.calls_to(_SHOWS), *view.method_calls(_LOGS)):
        yield call, arguments_of(call)
    tree = view.nodes[0] if view.nodes else None
    last = tree.body[-1] if isinstance(tree, ast.Module) and tree.body else None
    if isinstance(last, ast.Expr):
        yield last.value, [last.value]


def _holds_secret(nodes: Sequence[ast.expr], clean: set[ast.AST], view: CodeView) -> bool:
    """Return True if expressions may evaluate to the value of a secret. Add the parts without a secret to ``clean``."""
    stack, seen = list(nodes), set[ast.AST]()
    while stack and len(seen) < _MAX_PARTS:
        node = stack.pop()
        if node in seen or node in clean:
            continue
        seen.add(node)
        if _is_secret(node, view):
            return True
        parts_of = _PARTS_OF.get(type(node))
        stack += () if parts_of is None else parts_of(node, view)
    clean |= seen
    return False


def _is_secret(node: ast.expr, view: CodeView) -> bool:
    if isinstance(node, ast.Call) and view.resolver.value(node.func).names & (_PASSES | _ITERATES):
        return False  # its arguments decide
    names = view.resolver.value(node).names
    if not names.isdisjoint(_MAPPINGS):
        return True
    roots = {name.partition("()")[0] for name in names if "()" in name}
    known = {
        (rule.code, level >= HIGH) for root in roots for rule, level in rules_for(root) if level >= MEDIUM
    }
    if (ReadsSecret.code, True) in known:
        return True
    if not isinstance(node, ast.Call) or view.resolver.value(node.func).functions:
        return False
    return _asks_for_secret(node) or (
        bool(known & _READS_ONE) and bool(node.args) and _may_name_secret(node.args[0], view)
    )


_READS_ONE = {(ReadsEnvironment.code, False), (ReadsEnvironment.code, True), (ReadsSecret.code, False)}


def _asks_for_secret(call: ast.Call) -> bool:
    """Return True if a method of any object returns a secret by its name: ``vault.get_secret("db")``."""
    name_words = words_of(getattr(call.func, "attr", ""))
    named = not _TAKES.isdisjoint(name_words[:1]) and not _NAMES_SECRET.isdisjoint(name_words)
    return named or any(keyword.arg == "WithDecryption" for keyword in call.keywords)


def _may_name_secret(key: ast.expr, view: CodeView) -> bool:
    texts = view.resolver.value(key).texts
    return not texts or any(view.look(_VALUE.search, text[:MAX_NAME]) for text in texts)


def _of_name(node: ast.Name, view: CodeView) -> Sequence[ast.expr]:
    parts: list[ast.expr] = []
    for binding in view.program.bindings_of(node):
        if not isinstance(binding.node, ast.expr):
            continue
        if binding.kind == "value" or (binding.kind == "element" and not _gives_names(binding, view)):
            parts.append(binding.node)
    return parts


def _gives_names(binding: Binding, view: CodeView) -> bool:
    """Return True if a loop variable is a name from a mapping: ``for name in os.environ``."""
    node = binding.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
        return binding.path == (0,)
    return isinstance(node, ast.expr) and not view.resolver.value(node).names.isdisjoint(_MAPPINGS)


def _of_call(node: ast.Call, view: CodeView) -> Sequence[ast.expr]:
    names = view.resolver.value(node.func).names
    if names & _ITERATES:
        return [each for each in node.args if view.resolver.value(each).names.isdisjoint(_MAPPINGS)]
    if names & _PASSES:
        return node.args
    if not isinstance(node.func, ast.Attribute) or node.func.attr in _LITTLE:
        return ()
    if node.func.attr == "get" and node.args and not _may_name_secret(node.args[0], view):
        return ()
    return [node.func.value, *(node.args if node.func.attr in {"join", "format"} else ())]


def _of_item(node: ast.Subscript, view: CodeView) -> Sequence[ast.expr]:
    if isinstance(node.slice, ast.Slice) or (
        not view.resolver.value(node.value).names.isdisjoint(_MAPPINGS)
        and not _may_name_secret(node.slice, view)
    ):
        return ()  # a few characters, or another setting
    return [node.value]


_PARTS_OF: dict[type[ast.expr], Callable[..., Sequence[ast.expr]]] = {
    ast.Name: _of_name,
    ast.Call: _of_call,
    ast.Subscript: _of_item,
    ast.Attribute: lambda node, _: [node.value],
    ast.JoinedStr: lambda node, _: node.values,
    ast.FormattedValue: lambda node, _: [node.value],
    ast.BinOp: lambda node, _: [node.left, node.right],
    ast.Dict: lambda node, _: node.values,
    ast.IfExp: lambda node, _: [node.body, node.orelse],
    ast.BoolOp: lambda node, _: node.values,
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), lambda node, _: node.elts),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), lambda node, _: [node.elt]),
    ast.DictComp: lambda node, _: [node.value],
    **dict.fromkeys((ast.Starred, ast.Await, ast.NamedExpr), lambda node, _: [node.value]),
}
