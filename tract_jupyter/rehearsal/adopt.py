"""Keeping effects: binds the received values, replaces files, sets settings. Code of the copy never runs here."""

from __future__ import annotations

import os
import secrets
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import one_line
from tract_jupyter.rehearsal.backups import FileRecord, store_below
from tract_jupyter.rehearsal.baseline import digest
from tract_jupyter.rehearsal.change import ABSENT, Change, SettingRecord, VariableRecord
from tract_jupyter.rehearsal.found import Findings, Import
from tract_jupyter.rehearsal.settings import Setting, current, set_setting

if TYPE_CHECKING:
    from tract_jupyter.rehearsal.backups import Backups, Record


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
    values = {name: _resolved(value, findings) for name, value in findings.values.items()}
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


def _resolved(value: Any, findings: Findings) -> Any:
    if type(value) is not Import:
        return value
    module = sys.modules.get(value.module)
    if module is None:
        _check_place(value.module, findings.workspace)
    try:
        module = module or import_module(value.module)
        return module if value.attribute is None else _member(module, value)
    except Exception as error:  # noqa: BLE001 # a library may raise anything
        raise RehearsalError(
            f"The import of {value.module} failed: {one_line(str(error), 200)}. Run the code in the kernel instead."
        ) from None


def _member(module: Any, value: Import) -> Any:
    try:
        return getattr(module, str(value.attribute))
    except AttributeError:
        return import_module(f"{value.module}.{value.attribute}")


def _check_place(module: str, workspace: Path) -> None:
    """Refuse the import of a module of the workspace: its code was not approved."""
    spec = PathFinder.find_spec(module.partition(".")[0])
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
    inside = [place for place in places if place and Path(place).resolve().is_relative_to(workspace)]
    libraries = {
        Path(path).resolve() for path in sys.path if path.endswith(("site-packages", "dist-packages"))
    }
    if any(not any(Path(place).resolve().is_relative_to(folder) for folder in libraries) for place in inside):
        raise RehearsalError(
            f"{module} is a file of the workspace, and keeping effects runs no code of it. Run the code in the kernel."
        )


def _keep_files(findings: Findings, backups: Backups, change_id: str) -> Record | None:
    upper = findings.upper
    if upper is None or not upper.changes:
        return None
    lower = os.open(findings.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for change in upper.changes:
            store_below(backups, lower, change.path, change.before)
            store_below(backups, upper.folder, change.path, change.after)
        files = [
            FileRecord(
                change.path,
                change.before,
                change.after,
                change.is_folder,
                is_created=change.action == "created",
            )
            for change in upper.changes
        ]
        record = backups.add(findings.workspace, files, change_id=change_id)
    except OSError as error:
        raise RehearsalError(
            f"The backups cannot be written: {error.strerror or error}. Nothing was kept. Free some space."
        ) from None
    finally:
        os.close(lower)
    backups.move(record, "after", range(len(files)))
    return record


def _keep_settings(findings: Findings) -> list[SettingRecord]:
    done: list[SettingRecord] = []
    try:
        for setting in findings.received_settings:
            before = Setting(setting.kind, setting.key, current(setting.kind, setting.key))
            set_setting(setting)
            after = Setting(setting.kind, setting.key, current(setting.kind, setting.key))
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
