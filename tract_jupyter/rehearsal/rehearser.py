"""Rehearse code in a contained copy, and keep its effects. The level of containment is found by trying it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import weakref
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import printable
from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.adopt import keep
from tract_jupyter.rehearsal.baseline import Baseline
from tract_jupyter.rehearsal.collect import observe, observe_nothing
from tract_jupyter.rehearsal.contain import (
    Containment,
    LevelName,
    hidden_paths,
    homes,
    is_below,
    package_paths,
    readable_paths,
)
from tract_jupyter.rehearsal.copy_tools import TOOLS, has_own_tools
from tract_jupyter.rehearsal.effects import Effects, FileEffect, RefusedAttempt
from tract_jupyter.rehearsal.engines import EngineName, Engines
from tract_jupyter.rehearsal.fork import CopyJob
from tract_jupyter.rehearsal.found import Findings, find_effects
from tract_jupyter.rehearsal.limits import RehearsalLimits
from tract_jupyter.rehearsal.redaction import Redactor, secret_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.rehearsal.backups import Backups
    from tract_jupyter.rehearsal.change import Change
    from tract_jupyter.rehearsal.parent import CopyOutcome, ToolReply

_MOST_OUTSIDE: Final = 100
_OUTSIDE: Final = "a file outside the workspace is written only by a run in the kernel"
_READ_LIMITS: Final = RehearsalLimits(seconds=5, cpu_seconds=5, memory=1024**3, values=256 * 1024**2)
_READ_CODE: Final = """
from pyarrow import BufferReader
from pyarrow.parquet import ParquetFile
for number, content in enumerate(contents):
    try:
        file = ParquetFile(BufferReader(content), pre_buffer=False)
        if file.metadata.num_rows * file.metadata.num_columns <= 20_000_000:
            globals()[f"table_{number}"] = file.read(use_threads=False)
    except Exception:
        continue
