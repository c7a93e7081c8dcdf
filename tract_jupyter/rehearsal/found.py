"""The side of the kernel: computes the effects from received data, and holds the data until it is kept or discarded."""

from __future__ import annotations

import builtins
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import cut, one_line
from tract_jupyter.rehearsal.baseline import Baseline, digest, is_fixed, is_variable
from tract_jupyter.rehearsal.contain import is_hidden_in_home
from tract_jupyter.rehearsal.contents import changed_parts
from tract_jupyter.rehearsal.describe import describe
from tract_jupyter.rehearsal.effects import Action, Effects, FileEffect, SettingEffect, VariableEffect
from tract_jupyter.rehearsal.files import (
    ChangedFiles,
    ReadColumnar,
    file_effects,
    is_installed,
    read_upper,
    shown_path,
    state_below,
)
from tract_jupyter.rehearsal.functions import definition_digests
from tract_jupyter.rehearsal.linux import opened
from tract_jupyter.rehearsal.settings import MISSING, ChangedSetting, check_setting, effect_of
from tract_jupyter.rehearsal.tables import compare_frames
from tract_jupyter.rehearsal.values import Buffer, Decoder, check, malformed, split

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tract_jupyter.rehearsal.effects import Output

_LONGEST: Final = 200
_LONGEST_NAME: Final = 200
_MOST_VARIABLES: Final = 5_000
_MOST_TABLES: Final = 50
_COMPILED: Final = (".pyc", ".pyo", ".so", ".pyd")
_SCALARS: Final = frozenset({str, int, float, bool, complex, bytes, type(None), type(...)})
_OTHER_FUNCTION: Final = "the code changed the function after its definition, so it has no safe form"


@dataclass(frozen=True, slots=True)
class Import:
    """A name that an `import` of the code binds. It is imported when the effects are kept.

    Attributes:
        module: The module, or several of a package, separated by commas.
        attribute: See `Baseline.imports`.
        kind: The description of the object in the copy. The imported one must have the same.
    """

    module: str
    attribute: str | None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function that the code defines. It is made from the code, not from data, when the effects are kept."""

    node: ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Findings:
    """The received effects, with the data to keep.

    Attributes:
        baseline: The variables before.
        workspace: The folder of the files.
        variables: The effects on variables.
        files: The effects on files.
        settings: The effects on settings.
        values: The new value of each created or changed variable that has a safe form, an `Import` or a `Definition`.
        deleted: Names of deleted variables.
        received_settings: The settings to set.
        digests: Digests of the variables that the code can reach, before the code ran.
        replaced: Names whose earlier values the copy did not have, because they have no safe form, and that the code
            bound to other values. The effect cannot depend on the earlier state.
        upper: The changed files.
        hashed: The SHA-256 of the code and the received data so far.
    """

    baseline: Baseline
    workspace: Path
    variables: list[VariableEffect] = field(default_factory=list)
    files: list[FileEffect] = field(default_factory=list)
    settings: list[SettingEffect] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    received_settings: list[ChangedSetting] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    upper: ChangedFiles | None = None
    hashed: Any = field(default_factory=hashlib.sha256)

    @property
    def effects(self) -> Effects:
        """The effects as a value, without the ones that the channel reports."""
        return Effects(
            variables=tuple(self.variables), files=tuple(self.files), settings=tuple(self.settings)
        )

    def digest(self, outputs: Iterable[Output] = ()) -> str:
        """Return the SHA-256 over the code and all received data, with the outputs."""
        total = self.hashed.copy()
        for output in outputs:
            # the text comes first, and is never in `data`: so each output has one beginning
            for mime, value in [("text/plain", output.text), *sorted(output.data.items())]:
                data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
                _add(total, ["output", output.kind, mime], data)
        digits: str = total.hexdigest()
        return digits

    def changed_since(self, namespace: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the variables and files that the effects touch and that changed after the start."""
        names = {effect.name for effect in self.variables} | self.digests.keys()
        found = [name for name in sorted(names) if self._is_changed(name, namespace)]
        return (*found, *self._changed_files())

    def _is_changed(self, name: str, namespace: Mapping[str, Any]) -> bool:
        before = self.baseline.values
        if name not in before:
            return name in namespace
        if name not in namespace or namespace[name] is not before[name]:
            return True
        return name in self.digests and digest(before[name]) != self.digests[name]

    def checked(self, effect: VariableEffect) -> VariableEffect:
        """Return the effect, with a problem if `changed_since` could not notice a change of the variable."""
        name = effect.name
        old = self.baseline.values.get(name)
        is_known = name in self.digests or name in self.replaced or is_fixed(old)
        if effect.action == "created" or effect.problem or effect.is_left_out or is_known:
            return effect
        return replace(effect, problem="its earlier state is unknown")

    def _changed_files(self) -> list[str]:
        if self.upper is None:
            return []
        with opened(self.workspace) as folder:
            return [
                shown_path(change.path)
                for change in self.upper.changes
                if change.is_late
                or (
                    not change.is_folder
                    and not change.problem
                    and state_below(folder, change.path) != change.before
                )
            ]


