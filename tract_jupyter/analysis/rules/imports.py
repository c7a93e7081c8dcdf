"""Rules about imports: by name (TJ401), replaced members (TJ405), import paths (TJ406), unknown packages (TJ407)."""

from __future__ import annotations

import ast
import difflib
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import HIGH, LIKELY, LOW, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.lookup import known_packages
from tract_jupyter.analysis.tables import known_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView, MemberWrite


@register
class ImportsByName(Rule):
    """Imports a module by a computed name or from a file.

    ## Description
    Reports `__import__`, `importlib.import_module`, loaders, `runpy`, `zipimport`, `pkgutil.resolve_name`,
    `pydantic.ImportString`, and calls that get the name of a dangerous function as text: `resolve("os.system")`.

    ## Why it matters
    The code has no import statement for the module, and data may choose the module.

    ## Example
    ```python
    __import__("o" + "s").system("...")
    ```

    ## What to do instead
    Use an `import` statement.
    """

    code = "TJ401"
    name = "imports-by-name"
    category = Category.INTROSPECTION
    level = HIGH
    effect = "imports a module by name"
    remedy = "Use an import statement."


@register
class ChangesImports(Rule):
    """Changes the source of imports.

    ## Description
    Reports `sys.path`, `sys.meta_path`, `sys.path_hooks` and `site.addsitedir`.

    ## Why it matters
    Each later import may then find other code, even the import of a reviewed module.

    ## Example
    ```python
    sys.path.insert(0, "/tmp/x")
    ```

    ## What to do instead
    Install the package, or start the kernel in the folder of the code.
    """

    code = "TJ406"
    name = "changes-imports"
    category = Category.TAMPERING
    level = MEDIUM
    effect = "changes the source of imports"
    remedy = "Install the package, or start the kernel in its folder."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel:
        """Lower the level if the code reads ``sys.path``, or adds a folder of the workspace to it."""
        return _path_level(reference, view) if reference.symbol == "sys.path" else reference.level


