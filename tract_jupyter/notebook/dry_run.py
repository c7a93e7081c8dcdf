"""What a run without a person would make of a notebook's questions, told without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.hooks.builtin.activation import activation_fingerprint
from tract_jupyter.hooks.dynamic.check import check_spec
from tract_jupyter.notebook.arguments import parse_fire
from tract_jupyter.notebook.refusal import Refusal
from tract_jupyter.notebook.steps import Call, Definition, FireMagic, Handler, Variables, Wrong
from tract_jupyter.review.fingerprint import fingerprint
from tract_jupyter.review.prompt import split_words
from tract_jupyter.review.recorded import refusal, take

if TYPE_CHECKING:
    from pathlib import Path

    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.notebook.steps import Step
    from tract_jupyter.review.lock import Entry
    from tract_jupyter.review.project import Project

_AROUND = "whether and how often it is asked is up to the code around it"
_VALUES = "the values of its variables are known when it runs"


class DryRun:
    """Follows the cells of one notebook on an empty store.

    Args:
        path: of the notebook.
        cells: the place of each code cell, its source, and what it does.
        entries: of the lock file, those that count here and others.
        project: tells them apart.
        lock_name: of the lock file.
    """

    def __init__(
        self,
        path: Path,
        cells: list[tuple[int, str, list[Step]]],
        entries: tuple[Entry, ...],
        project: Project,
        lock_name: str,
    ) -> None:
        self.found: list[Refusal] = []
        self.used: set[str] = set()
        """Signatures of the entries that would be used."""
        self.may_ask: set[str] = set()
        """Titles of what may be asked besides, when it runs; `*` for anything."""
        self._path, self._entries, self._project, self._lock_name = path, entries, project, lock_name
        self._versions = _versions(cells)
        self._active: dict[str, OperationSpec] = {}
        self._inactive: dict[str, str] = {}
        self._handled: set[str] = set()
        self._cell = self._line = 0
        for self._cell, self._source, steps in cells:
            for step in steps:
                self._line = step.line
                self._follow(step)

    def _follow(self, step: Step) -> None:
        match step:
            case Definition():
                self._define(step)
            case FireMagic():
                self._fire(step)
            case Handler():
                self._handled.add(step.operation)
            case Call():
                self._call(step)
            case Wrong():
                self._note(step.what, step.why)

    # --- definitions

    def _define(self, step: Definition) -> None:
        what = f"activate operation {step.parsed.spec.name}"
        try:
            spec = step.parsed.checked()
        except OperationError as error:
            self._note(what, str(error))
            return
        if spec == self._active.get(spec.name):
            return
        self._inactive.pop(spec.name, None)
        if step.activate:
            self._active[spec.name] = spec
        else:
            self._propose(spec, what, waits=step.wait)

    def _propose(self, spec: OperationSpec, what: str, *, waits: bool) -> None:
        entry = self._take(activation_fingerprint(spec))
        if entry is None:
            self._inactive[spec.name] = f"its activation in cell {self._cell} would be refused"
            self._note(what, self._why_not(activation_fingerprint(spec), f"Activate operation {spec.name}"))
        elif entry.action == "approve":
            self._active[spec.name] = spec
        else:
            self._inactive[spec.name] = f"{entry.decided_by} rejected it, as {self._lock_name} says"
            if waits:
                self._note(what, f"{self._inactive[spec.name]}, and '--wait' stops the run there")

    # --- questions

    def _fire(self, step: FireMagic) -> None:
        name = next(iter(split_words(step.text)), "")
        what, spec = f"%tract_fire {name}".strip(), self._active.get(name)
        variables, given, values, problem = Variables(), None, {}, ""
        try:
            given = parse_fire(step.text, variables)
            if spec is not None and not variables.asked:
                values = spec.parameters().validate(given.fields)
        except OperationError as error:
            problem = str(error)
        is_reviewed = given is not None and given.review
        unclear = self._unclear(step, variables, name, is_reviewed=is_reviewed)
        if problem and unclear not in {_VALUES, _AROUND}:
            self._note(what, problem)
        elif spec is None and unclear != _AROUND:
            self._not_active(name, what)
        elif spec is not None and given is not None and not is_reviewed and spec.unhandled != "ask":
            pass  # nobody is asked
        elif unclear:
            self._may_ask(what, name, unclear)
        elif spec is not None:
            self._ask(spec, values, what)

    def _unclear(self, step: FireMagic, variables: Variables, name: str, *, is_reviewed: bool) -> str:
        if step.is_indented:
            return _AROUND
        if variables.asked or step.text.endswith("\\"):
            return _VALUES
        if not is_reviewed and self._handled & {name, "*"}:
            return "a handler may decide it"
        return ""

    def _not_active(self, name: str, what: str) -> None:
        later = [cell for cell, spec in self._versions if spec.name == name and cell > self._cell]
        if name in self._inactive:
            self._note(what, f"operation {name!r} would not be active: {self._inactive[name]}")
        elif later and "*" not in self.may_ask:
            self._note(what, f"operation {name!r} is not active yet: it is defined in cell {later[0]}")
        else:
            self._may_ask(what, name, f"no cell before defines operation {name!r}")

    def _ask(self, spec: OperationSpec, values: dict[str, Any], what: str) -> None:
        identity = operation_identity(spec, values)
        entry = self._take(identity)
        if entry is not None:
            if (
                entry.action in spec.actions
            ):  # only a run tells what that makes of the fields, and whether it decides
                self.may_ask.add(spec.name)
            return
        others = [
            cell
            for cell, other in self._versions
            if other.name == spec.name and other != spec and self._has(operation_identity(other, values))
        ]
        why = self._why_not(identity, spec.name)
        if others:
            why = f"the entry in {self._lock_name} is for the version of {spec.name!r} in cell {others[-1]}"
        self._note(what, why)

    def _call(self, step: Call) -> None:
        spec = self._active.get(step.operation)
        if spec is not None and spec.unhandled != "ask" and step.text.startswith("tools."):
            return
        self._may_ask(step.text, step.operation or "*", "what Python code asks is known when it runs")

    # ---

    def _take(self, identity: str) -> Entry | None:
        return take(self._entries, identity, self.used, self._project, self._source)

    def _has(self, identity: str) -> bool:
        return any(entry.identity == identity for entry in self._entries)

    def _why_not(self, identity: str, title: str) -> str:
        return refusal(self._entries, identity, title, self._project, self._source, self._lock_name)

    def _may_ask(self, what: str, title: str, why: str) -> None:
        self.may_ask.add(title)
        self.found.append(Refusal(self._path, self._cell, self._line, what, why, "unknown"))

    def _note(self, what: str, why: str) -> None:
        self.found.append(Refusal(self._path, self._cell, self._line, what, why))


def operation_identity(spec: OperationSpec, values: dict[str, Any]) -> str:
    """What a recorded decision about a fired operation is found by, given all values of its fields."""
    kept = {name: value for name, value in values.items() if name not in spec.volatile}
    return fingerprint("operation", spec.name, spec.spec_hash, kept)


def _versions(cells: list[tuple[int, str, list[Step]]]) -> list[tuple[int, OperationSpec]]:
    """Every definition that is one, with its cell."""
    found = []
    for cell, _, steps in cells:
        for step in steps:
            if isinstance(step, Definition):
                try:
                    found.append((cell, check_spec(step.parsed.spec)))
                except OperationError:
                    continue
    return found