def _add(total: Any, header: Any, data: Buffer = b"") -> None:
    text = json.dumps(header, sort_keys=True).encode()
    total.update(len(text).to_bytes(8, "big") + text + memoryview(data).nbytes.to_bytes(8, "big"))
    total.update(data)


def find_effects(
    frames: Iterable[tuple[dict[str, Any], Buffer]],
    baseline: Baseline,
    workspace: Path,
    *,
    upper: int | None = None,
    since: int | None = None,
    own_paths: str = "",
    is_fork: bool = True,
    read_columnar: ReadColumnar | None = None,
    redact: Callable[[str], str] = str,
) -> Findings:
    """Return the effects of received frames and of an upper folder.

    Args:
        frames: (header, payload) of each frame that `observe` yielded in the copy.
        baseline: The variables before.
        workspace: The folder below the overlay.
        upper: A descriptor of the overlay's upper folder. None if no file can be written.
        since: The start of the rehearsal, in nanoseconds.
        own_paths: The beginning of paths that the code may not change: the store's.
        read_columnar: Reads changed Parquet files. None to compare their sizes only.
        is_fork: False if the copy had copies of the variables: then it had no variable without a safe form.
        redact: Returns a text without secrets.

    Raises:
        RehearsalError: the data is malformed.
    """
    findings = Findings(baseline, workspace)
    _add(findings.hashed, ["code"], baseline.code.encode("utf-8", "surrogatepass"))
    receiver = _Receiver(findings, redact, is_fork=is_fork)
    for header, payload in frames:
        receiver.add(header, payload)
    findings.variables = list(map(findings.checked, findings.variables))
    if upper is not None:
        findings.upper = read_upper(upper, workspace, since=since)
        for change in findings.upper.changes:
            if own_paths and f"{workspace}/{change.path}".startswith(own_paths):
                change.problem = change.problem or "it belongs to the store of this notebook"
            elif is_installed(change.path, workspace):
                change.problem = change.problem or "it belongs to an installed package"
            elif change.action != "deleted" and change.path.endswith(_COMPILED):
                change.problem = (
                    change.problem or "Python would run this compiled file in place of its source"
                )
            elif is_hidden_in_home(change.path, workspace):
                change.problem = change.problem or "it is a hidden file of your home folder"
            elif _is_open_database(change.path, workspace):
                change.problem = change.problem or "it is an SQLite database that is open"
        findings.files = list(file_effects(findings.upper, workspace, read_columnar))
        for change in findings.upper.changes:
            state = change.after
            parts = change.folder_mode if state is None else [state.sha256, state.mode]
            _add(
                findings.hashed,
                ["file", change.path.encode("utf-8", "surrogateescape").hex(), change.action, parts],
            )
    return findings


def _is_open_database(path: str, workspace: Path) -> bool:
    """Return True for a database in WAL mode, or its log, that a connection uses now.

    A connection of the kernel would continue with the replaced file.
    """
    database = path.removesuffix("-wal").removesuffix("-shm")
    try:
        return (workspace / f"{database}-wal").exists()
    except OSError:  # the name is too long
        return False


