"""Imports by name (TJ401) and changes of what import finds (TJ406)."""

from __future__ import annotations

from typing import ClassVar

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, MEDIUM, Rule, register
from tract_jupyter.analysis.tables import introspection, tampering


@register
class ImportsByName(Rule):
    """Imports a module by a computed name or from a file.

    ## What it does
    Reports `__import__`, `importlib.import_module`, loaders, `runpy`, `zipimport`, `pkgutil.resolve_name`.

    ## Why it matters
    The import does not show in the code's import lines, and what is imported may be chosen by data.

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
    symbols: ClassVar = introspection.IMPORTS_BY_NAME
    modules: ClassVar = introspection.IMPORTS_BY_NAME_MODULES


@register
class ChangesImports(Rule):
    """Changes where imports come from.

    ## What it does
    Reports `sys.path`, `sys.meta_path`, `sys.path_hooks` and `site.addsitedir`.

    ## Why it matters
    Every later import, also one of a module that was reviewed, may then find other code.

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
    effect = "decides where imports come from"
    remedy = "Install the package, or start the kernel in its folder."
    symbols: ClassVar = tampering.CHANGES_IMPORTS