"""


class Rehearsal:
    """Code that ran in a copy, with its effects.

    Attributes:
        code: The code.
        effects: Its effects.
    """

    def __init__(
        self,
        effects: Effects,
        outcome: CopyOutcome,
        findings: Findings,
        namespace: dict[str, Any],
        backups: Backups,
    ) -> None:
        self.code = findings.baseline.code
        self.effects = effects
        self._free = weakref.finalize(self, outcome.close)
        self._free.atexit = False
        self._findings: Findings | None = findings
        self._namespace = namespace
        self._backups = backups

    def changed_since(self) -> tuple[str, ...]:
        """Return the variables and files that the effects touch and that changed after the start."""
        return self._held().changed_since(self._namespace)

    def keep(self) -> Change:
        """Make exactly these effects in the kernel and the workspace.

        Raises:
            RehearsalError: the effects cannot be kept, or something changed since. Nothing was changed.
        """
        findings = self._held()
        if not self.effects.is_complete:
            raise RehearsalError(
                "The effects cannot be kept: the code did not finish, or something was refused. Run it in the kernel."
            )
        change = keep(findings, self._namespace, self._backups)
        self.discard()
        return change

    def discard(self) -> None:
        """Free the copies of files and values."""
        self._findings = None
        self._free()

    def _held(self) -> Findings:
        if self._findings is None:
            raise RehearsalError("These effects were kept or discarded already. Rehearse the code again.")
        return self._findings


class Rehearser:
    """Rehearses code of one kernel.

    Args:
        workspace: The folder whose files the code may change.
        backups: The previous content of files that `keep` replaces.
        roots: More folders that the code may read.
        secrets: Texts that the copy must not have, and that are removed from all output.
        hidden: Names of variables that the copy must not have.
        private: Files and folders with secrets, which the copy must not read, also in a folder that it may read.
        limits: The limits of each rehearsal.
        level: The level of containment; None for the highest of this machine.
    """

    def __init__(
        self,
        workspace: Path,
        backups: Backups,
        *,
        roots: Callable[[], Sequence[Path]] = tuple,
        secrets: Callable[[], Collection[str]] = tuple,
        hidden: Callable[[], Collection[str]] = tuple,
        private: Callable[[], Collection[Path]] = tuple,
        limits: RehearsalLimits = RehearsalLimits(),  # noqa: B008 # immutable
        level: LevelName | None = None,
    ) -> None:
        self.workspace = workspace.resolve()
        self.backups = backups
        self.limits = limits
        self._roots = roots
        self._secrets = secrets
        self._hidden = hidden
        self._private = private
        self._level = level
        self._engines = Engines()
        self._is_bare = False

    def rehearse(
        self,
        code: str,
        namespace: dict[str, Any],
        *,
        tools: Callable[[str, dict[str, Any]], ToolReply] | None = None,
        stop: StopSignal | None = None,
        limits: RehearsalLimits | None = None,
        compares: bool = True,
    ) -> Rehearsal:
        """Run code in a copy and return its effects. Blocks until its end.

        Args:
            code: The code, with IPython's syntax if the namespace belongs to IPython.
            namespace: The variables. They stay as they are.
            tools: Answers `tools.NAME(...)` in the code. Called in this thread.
            stop: Ends the rehearsal.
            limits: Other limits.
            compares: False if the effects on variables and settings do not matter: comparing them takes time.

        Raises:
            RehearsalError: no rehearsal is possible on this machine. Nothing ran.
        """
        limits = limits or self.limits
        private = self._private_paths()
        self._check_workspace(private)
        containment = self._containment(limits, private)
        shell = _shell_of(namespace)
        secrets = {*self._secrets(), *secret_variables(os.environ).values(), *_session_key(shell)}
        hidden = frozenset(self._hidden())
        ignored = hidden | ({TOOLS} if has_own_tools(namespace) else set())
        baseline = Baseline.take(code, namespace, ignored)
        since = time.time_ns()
        job = CopyJob(
            code,
            namespace,
            containment,
            limits,
            observe=observe(code, ignored) if compares else observe_nothing,
            shell=shell,
            hidden=hidden,
            ignored=ignored,
            secrets=tuple(secrets),
            is_bare=self._is_bare,
        )
        engine, outcome = self._engines.run(job, tools=tools, stop=stop)
        if outcome.failure and self._level is None and containment.level == "full":
            outcome.close()  # such as a file system that cannot be below an overlay
            job = replace(job, containment=replace(containment, level="basic"))
            engine, outcome = self._engines.run(job, tools=tools, stop=stop)
        if outcome.failure:
            outcome.close()
            raise RehearsalError(
                f"The code cannot be contained: {outcome.failure}. Run it in the kernel instead."
            )
        redactor = Redactor(secrets)
        findings = self._findings_of(outcome, baseline, since, engine, job, redactor)
        findings.files += _files_outside(outcome, containment)
        effects = redactor.value(_effects_of(outcome, findings, engine))
        return Rehearsal(effects, outcome, findings, namespace, self.backups)

    def _findings_of(
        self,
        outcome: CopyOutcome,
        baseline: Baseline,
        since: int,
        engine: EngineName,
        job: CopyJob,
        redactor: Redactor,
    ) -> Findings:
        """Return the effects on variables, files and settings. A malformed report is the end of a crashed copy."""
        frames = [(frame.header, frame.payload) for frame in outcome.report.effects]
        outcome.report.effects.clear()
        own = self.backups.own_paths
        try:
            return find_effects(
                frames, baseline, self.workspace, upper=outcome.upper, since=since, own_paths=own,
                is_fork=engine == "fork", redact=redactor.text,
                read_columnar=lambda contents: _read_columnar(contents, job, self._engines, self.workspace),
            )  # fmt: skip
        except RehearsalError as error:
            outcome.ending, outcome.note = "crashed", str(error)
            return Findings(baseline, self.workspace)

    def run_bare(
        self,
        code: str,
        folder: Path,
        names: dict[str, Any],
        *,
        tools: Callable[[str, dict[str, Any]], ToolReply] | None = None,
        stop: StopSignal | None = None,
        limits: RehearsalLimits | None = None,
    ) -> Effects:
        """Run code that gets nothing of this kernel: no variables, files or environment, only packages. Keep nothing.

        Args:
            code: The code.
            folder: An empty folder, in which the code runs. It stays empty.
            names: Importable objects that the code can use by a name.
            tools: See `rehearse`.
            stop: See `rehearse`.
            limits: See `rehearse`.

        Raises:
            RehearsalError: this machine cannot contain code. Nothing ran.
        """
        bare = Rehearser(
            folder, self.backups, secrets=self._secrets, private=self._private, level=self._level
        )
        bare._is_bare = True
        rehearsal = bare.rehearse(code, names, tools=tools, stop=stop, limits=limits or self.limits)
        rehearsal.discard()
        return rehearsal.effects

    def close(self) -> None:
        """End the worker process of this kernel. The next rehearsal that needs it starts it again."""
        self._engines.worker.close()

    def _private_paths(self) -> set[str]:
        """Return the real paths that the copy must not read. Of a folder above what it needs, only the files."""
        found = {os.path.realpath(path) for path in self._private() if os.path.exists(path)}  # noqa: PTH110
        needed = [os.fspath(self.workspace.parent), *package_paths()]
        wide = {path for path in found if any(is_below(one, [path]) for one in needed)}
        files = {entry.path for path in wide for entry in os.scandir(path) if entry.is_file()}
        return found - wide | files

    def _check_workspace(self, private: Collection[str]) -> None:
        """Refuse a workspace of keys, or above the user's home folder: the code may read the workspace."""
        if os.fspath(self.workspace) in private:
            raise RehearsalError(
                f"There is no rehearsal in {self.workspace}: this folder has Jupyter's secrets and tokens. Start the "
                "notebook in a folder of your project."
            )
        if not self.workspace.name or any(self.workspace in home.parents for home in homes()):
            raise RehearsalError(
                f"There is no rehearsal in {self.workspace}: it contains your home folder, with its keys. Start the "
                "notebook in your home folder, or in a folder of your project."
            )

    def _containment(self, limits: RehearsalLimits, private: Collection[str]) -> Containment:
        level: Any = self._level
        if level is None:
            level, reason = probe()
            if level == "none":
                raise RehearsalError(
                    f"No rehearsal is possible. {reason} Run the code in the kernel instead."
                )
        paths = package_paths() if self._is_bare else readable_paths(self.workspace, self._roots(), private)
        hidden = hidden_paths(self.workspace, paths, private)
        return Containment(level, os.fspath(self.workspace), paths, limits.disk, hidden)