class _Receiver:
    def __init__(self, findings: Findings, redact: Callable[[str], str], *, is_fork: bool) -> None:
        self._findings = findings
        self._redact = redact
        self._is_fork = is_fork
        self._decoder = Decoder(findings.baseline.values)
        self._seen: set[str] = set()

    def add(self, header: dict[str, Any], payload: Buffer) -> None:
        try:
            self._add(header, payload)
        except RehearsalError:
            raise
        except Exception as error:  # noqa: BLE001 # hostile data may raise anything in a library
            raise malformed(f"{type(error).__name__}: {cut(str(error), _LONGEST)}") from None

    def _add(self, header: dict[str, Any], payload: Buffer) -> None:
        what = header.get("what")
        if what == "digests":
            self._add_digests(header)
        elif what == "variable":
            self._add_variable(header, payload)
        elif what == "setting":
            self._add_setting(header, payload)
        else:
            check(False, "the kind of an effect")  # noqa: FBT003 # always wrong
        _add(self._findings.hashed, header if what != "digests" else ["digests"], payload)

    def _add_digests(self, header: dict[str, Any]) -> None:
        digests = header.get("digests")
        check(isinstance(digests, dict) and not self._findings.digests, "digests")
        values = self._findings.baseline.values
        for name, text in (digests or {}).items():
            check(isinstance(text, str), "digests")
            if name in values:
                self._findings.digests[name] = text

    def _add_variable(self, header: dict[str, Any], payload: Buffer) -> None:
        name = header.get("name")
        check(
            isinstance(name, str) and len(name) <= _LONGEST_NAME and is_variable(name),
            "the name of a variable",
        )
        assert isinstance(name, str)  # noqa: S101 # for the type checker
        check(name not in self._seen, "two effects on one variable")
        check(len(self._seen) < _MOST_VARIABLES, f"more than {_MOST_VARIABLES:,} effects")
        self._seen.add(name)
        findings, values = self._findings, self._findings.baseline.values
        has_old = name in values
        before = describe(values[name]) if has_old else ""
        if header.get("action") == "deleted":
            check(has_old, "a deleted variable")
            findings.deleted.add(name)
            findings.variables.append(VariableEffect(name, "deleted", before))
            return
        action: Action = "changed" if has_old else "created"
        if "problem" in header:
            findings.variables.append(self._refused(name, action, before, header))
            return
        value = self._decode(header, payload)
        if has_old and value is values[name]:
            return
        findings.values[name] = value
        if has_old and not self._is_fork and header.get("in_place") is not True:
            findings.replaced.add(name)
        table = compare_frames(values.get(name), value) if len(self._seen) <= _MOST_TABLES else None
        detail = ("" if table is None else table.summary) or self._difference(name, value) if has_old else ""
        aliases = self._aliases(name) if header.get("in_place") is True else ()
        findings.variables.append(
            VariableEffect(name, action, before, describe(value), detail, table, "", aliases)
        )

    def _decode(self, header: dict[str, Any], payload: Buffer) -> Any:
        sizes = header.get("sizes")
        check(isinstance(sizes, list), "the sizes of buffers")
        return self._decoder.decode(split(payload, sizes or []))

    def _difference(self, name: str, value: Any) -> str:
        """Return the difference that the descriptions of a changed variable do not show."""
        values = self._findings.baseline.values
        if type(value) not in _SCALARS:
            same = next((other for other, one in values.items() if one is value), "")
            if same:
                return f"the same object as {same}"
        return changed_parts(values[name], value, self._redact) if len(self._seen) <= _MOST_TABLES else ""

    def _aliases(self, name: str) -> tuple[str, ...]:
        values = self._findings.baseline.values
        if name not in values:
            return ()
        return tuple(other for other, value in values.items() if other != name and value is values[name])[:20]

    def _refused(self, name: str, action: Action, before: str, header: dict[str, Any]) -> VariableEffect:
        kind = one_line(str(header.get("type", "")), _LONGEST)
        imported = self._import(name, kind)
        if imported is not None:
            self._findings.values[name] = imported
            is_new = action == "created" and not hasattr(builtins, name)
            origin = f", from {imported.module}" if imported.attribute and kind[:7] != "module " else ""
            return VariableEffect(name, action, before, f"{kind}{origin}", is_import=is_new)
        defined = self._findings.baseline.functions.get(name)
        if defined is not None and kind.startswith("function "):
            if header.get("function") not in definition_digests(defined):
                return VariableEffect(name, action, before, kind, problem=_OTHER_FUNCTION)
            self._findings.values[name] = Definition(defined)
            return VariableEffect(name, action, before, f"function {name}")
        if header.get("drawing") is True:
            return VariableEffect(name, action, before, kind, is_left_out=True)
        problem = one_line(str(header.get("problem", "")), _LONGEST) or "it has no safe form"
        return VariableEffect(name, action, before, kind, problem=cut(problem, _LONGEST))

    def _import(self, name: str, kind: str) -> Import | None:
        """Return the import that binds a name. None if there is none, or if it is not certain which one."""
        targets = self._findings.baseline.imports.get(name, ())
        if len(targets) > 1:  # such as one for an older version of a library
            targets = tuple(one for one in targets if not one[1] and kind == f"module {one[0]}")
        if len(targets) != 1:
            return None
        is_importable = kind.startswith(("module ", "function ", "class ")) or targets[0][0] == "__future__"
        return Import(*targets[0], kind) if is_importable else None

    def _add_setting(self, header: dict[str, Any], payload: Buffer) -> None:
        kind, key = header.get("kind"), header.get("key")
        check_setting(kind, key)
        problem = one_line(str(header.get("problem", "")), _LONGEST)
        is_missing = bool(problem) or header.get("missing") is True
        value = MISSING if is_missing else Decoder().decode(split(payload, header.get("sizes") or []))
        setting = ChangedSetting(str(kind), str(key), value)
        mark = f"setting {setting.name}"  # not the name of a variable
        check(mark not in self._seen, "two effects on one setting")
        self._seen.add(mark)
        self._findings.received_settings.append(setting)
        self._findings.settings.append(effect_of(setting, problem))
