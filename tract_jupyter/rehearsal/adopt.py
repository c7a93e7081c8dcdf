"""Keeping effects: binds the received values, replaces files, sets settings. Code of the copy never runs here."""

from __future__ import annotations

import ast
import linecache
import secrets
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import get_ident
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import one_line
from tract_jupyter.rehearsal.backups import FileRecord
from tract_jupyter.rehearsal.baseline import digest
from tract_jupyter.rehearsal.change import ABSENT, Change, SettingRecord, VariableRecord
from tract_jupyter.rehearsal.describe import describe_type
from tract_jupyter.rehearsal.files import is_installed
from tract_jupyter.rehearsal.found import Definition, Findings, Import
from tract_jupyter.rehearsal.functions import code_of, defaults_of, keyword_defaults_of
from tract_jupyter.rehearsal.linux import opened
from tract_jupyter.rehearsal.settings import ChangedSetting, current, set_setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from tract_jupyter.rehearsal.backups import Backups, JournalRecord


_LONGEST_KIND: Final = 200
_PROGRAMS: Final = frozenset({"antigravity", "idlelib", "test", "turtledemo"})
"""Modules of Python whose import opens a page or a window, or runs tests."""


def keep(findings: Findings, namespace: dict[str, Any], backups: Backups) -> Change:
    """Make exactly the found effects, and return the change.

    Raises:
        RehearsalError: an effect has no safe form, or something changed since, or a file cannot be written. Nothing was
            changed.
    """
    problems = findings.effects.problems
    if problems:
        raise RehearsalError(
            f"The effects cannot be kept: {problems[0]}. Run the code in the kernel instead."
        )
    changed = findings.changed_since(namespace)
    if changed:
        raise RehearsalError(
            f"{', '.join(changed[:5])} changed after the rehearsal, so its effects are out of date. Rehearse again."
        )
    values = {name: _resolved(value, findings, namespace) for name, value in findings.values.items()}
    change_id = secrets.token_hex(8)
    record = _keep_files(findings, backups, change_id)
    try:
        settings = _keep_settings(findings)
    except Exception as error:  # noqa: BLE001 # a library may raise anything
        if record is not None:
            backups.move(record, "before", range(len(record.files)))
        raise RehearsalError(
            f"A setting cannot be changed: {one_line(str(error), 200)}. Nothing was kept. Run the code in the kernel."
        ) from None
    variables = _keep_variables(findings, namespace, values)
    return Change(
        change_id, record=record, backups=backups, namespace=namespace, variables=variables, settings=settings
    )


def _resolved(value: Any, findings: Findings, namespace: dict[str, Any]) -> Any:
    if type(value) is Definition:
        return _function(value, findings.baseline.code, namespace)
    if type(value) is not Import:
        return value
    try:
        with _libraries_only(findings.workspace):
            found = _imported(value)
    except (RehearsalError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 # a library may raise anything
        raise RehearsalError(
            f"The import of {value.module} failed: {one_line(str(error), 200)}. Run the code in the kernel instead."
        ) from None
    if one_line(describe_type(found), _LONGEST_KIND) != value.kind:
        raise RehearsalError(
            f"The import of {value.module} gives something else than in the rehearsal. Run the code in the kernel."
        )
    return found


def _function(value: Definition, code: str, namespace: dict[str, Any]) -> FunctionType:
    """Make a function of its definition in the code. Nothing runs: defaults are literals, annotations stay text."""
    node = value.node
    file = f"<{node.name}, kept>"
    arguments = node.args
    made = FunctionType(code_of(node, file), namespace, node.name, defaults_of(node))
    made.__kwdefaults__ = keyword_defaults_of(node)
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    made.__annotations__ = {one.arg: ast.unparse(one.annotation) for one in every if one and one.annotation}
    if node.returns is not None:
        made.__annotations__["return"] = ast.unparse(node.returns)
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    return made


def _imported(value: Import) -> Any:
    found = [import_module(name) for name in value.module.split(",")]
    if value.attribute == "":
        return sys.modules[value.module.partition(".")[0].partition(",")[0]]
    if value.attribute is None:
        return found[0]
    try:
        return getattr(found[0], value.attribute)
    except AttributeError:
        return import_module(f"{value.module}.{value.attribute}")


@contextmanager
def _libraries_only(workspace: Path) -> Iterator[None]:
    """Refuse imports of modules of the workspace in this thread: their code was not approved."""
    finder = _LibraryFinder(workspace)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _LibraryFinder:
    """Asks the other finders, and refuses what they find in the workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        self._thread = get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if get_ident() != self._thread:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._check(name, spec)
                return spec
        return None

    def _check(self, name: str, spec: ModuleSpec) -> None:
        places = [spec.origin or ""] if spec.has_location else []
        places += spec.submodule_search_locations or ()
        if any(map(self._is_own, places)):
            raise RehearsalError(
                f"{name} is a file of the workspace, and keeping effects runs no code of it. "
                "Run the code in the kernel."
            )
        if name.rpartition(".")[2] == "__main__" or name.partition(".")[0] in _PROGRAMS:
            raise RehearsalError(
                f"{name} is a program, which keeping effects does not run. Run the code in the kernel."
            )

    def _is_own(self, place: str) -> bool:
        found = Path(place).resolve()
        return found.is_relative_to(self._workspace) and not is_installed(
            str(found.relative_to(self._workspace)), self._workspace
        )


def _keep_files(findings: Findings, backups: Backups, change_id: str) -> JournalRecord | None:
    upper = findings.upper
    if upper is None or not upper.changes:
        return None
    try:
        with opened(findings.workspace) as lower:
            for change in upper.changes:
                backups.store_below(lower, change.path, change.before)
                backups.store_below(upper.folder, change.path, change.after)
        files = [
            FileRecord(
                change.path,
                change.before,
                change.after,
                change.is_folder,
                is_created=change.action == "created",
                mode=change.folder_mode,
            )
            for change in upper.changes
        ]
        record = backups.add(findings.workspace, files, change_id=change_id)
    except OSError as error:
        raise RehearsalError(
            f"The backups cannot be written: {error.strerror or error}. Nothing was kept. Free some space."
        ) from None
    backups.move(record, "after", range(len(files)))
    return record


def _keep_settings(findings: Findings) -> list[SettingRecord]:
    done: list[SettingRecord] = []
    try:
        for setting in findings.received_settings:
            before = ChangedSetting(setting.kind, setting.key, current(setting.kind, setting.key))
            set_setting(setting)
            after = ChangedSetting(setting.kind, setting.key, current(setting.kind, setting.key))
            done.append(SettingRecord(before, after))
    except Exception:
        for record in reversed(done):
            set_setting(record.before)
        raise
    return done


def _keep_variables(
    findings: Findings, namespace: dict[str, Any], values: dict[str, Any]
) -> list[VariableRecord]:
    records = []
    for effect in findings.variables:
        if effect.is_left_out:
            continue
        name = effect.name
        before = findings.baseline.values.get(name, ABSENT)
        after = ABSENT if name in findings.deleted else values[name]
        marks = (findings.digests.get(name, ""), "" if after is ABSENT or effect.is_import else digest(after))
        records.append(VariableRecord(name, before, after, marks))
        if after is ABSENT:
            del namespace[name]
        else:
            namespace[name] = after
    return records
