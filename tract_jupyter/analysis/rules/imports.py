"""Imports by name (TJ401) and changes of what import finds (TJ406)."""

from __future__ import annotations

from typing import ClassVar

from tract_jupyter.analysis.rules.base import HIGH, LOW, MEDIUM, Rule, levels, register


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
    category = "reflection"
    level = HIGH
    effect = "imports a module by name"
    remedy = "Use an import statement."
    symbols: ClassVar = {
        **levels(HIGH, "builtins.__import__ importlib.import_module importlib.__import__ imp.*"),
        **levels(HIGH, "importlib.machinery.* importlib.util.* importlib.abc.*"),
        **levels(LOW, "importlib.util.find_spec importlib.reload"),
        **levels(HIGH, "zipimport.* pkgutil.resolve_name pkgutil.get_loader pkgutil.find_loader"),
        **levels(
            HIGH, "pydoc.locate pydoc.safeimport pydoc.importfile IPython.utils.importstring.import_item"
        ),
        **levels(HIGH, "pkg_resources.load_entry_point builtins.__loader__ builtins.__spec__"),
        **levels(HIGH, "*.load_module *.exec_module *.__loader__ *.__import__"),
    }
    modules: ClassVar = {
        **levels(LOW, "importlib importlib.util"),
        **levels(MEDIUM, "imp zipimport importlib.machinery"),
        **dict.fromkeys(("importlib.metadata", "importlib.resources"), None),
    }


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
    category = "reflection"
    level = MEDIUM
    effect = "decides where imports come from"
    remedy = "Install the package, or start the kernel in its folder."
    symbols: ClassVar = {
        **levels(MEDIUM, "sys.path site.addsitedir sys.path_importer_cache"),
        **levels(HIGH, "sys.meta_path sys.path_hooks builtins.__build_class__"),
    }