def _path_level(reference: Reference, view: CodeView) -> RiskLevel:
    node, parent = reference.node, view.parent(reference.node)
    call = view.call_of(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(parent, ast.Attribute) and call is not None and parent.attr in _CHANGES:
        texts = [text for argument in call.args for text in view.resolver.value(argument).texts]
        places = {view.workspace.locate(text) for text in texts}
        if places & {PathLocation.OUTSIDE, PathLocation.TEMPORARY}:
            return HIGH if any(text.startswith(("/", "~")) for text in texts) else MEDIUM
        return LOW if places == {PathLocation.INSIDE} else reference.level
    target = parent if isinstance(parent, ast.Subscript) else node
    return LOW if isinstance(getattr(target, "ctx", ast.Load()), ast.Load) else reference.level


_CHANGES = frozenset({"append", "insert", "extend", "remove", "pop", "clear", "__setitem__"})


@register
class ImportsUnknown(Rule):
    """Imports an unknown package.

    ## Description
    Reports imports of packages that are neither in the standard library nor well known in notebooks. The finding
    does not judge the package itself.

    ## Why it matters
    An import runs the package's code. A package whose name resembles a known one may be a trap.

    ## Example
    ```python
    import reqeusts
    ```

    ## What to do instead
    Nothing, if you intended to import the package. Otherwise look it up before you install anything.
    """

    code = "TJ407"
    name = "imports-unknown"
    category = Category.UNKNOWN
    level = LOW
    effect = "is not known here"
    remedy = "Look up the package, and check the spelling of its name."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check import statements."""
        for statement in view.of(ast.Import):
            for alias in statement.names:
                yield from self._judged(alias, alias.name, view)
        for member in view.of(ast.ImportFrom):
            if not member.level:
                yield from self._judged(member, member.module or "", view)

    def _judged(self, node: ast.alias | ast.ImportFrom, module: str, view: CodeView) -> Iterator[Finding]:
        package = module.partition(".")[0]
        if package in _KNOWN or package in known_packages() or view.workspace.has_module(package):
            return
        near = _nearly(package)
        if near:
            reason = f"{package} is not known here; its name closely resembles {near}."
            yield self.finding(view, node, reason, MEDIUM, LIKELY)
        else:
            yield self.finding(view, node, f"{package} {self.effect}.")


@lru_cache(maxsize=4096)
def _nearly(package: str) -> str | None:
    """Return a known package whose name differs by a typing error."""
    if not _LONG <= len(package) <= _LONGEST:
        return None
    known = [name for name in known_modules.KNOWN_HARMLESS if abs(len(name) - len(package)) <= 1]
    return next(iter(difflib.get_close_matches(package, known, 1, cutoff=_CLOSE)), None)


_CLOSE = 0.87
_LONG, _LONGEST = 6, 50
_KNOWN = (
    sys.stdlib_module_names
    | known_modules.KNOWN_HARMLESS
    | known_modules.REMOVED_STDLIB
    | {"tools", "tract_jupyter"}
)


_OPEN_PARTS = frozenset({"fields", "budget", "models", "profiles"})
_STREAMS = frozenset({"sys.stdout", "sys.stderr", "sys.stdin"})


@register
class ReplacesMember(Rule):
    """Replaces a member of a module that others use.

    ## Description
    Reports assignments to attributes of standard library modules (`json.loads = ...`, `setattr(os, ...)`),
    replaced functions and classes of other packages, replaced output streams, and
    hooks of the IPython shell.

    ## Why it matters
    All later cells call the replacement, and so does the code that reviews and records.

    ## Example
    ```python
    json.loads = lambda text: {"allowed": True}
    ```

    ## What to do instead
    Write a new function and call it. In tests, use `unittest.mock.patch` as a context manager.
    """

    code = "TJ405"
    name = "replaces-member"
    category = Category.TAMPERING
    level = HIGH
    effect = "changes how the notebook itself works"
    remedy = "Write a new function and call it."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check assignments to members of modules and classes, and of the objects that guard this notebook."""
        for write in view.member_writes:
            for name in sorted(_named(write.owner, view)):
                if name.endswith(".__dict__") and "()" not in name:
                    reason = f"Changes members of {name.removesuffix('.__dict__')}."
                    yield self.finding(view, write.node, reason)
                level = None if write.is_item else _level(name, write, view)
                if level is not None:
                    yield self.finding(
                        view, write.node, f"Replaces {name}.{write.member} for everybody.", level
                    )
        for call in view.method_calls(("clear",)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            for name in view.resolver.value(owner).names:
                if name.endswith(".__dict__") and "()" not in name:
                    yield self.finding(view, call, f"Changes members of {name.removesuffix('.__dict__')}.")


def _named(owner: ast.expr, view: CodeView) -> frozenset[str]:
    """Return the dotted names of an object. For ``type(x)`` and ``x.__class__``, include the names of x's class."""
    names = view.resolver.value(owner).names
    inner = owner.args[0] if isinstance(owner, ast.Call) and len(owner.args) == 1 else None
    if isinstance(owner, ast.Attribute) and owner.attr == "__class__":
        names, inner = names | {"?.__class__"}, owner.value
    elif "builtins.type()" not in names:
        return names
    kinds = view.resolver.value(inner).names if inner is not None else frozenset()
    return names | {name.removesuffix("()") for name in kinds if name.startswith("tract_jupyter.")}


def _level(name: str, write: MemberWrite, view: CodeView) -> RiskLevel | None:
    if name in sys.stdlib_module_names:
        return MEDIUM if f"{name}.{write.member}" in _STREAMS else HIGH
    package = name.partition(".")[0]
    if package == "tract_jupyter":
        part = name.partition("()")[2].partition(".")[2].partition(".")[0]
        deleted = isinstance(getattr(write.node, "ctx", None), ast.Del)
        opened = deleted or "()" not in name or write.member.startswith("_") or _is_own(write.value, view)
        return HIGH if opened or (part and part not in _OPEN_PARTS) else None
    if name == "builtins.type()" or name.endswith(".__class__"):
        return HIGH if _is_own(write.value, view) else None
    if "()" in name or "?" in name or package == "tools":
        return None
    # Settings of packages are set every day, openai.api_key = ...; their functions are not replaced.
    return HIGH if _is_own(write.value, view) else None


def _is_own(new: ast.expr | None, view: CodeView) -> bool:
    function = new.func if isinstance(new, ast.Call) else new
    return function is not None and bool(
        view.resolver.value(function).functions or _is_own_class(function, view)
    )


def _is_own_class(node: ast.expr, view: CodeView) -> bool:
    return isinstance(node, ast.Name) and node.id in view.program.classes