def _shell_of(namespace: dict[str, Any]) -> Any:
    """Return IPython's shell if the namespace belongs to it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if shell is not None and shell.user_ns is namespace else None


def _session_key(shell: Any) -> Iterator[str]:
    """Yield the key with which the kernel signs its messages."""
    key = getattr(getattr(getattr(shell, "kernel", None), "session", None), "key", b"")
    if isinstance(key, bytes) and key:
        yield key.decode("utf-8", "surrogateescape")


def _files_outside(outcome: CopyOutcome, containment: Containment) -> list[FileEffect]:
    """Return the effects on files outside the workspace. They cannot be kept."""
    paths = [] if outcome.upper is None else containment.left_outside(outcome.upper)
    return [FileEffect(printable(path), "created", problem=_OUTSIDE) for path in paths[:_MOST_OUTSIDE]]


def _effects_of(outcome: CopyOutcome, findings: Findings, engine: EngineName) -> Effects:
    report = outcome.report
    return replace(
        findings.effects,
        level=outcome.level,
        engine=engine,
        ending=outcome.ending,
        ending_note=outcome.note,
        seconds=outcome.seconds,
        outputs=tuple(report.outputs),
        calls=tuple(outcome.calls),
        refused=tuple(_merged(report.refused)),
        digest=findings.digest(report.outputs),
    )


def _merged(refusals: Iterable[RefusedAttempt]) -> Iterable[RefusedAttempt]:
    return (replace(refusal, times=times) for refusal, times in Counter(refusals).items())


def _read_columnar(contents: Sequence[bytes], job: CopyJob, engines: Engines, workspace: Path) -> list[Any]:
    """Return the tables of Parquet files. None for a file that cannot be read within the limits.

    A contained copy reads them: their readers are no safe place for hostile bytes. The tables come back in their safe
    form, as variables do. The copy has the same containment as the job whose code wrote the files.
    """
    nothing: list[Any] = [None] * len(contents)
    if "pyarrow" not in sys.modules or "pandas" not in sys.modules or not contents:
        return nothing
    namespace: dict[str, Any] = {"contents": list(contents)}
    reading = replace(
        job, code=_READ_CODE, namespace=namespace, limits=_READ_LIMITS, observe=observe(_READ_CODE), shell=None,
        hidden=frozenset(),
    )  # fmt: skip
    engine, outcome = engines.run(reading)
    outcome.close()
    frames = [(frame.header, frame.payload) for frame in outcome.report.effects]
    try:
        found = find_effects(
            frames, Baseline.take(_READ_CODE, namespace), workspace, is_fork=engine == "fork"
        ).values
    except RehearsalError:
        return nothing
    return [found.get(f"table_{number}") for number in range(len(contents))]


_PROBE_LIMITS: Final = RehearsalLimits(seconds=10.0, disk=1 << 20)


class Level(NamedTuple):
    """The level of containment that this machine permits.

    Attributes:
        name: `full`, `basic` (no file can be written), or `none` (no rehearsal is possible).
        reason: one sentence. For `full`, the parts of the containment; otherwise, the reason for the lower level.
    """

    name: Literal["full", "basic", "none"]
    reason: str


@cache
def probe() -> Level:
    """Return the level of this machine. The first call tries it, in about 100 ms."""
    if not linux.IS_SUPPORTED:
        return Level("none", "A rehearsal needs Linux on x86-64 or aarch64.")
    if not linux.landlock_abi():
        return Level(
            "none", "A rehearsal needs Landlock, which this kernel of Linux does not have or does not enable."
        )
    problem = _problem("full")
    if not problem:
        return Level("full", "Namespaces, an overlay, Landlock and seccomp contain the code.")
    worse = _problem("basic")
    if not worse:
        return Level(
            "basic", f"Code cannot write files: this machine does not permit namespaces ({problem})."
        )
    return Level("none", f"This machine does not permit containment ({worse}).")


def _problem(level: LevelName) -> str:
    """Return the reason why a level does not work; empty if it works."""
    with tempfile.TemporaryDirectory(prefix="tract-probe-") as folder:
        workspace = Path(folder).resolve()
        containment = Containment(level, os.fspath(workspace), readable_paths(workspace), _PROBE_LIMITS.disk)
        job = CopyJob("", {}, containment, _PROBE_LIMITS, lambda _: lambda: ())
        _, outcome = Engines().run(job)
    outcome.close()
    return outcome.failure or ("" if outcome.ending == "finished" else outcome.note or outcome.ending)
