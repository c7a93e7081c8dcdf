"""Rules about processes: programs (TJ101), process control (TJ106), package installation (TJ109)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.cost import magnitude

if TYPE_CHECKING:
    from tract_jupyter.analysis.findings import RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import CodeView

_DEEP = 5.5  # log10 of frames


@register
class StartsProgram(Rule):
    """Starts another program.

    ## Description
    Reports every mention of a function that starts a program or replaces the process: `os.system`, the whole of
    `subprocess`, `os.exec*`, `os.spawn*`, `pty.spawn`, asyncio's subprocesses and similar functions, under any name.
    A shell command in the arguments of any other function is high: `node.run("rm -rf data")`.

    ## Why it matters
    The program has all permissions of the user, and the analysis of this code cannot show its effects.

    ## Example
    ```python
    import subprocess
    subprocess.run(["git", "push"])
    ```

    ## What to do instead
    Call a tool for this one purpose, whose arguments can be reviewed, or do it in Python.
    """

    code = "TJ101"
    name = "starts-program"
    category = Category.PROCESS
    level = CRITICAL
    effect = "starts another program"
    remedy = "Use a tool made for this one purpose, or do it in Python."


@register
class SteersProcess(Rule):
    """Forks, ends, signals or limits processes.

    ## Description
    Reports forks, kills, exits, signal handlers, resource limits and worker processes.

    ## Why it matters
    The kernel is the process that runs this code. Ending, forking or muting it also affects the notebook, its
    unsaved state and the record of approvals.

    ## Example
    ```python
    import os
    os.kill(os.getppid(), 9)
    ```

    ## What to do instead
    Return a value or raise an exception. Let the user start and stop the kernel.
    """

    code = "TJ106"
    name = "steers-process"
    category = Category.PROCESS
    level = HIGH
    effect = "controls a process"
    remedy = "Return a value or raise an exception instead."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel:
        """Raise the level of a recursion limit that is high enough to overflow the C stack."""
        call = view.call_of(reference.node)
        if reference.symbol != "sys.setrecursionlimit" or call is None or not call.args:
            return reference.level
        return MEDIUM if (magnitude(call.args[0], view) or 0) >= _DEEP else reference.level


@register
class InstallsPackage(Rule):
    """Installs packages.

    ## Description
    Reports Python modules of pip and other installers. TJ104 reports the magics `%pip` and `%conda`.

    ## Why it matters
    The installation runs code of the package's publisher, and changes the environment of all later code.

    ## Example
    ```python
    import pip
    pip.main(["install", "something"])
    ```

    ## What to do instead
    Name the package, and let the user install it.
    """

    code = "TJ109"
    name = "installs-package"
    category = Category.PROCESS
    level = HIGH
    effect = "installs or removes packages"
    remedy = "Ask the user to install it."
