"""Processes: starting programs (TJ101), steering processes (TJ106), installing packages (TJ109)."""

from __future__ import annotations

from typing import ClassVar

from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, LOW, MEDIUM, Rule, levels, register

_EXEC = "execl execle execlp execlpe execv execve execvp execvpe"
_SPAWN = "spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"


@register
class StartsProgram(Rule):
    """Starts another program.

    ## What it does
    Reports every mention of a function that starts a program or replaces this one: `os.system`, the whole of
    `subprocess`, `os.exec*`, `os.spawn*`, `pty.spawn`, asyncio's subprocesses and the like, by whatever name.

    ## Why it matters
    A program that was started has all rights of the person who runs the notebook, and nothing that is shown
    about this code says what that program does.

    ## Example
    ```python
    import subprocess
    subprocess.run(["git", "push"])
    ```

    ## What to do instead
    Call a tool that does just that one thing, so that its arguments can be reviewed, or do it in Python.
    """

    code = "TJ101"
    name = "starts-program"
    category = "process"
    level = CRITICAL
    effect = "starts another program"
    remedy = "Use a tool made for this one purpose, or do it in Python."
    symbols: ClassVar = {
        **levels(CRITICAL, f"system popen startfile posix_spawn posix_spawnp chroot {_EXEC}", "os."),
        **levels(HIGH, _SPAWN, "os."),
        **levels(CRITICAL, "run call check_call check_output Popen getoutput getstatusoutput", "subprocess."),
        **levels(CRITICAL, "subprocess.*"),
        **levels(
            CRITICAL, "pty.spawn pexpect.* popen2.* commands.* _posixsubprocess.* sh.* plumbum.* fabric.*"
        ),
        **levels(CRITICAL, "create_subprocess_shell create_subprocess_exec", "asyncio."),
        **levels(CRITICAL, "create_subprocess_shell create_subprocess_exec", "asyncio.subprocess."),
        **levels(CRITICAL, "subprocess_shell subprocess_exec", "asyncio.get_event_loop()."),
        **levels(CRITICAL, "subprocess_shell subprocess_exec", "asyncio.get_running_loop()."),
        **levels(
            CRITICAL,
            "*.create_subprocess_shell *.create_subprocess_exec *.subprocess_shell *.subprocess_exec",
        ),
        **levels(CRITICAL, "system getoutput getoutputerror process_handler", "IPython.utils.process."),
        **levels(
            CRITICAL, "anyio.run_process anyio.open_process trio.run_process trio.lowlevel.open_process"
        ),
        **levels(HIGH, f"system popen startfile posix_spawn {_EXEC} {_SPAWN}", "?."),
        **levels(HIGH, "Popen check_output check_call getoutput fork_exec", "?."),
    }
    modules: ClassVar = levels(HIGH, "subprocess pty popen2 commands _posixsubprocess pexpect")


@register
class SteersProcess(Rule):
    """Forks, ends, signals or limits processes.

    ## What it does
    Reports forks, kills, exits, signal handlers, resource limits and worker processes.

    ## Why it matters
    The kernel is the process that runs this code: ending, forking or muting it takes the notebook, its
    unsaved state and the record of what was approved along.

    ## Example
    ```python
    import os
    os.kill(os.getppid(), 9)
    ```

    ## What to do instead
    Return a value or raise an exception, and leave the life of the kernel to the person at the notebook.
    """

    code = "TJ106"
    name = "steers-process"
    category = "process"
    level = HIGH
    effect = "steers a process"
    remedy = "Return a value or raise an exception instead."
    symbols: ClassVar = {
        **levels(HIGH, "fork forkpty kill killpg _exit abort", "os."),
        **levels(MEDIUM, "dup2 setuid setgid setsid nice setpriority", "os."),
        **levels(MEDIUM, "exit setrecursionlimit settrace setprofile", "sys."),
        **levels(
            MEDIUM, "builtins.SystemExit builtins.exit builtins.quit threading.settrace threading.setprofile"
        ),
        **levels(MEDIUM, "signal alarm setitimer pthread_kill raise_signal", "signal."),
        **levels(MEDIUM, "resource.setrlimit atexit.unregister faulthandler.disable"),
        **levels(
            MEDIUM, "multiprocessing.Process multiprocessing.Pool concurrent.futures.ProcessPoolExecutor"
        ),
        **levels(HIGH, "psutil.Process().kill psutil.Process().terminate"),
        **levels(LOW, "logging.disable builtins.input"),
    }
    modules: ClassVar = {**levels(LOW, "multiprocessing"), "multiprocessing.pool": None}


@register
class InstallsPackage(Rule):
    """Installs packages.

    ## What it does
    Reports the use of pip's or another installer's Python modules. The magics `%pip` and `%conda` are TJ104.

    ## Why it matters
    Installing runs code of whoever published the package, and changes the environment for everything after
    it.

    ## Example
    ```python
    import pip
    pip.main(["install", "something"])
    ```

    ## What to do instead
    Name the package to the person at the notebook and let them install it.
    """

    code = "TJ109"
    name = "installs-package"
    category = "process"
    level = HIGH
    effect = "installs or removes packages"
    remedy = "Ask the person at the notebook to install it."
    symbols: ClassVar = levels(
        HIGH, "pip.* ensurepip.* micropip.* conda.* setuptools.setup easy_install.* site.main"
    )
    modules: ClassVar = levels(MEDIUM, "pip ensurepip micropip conda")
