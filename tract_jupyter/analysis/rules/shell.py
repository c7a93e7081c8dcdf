"""Rules about IPython syntax: shell escapes (TJ103), and magics that run, install, load or write (TJ104)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.ipython_syntax import PYTHON_CELL_MAGICS, is_shell
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, LIKELY, LOW, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.environment import steers_code
from tract_jupyter.analysis.rules.other_calls import is_command
from tract_jupyter.analysis.tables import magics
from tract_jupyter.analysis.tables.effects import of_set
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.ipython_syntax import Escape
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView


@register
class EscapesToShell(Rule):
    """Runs a shell command.

    ## Description
    Reports `!command`, `!!command`, `x = !command`, `%system`, `%sx`, and cells such as `%%bash` and
    `%%script`.

    ## Why it matters
    The shell has all permissions of the user, and the analysis of Python cannot show the effects of a command.

    ## Example
    ```python
    !rm -rf results
    ```

    ## What to do instead
    Use a tool made for this one purpose, or do it in Python.
    """

    code = "TJ103"
    name = "escapes-to-shell"
    category = Category.PROCESS
    level = CRITICAL
    effect = "runs a shell command"
    remedy = "Use a tool made for this one purpose, or do it in Python."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the escapes that the line scanner found."""
        for escape in view.escapes:
            if is_shell(escape):
                name = "%%" + escape.name if escape.kind == "cell_magic" else escape.name
                yield self.finding(view, escape.span, f"{name} {self.effect}.")
            elif any(map(is_command, escape.unknown_text().splitlines())):
                reason = f"{escape.name} is an unknown magic, and gets a shell command."
                yield self.finding(view, escape.span, reason, HIGH, LIKELY)


@register
class UsesMagic(Rule):
    """Uses a magic that runs other code, installs, loads or writes.

    ## Description
    Reports line and cell magics by their effect. Unknown magics have a low or medium level. The Python in
    `%timeit`, `%time` and `%%capture` is analyzed as usual. The text of an unknown magic is analyzed as Python,
    shell commands and SQL.

    ## Why it matters
    A magic is a function call that does not look like one. `%run` and `%load_ext` run a whole file.

    ## Example
    ```python
    %pip install something
    ```

    ## What to do instead
    Call the function itself, or let the user install and load packages.
    """

    code = "TJ104"
    name = "uses-magic"
    category = Category.CODE_EXECUTION
    level = HIGH
    effect = "runs, installs, loads or writes"
    remedy = "Call the function itself, or leave this to the user."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the escapes that the line scanner found."""
        for escape in view.escapes:
            level = None if is_shell(escape) else _level(escape, view)
            if level is not None:
                sign = "%%" if escape.kind == "cell_magic" else "%"
                yield self.finding(view, escape.span, f"{sign}{escape.name} {_effect(escape, level)}.", level)

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Judge ``run_line_magic`` by the magic that it names."""
        call = view.call_of(reference.node)
        texts = view.value(view.argument(call, 0, "magic_name")).texts
        names = [text.split()[0].lstrip("%") for text in texts if text.split()]
        lines = view.value(view.argument(call, 1, "line")).texts
        if names == ["tract"] and any(text.split()[:1] == ["decide"] for text in lines):
            names = []
        if names and all(magics.LINE.get(name, HIGH) is None for name in names):
            return
        known = [magics.LINE.get(name) or LOW for name in names]
        level = CRITICAL if any(name in magics.SHELL_LINE for name in names) else max(known, default=HIGH)
        yield self.finding(
            view, reference.node, f"{reference.shown} runs a magic.", level, reference.confidence
        )


def _level(escape: Escape, view: CodeView) -> RiskLevel | None:
    if escape.kind in {"help", "autocall"} or escape.name.startswith("tract"):
        return None
    judge = _cell_level if escape.kind == "cell_magic" else _line_level
    return judge(escape.name, escape.rest.strip(), view)


def _cell_level(name: str, rest: str, view: CodeView) -> RiskLevel | None:
    if name in {"writefile", "file"}:
        target = re.sub(r"\{.*?\}|\$\w+", HOLE, (rest.split() or [""])[-1])
        return LOW if view.workspace.locate(target) in {PathLocation.INSIDE, PathLocation.TEMPORARY} else HIGH
    return None if name in PYTHON_CELL_MAGICS else magics.CELL.get(name, MEDIUM)


def _line_level(name: str, rest: str, view: CodeView) -> RiskLevel | None:
    level = magics.LINE.get(name, LOW)
    setting = rest.partition("=")[0].strip()
    if name == "config" and (
        "(" in rest or of_set(f"*.{setting.rpartition('.')[2]}")
    ):  # it is evaluated, or decides
        level = HIGH
    if name in {"env", "set_env"} and _SETS.search(rest) and steers_code(re.split(r"[=\s]", rest)[0]):
        level = HIGH
    if name == "env" and not rest:  # shows all variables with their values
        level = HIGH
    if name == "alias_magic" and len(rest.split()) > 1:
        level = magics.LINE.get(rest.split()[1].lstrip("%"), HIGH)
    if name in {"cd", "pushd"} and view.workspace.locate(rest) is PathLocation.OUTSIDE:
        level = MEDIUM
    if name in {"load_ext", "reload_ext"} and rest in magics.HARMLESS_EXTENSIONS:
        level = None
    return level


_SETS = re.compile(r"\S[=\s]+\S")


def _effect(escape: Escape, level: RiskLevel) -> str:
    known = escape.name in (magics.CELL if escape.kind == "cell_magic" else magics.LINE)
    if not known:
        return "is an unknown magic; look it up first"
    return UsesMagic.effect if level > LOW else "shows content, or writes it to a file"
