"""Rehearsal: proposed code runs on a few drawn inputs before the user decides about it.

A rehearsal shows results and decides nothing. Each action runs on values drawn from the types of its fields and
parameters. A sandboxed action runs in a fresh sandbox session, with less time and memory than later. Kernel code runs
in a contained copy of this kernel, with the real context to read. Methods that change the tract only record their
calls. If this machine has no such copies, kernel code runs in the sandbox with a short mock conversation. Code that
needs more is then not rehearsed, and the rehearsal says so. Kernel code can detect a rehearsal and behave differently
later. So the user approves the code itself.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tract_jupyter.exceptions import (
    ContentError,
    NoSandboxError,
    ParameterError,
    RehearsalError,
    SandboxError,
    TractError,
)
from tract_jupyter.models import counted, digest, one_line, read_as, shortened, show_value
from tract_jupyter.models.schema import drawn_arguments
from tract_jupyter.operations.sandboxed import PRELUDE, placed_body, sandbox_outcome
from tract_jupyter.operations.spec import spec_to_dict
from tract_jupyter.review import ValueRow, ValueTable
from tract_jupyter.sandbox import (
    UNCHANGED,
    ErrorHints,
    IsolatedCode,
    IsolatedFailure,
    SandboxLimits,
    attempt_isolated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.operations.sandboxed import SandboxOutcome
    from tract_jupyter.operations.spec import ActionDef, OperationSpec
    from tract_jupyter.rehearsal import Effects, Rehearser
    from tract_jupyter.sandbox import SandboxPool

LIMITS: Final = SandboxLimits(seconds=1.0, memory=32_000_000, output_characters=2_000)
"""The limits of one run of an action."""
INPUTS: Final = 6
"""The number of inputs for each action."""
MOST_RUNS: Final = 36
MOST_SECONDS: Final = 10.0
"""The time limit of one rehearsal. The remaining actions are not rehearsed."""

RunKind = Literal["returned", "approved", "rejected", "raised", "misfit", "stopped", "not run"]
_RETURNED: Final = ("returned", "approved", "rejected")
_RAISED: Final = 2  # exceptions in the summary
_LONGEST: Final = 300  # characters of the description of one run
_VALUE: Final = 80  # characters of one value
_PARTS: Final = 4  # of the value of `_call_of`


@dataclass(frozen=True, slots=True)
class RehearsedRun:
    """One run of an action.

    Attributes:
        kind: the result. It returned (with or without a decision), raised, left invalid values, or reached a limit.
            `not run` means that it needs a feature that the sandbox lacks.
        about: the exception in a few words, the limit, or the missing feature.
        told: a description of the run. Texts from the code are cut to one line.
    """

    action: str
    arguments: dict[str, Any]
    fields: dict[str, Any]
    kind: RunKind
    about: str
    told: str


@dataclass(frozen=True, slots=True)
class ActionRehearsal:
    """The results of an operation's actions on drawn inputs.

    Attributes:
        code_hash: the hash of the rehearsed code, fields and parameters.
        runs: in order.
        left_out: the actions without any run and the reason, in a sentence.
        has_kernel_code: True if some of the code runs in the kernel after activation.
        is_contained: True if this code ran in a contained copy of the kernel.
    """

    code_hash: str
    runs: tuple[RehearsedRun, ...]
    left_out: str = ""
    has_kernel_code: bool = False
    is_contained: bool = False

    def is_of(self, spec: OperationSpec) -> bool:
        """Return True if the rehearsal used the code of this spec."""
        return self.code_hash == code_hash(spec)

    @property
    def summary(self) -> str:
        """The results in one or two sentences."""
        return self._summary(_counts)

    @property
    def summary_for_model(self) -> str:
        """The summary without messages of exceptions, if they may have data of files that the user has not sent."""
        return self._summary(_counts_only if self.is_contained else _counts)

    def _summary(self, counts: Callable[[list[RehearsedRun]], str]) -> str:
        ran = [run for run in self.runs if run.kind != "not run"]
        needed = dict.fromkeys(run.about for run in self.runs if run.kind == "not run")
        needs = f"it needs {', '.join(needed)}" if needed else self.left_out.removesuffix(".")
        sentences = [f"Rehearsed on {counted(len(ran), 'input')}: {counts(ran)}."] if ran else []
        if needs and (needed or not ran):
            sentences.append(f"Not rehearsed{' on others' if ran else ''}: {needs}.")
        elif not ran:
            sentences.append("Not rehearsed: no drawn values fit its fields.")
        sentences += [f"{self.left_out[:1].upper()}{self.left_out[1:]}"] if self.left_out and ran else []
        place = _CONTAINED if self.is_contained else _ELSEWHERE
        sentences += [place] if self.has_kernel_code and ran else []
        return " ".join(sentences)

    def table(self, spec: OperationSpec) -> ValueTable:
        """Return the results for a reviewer: a sentence, and a row for each run."""
        summary = self.summary if self.is_of(spec) else f"For an earlier version of the code: {self.summary}"
        rows = tuple(ValueRow(_call(run), "", _values(run.fields), run.told) for run in self.runs)
        return ValueTable(TITLE, rows, "nothing", summary, ("Call", "Fields", "Result"))

    def to_dict(self) -> dict[str, Any]:
        """Return the rehearsal as plain data."""
        return {**asdict(self), "runs": [asdict(run) for run in self.runs]}

    @classmethod
    def from_dict(cls, data: Any) -> ActionRehearsal | None:
        """Parse the data from `to_dict`. Return None for any other data, because stored data may be damaged."""
        try:
            rehearsal: ActionRehearsal = read_as(cls, data, ContentError)
        except ContentError:
            return None
        return rehearsal


TITLE: Final = "Rehearsal"
_CONTAINED: Final = "It ran in a contained copy of the kernel, and may behave differently later."
_ELSEWHERE: Final = "It will run in the kernel, and may behave differently there."


def code_hash(spec: OperationSpec) -> str:
    """Return the hash of everything that affects a rehearsal."""
    data = spec_to_dict(spec)
    fields = {name: [field.get("type"), field.get("default")] for name, field in data["fields"].items()}
    return digest([fields, data["actions"], *(["two_stage"] if spec.two_stage else [])])


def rehearse(spec: OperationSpec, tract: Any) -> ActionRehearsal:
    """Run the actions of a checked spec on drawn inputs.

    None of its code runs in this process.
    """
    has_kernel_code = any(not action.is_sandboxed for action in spec.actions.values())
    copies = _copies(tract) if has_kernel_code else None
    place = _Place(spec, tract.sandboxes, copies, time.monotonic() + MOST_SECONDS)
    if copies is None or any(action.is_sandboxed for action in spec.actions.values()):
        try:
            place.pool.opened()
        except NoSandboxError as error:
            return ActionRehearsal(code_hash(spec), (), f"{error}.", has_kernel_code)
    runs: list[RehearsedRun] = []
    skipped: list[str] = []
    for name, action in spec.actions.items():
        if len(runs) >= MOST_RUNS or time.monotonic() >= place.over:
            skipped.append(name)
            continue
        runs += place.rehearsed(action)
    left_out = f"Not rehearsed, for lack of time: {shortened(', '.join(skipped), _VALUE)}." if skipped else ""
    if not spec.actions:
        left_out = "it has no actions, so there is no code to rehearse."
    return ActionRehearsal(code_hash(spec), tuple(runs), left_out, has_kernel_code, copies is not None)


def _copies(tract: Any) -> ActionCopies | None:
    """Return the contained copies for kernel code; None if this machine has none, or the user has switched them off."""
    rehearser = tract.scripts.rehearsing.rehearser
    if rehearser is None:
        return None
    from tract_jupyter.rehearsal import probe

    return None if probe().name == "none" else ActionCopies(rehearser, tract)


@dataclass(frozen=True)
class _Place:
    """The places in which actions of an operation run.

    `copies` are for kernel code; None for the sandbox. After `over`, no further run begins.
    """

    spec: OperationSpec
    pool: SandboxPool
    copies: ActionCopies | None
    over: float

    def rehearsed(self, action: ActionDef) -> Iterator[RehearsedRun]:
        """Yield the runs of one action. Stop after a run that reached a limit."""
        fields, parameters = self.spec.parameters(), action.parameters()
        argument_sets = drawn_arguments(parameters, INPUTS)
        for number, values in enumerate(drawn_arguments(fields, INPUTS)):
            arguments = argument_sets[number % len(argument_sets)]
            try:
                inputs, called = fields.validate(values), parameters.validate(arguments)
            except ParameterError:
                continue  # a firing with these values would be invalid
            kind, about, told = self._run(action, {"_fields": inputs, "_arguments": called})
            yield RehearsedRun(action.name, called, inputs, kind, about, one_line(told, _LONGEST))
            if kind == "stopped" or time.monotonic() >= self.over:
                return

    def _run(self, action: ActionDef, inputs: dict[str, Any]) -> tuple[RunKind, str, str]:
        """Run an action once. Return the kind of the result, the text about it, and its description."""
        filename = f"<action:{self.spec.name}.{action.name}>"
        try:
            if self.copies is not None and not action.is_sandboxed:
                return self._run_in_copy(self.copies, action, inputs, filename)
            return self._run_in_sandbox(action, inputs, filename)
        except SandboxError as error:
            reason = str(error).removeprefix(f"{filename}: ").removesuffix(f". {UNCHANGED}")
            return "misfit", "", f"left an invalid result: {reason}"
        except ParameterError as error:
            return "misfit", "", f"left invalid fields: {'; '.join(error.problems)}"
        except RehearsalError as error:
            return "not run", "a copy of the kernel", f"not rehearsed: {error}"

    def _run_in_copy(
        self, copies: ActionCopies, action: ActionDef, inputs: dict[str, Any], filename: str
    ) -> tuple[RunKind, str, str]:
        outcome = copies.run(_kernel_prelude(self.spec), placed_body(action), _call_of(action), inputs)
        printed = _Printed()
        printed.take("stdout", outcome.printed)
        more = "".join(f"; {one_line(effect, _VALUE)}" for effect in outcome.effects) + printed.note
        if outcome.limit:
            limit = one_line(outcome.limit, _VALUE)
            return "stopped", limit, f"stopped: {limit}{more}"
        if outcome.error:
            name, _, message = outcome.error.partition(": ")
            return _raised(name, message, more, lacks=_ATTRIBUTE)
        if not isinstance(outcome.output, list) or len(outcome.output) != _PARTS:
            raise SandboxError(f"{filename}: it has no result")
        return self._returned(outcome.output, inputs, filename, more)

    def _run_in_sandbox(
        self, action: ActionDef, inputs: dict[str, Any], filename: str
    ) -> tuple[RunKind, str, str]:
        printed = _Printed()
        prelude = PRELUDE if action.is_sandboxed else _kernel_prelude(self.spec)
        code = IsolatedCode(prelude, placed_body(action), _call_of(action), filename, _NO_HINTS)
        try:
            output = attempt_isolated(self.pool, code, inputs, printed.take, LIMITS)
        except IsolatedFailure as failure:
            name, message, _ = failure.report
            if failure.is_stopped:
                limit = _limit(name)
                return "stopped", limit, f"stopped: it took more than {limit}"
            return _raised(name, message, printed.note)
        return self._returned(output, inputs, filename, printed.note)

    def _returned(
        self, output: list[Any], inputs: Mapping[str, Any], filename: str, more: str
    ) -> tuple[RunKind, str, str]:
        *result, notes = output
        outcome = sandbox_outcome(result, filename)
        after = self.spec.parameters().validate(outcome.fields)
        kind: RunKind = {"approve": "approved", "reject": "rejected"}.get(outcome.decision, "returned")  # type: ignore[assignment]
        return kind, "", _describe(outcome, inputs["_fields"], after, notes) + more


def _call_of(action: ActionDef) -> str:
    """Return the call of an action, whose value has the return value, the fields, the decision and the notes."""
    notes = "[]" if action.is_sandboxed else "_noted"
    return f"[{action.name}(_pending, **_arguments), _pending.fields, _pending._decided, {notes}]"


def _raised(
    name: str, message: str, more: str, lacks: re.Pattern[str] | None = None
) -> tuple[RunKind, str, str]:
    """Return the result of a run with an exception, which may say that the place of the run lacks something."""
    is_lack = lacks is None or (name == "AttributeError" and lacks.search(message) is not None)
    needed = _needed(name, message) if is_lack else ""
    if needed:
        return "not run", needed, f"not rehearsed: it needs {needed}"
    detail = f": {show_value(message, _VALUE)}" if message else ""
    return "raised", one_line(name, _VALUE) + detail, f"raised {one_line(name, _VALUE)}{detail}{more}"


def _describe(
    outcome: SandboxOutcome, before: Mapping[str, Any], after: Mapping[str, Any], notes: Any
) -> str:
    decided = {
        "approve": "approved",
        "reject": f"rejected: {show_value(outcome.reason, _VALUE)}",
        "": "decided nothing",
    }[outcome.decision]
    returned = "" if outcome.returned is None else f"returned {show_value(outcome.returned, _VALUE)}"
    changes = [
        f"{name}: {show_value(before.get(name), _VALUE)} → {show_value(value, _VALUE)}"
        for name, value in after.items()
        if value != before.get(name)
    ]
    called = (
        [one_line(note, _VALUE) for note in notes if isinstance(note, str)] if isinstance(notes, list) else []
    )
    wanted = f"would have called {', '.join(called[:_NOTES])}" if called else ""
    return "; ".join(filter(None, [decided, returned, *changes, wanted]))


def _counts_only(runs: list[RehearsedRun]) -> str:
    """Count the results of runs, without the messages of exceptions."""
    return _counts([replace(run, about=run.about.partition(":")[0]) for run in runs])


def _counts(runs: list[RehearsedRun]) -> str:
    """Count the results of runs: `5 returned (3 approved, 2 rejected), 1 raised ValueError`."""
    decided = Counter(run.kind for run in runs if run.kind in _RETURNED)
    parts = [f"{decided[kind]} {kind}" for kind in ("approved", "rejected") if decided[kind]]
    returned = sum(decided.values())
    how = f" ({', '.join(parts)})" if parts else ""
    texts = [f"{returned} returned{how}"] if returned else []
    raised = Counter(run.about for run in runs if run.kind == "raised")
    if len(raised) > _RAISED:
        raised = Counter(about.partition(":")[0] for about in raised.elements())
    texts += [f"{count} raised {about}" for about, count in raised.most_common(_RAISED)]
    others = sum(raised.values()) - sum(count for _, count in raised.most_common(_RAISED))
    texts += [f"{others} raised other exceptions"] if others else []
    misfits = sum(run.kind == "misfit" for run in runs)
    texts += [f"{misfits} left invalid values"] if misfits else []
    stopped = Counter(run.about for run in runs if run.kind == "stopped")
    texts += [f"{count} stopped after {about}" for about, count in stopped.items()]
    return ", ".join(texts)


def _call(run: RehearsedRun) -> str:
    return f"{run.action}({_values(run.arguments)})"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={show_value(value, _VALUE)}" for name, value in values.items())


class _Printed:
    """The size and the beginning of a run's output."""

    def __init__(self) -> None:
        self._beginning = ""
        self._size = 0

    def take(self, _stream: str, text: str) -> None:
        self._beginning += text[: _VALUE - len(self._beginning)]
        self._size += len(text)

    @property
    def note(self) -> str:
        return (
            f"; printed {counted(self._size, 'character')}: {one_line(self._beginning, _VALUE)!r}"
            if self._size
            else ""
        )


# --- features that the sandbox lacks

_NO_HINTS: Final = ErrorHints(lacks="", modules="", closed="")
_ATTRIBUTE: Final = re.compile(
    r"(?:'(Tract|Compiled|Pending)' object|module '([\w.]+)') has no attribute '(\w+)'"
)
_ENVIRONMENT: Final = re.compile(r"'([\w.]+)' is not supported in this environment")
_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_NAME: Final = re.compile(
    r"name '(open|input|exec|eval|globals|vars|dir|super|compile|__import__|breakpoint)' is not defined"
)
_STANDS_FOR: Final = {"Tract": "pending.tract", "Compiled": "pending.tract.compile()", "Pending": "pending"}


def _needed(name: str, message: str) -> str:
    """Return the feature that code needs and a rehearsal lacks. Empty if the code itself caused the error."""
    feature = ""
    if name == "ModuleNotFoundError" and (match := _MODULE.search(message)):
        feature = f"the module {shortened(match[1], _VALUE)!r}"
    elif name == "PermissionError" and message.startswith("Permission denied"):
        feature = "files"
    elif match := _ENVIRONMENT.search(message):
        feature = match[1]
    elif name == "AttributeError" and (match := _ATTRIBUTE.search(message)):
        feature = f"{_STANDS_FOR[match[1]] if match[1] else match[2]}.{match[3]}"
    elif name == "NameError" and (match := _NAME.search(message)):
        feature = f"{match[1]}()"
    elif name in {"NotImplementedError", "SyntaxError"} and "not yet support" in message:
        feature = "Python features that the sandbox lacks"
    return one_line(feature, 2 * _VALUE)


def _limit(name: str) -> str:
    if name == "MemoryError":
        return f"{(LIMITS.memory or 0) // 1_000_000} MB"
    return f"{LIMITS.seconds:g} s" if name == "TimeoutError" else "the limit of its process"


# --- stubs for a tract

_NOTES: Final = 5
_READ: Final = ("log", "diff", "list_branches", "get_tags", "query_by_tags", "list_tags")
_CHANGING: Final = (
    "commit", "user", "assistant", "system", "annotate", "pin", "skip", "tag", "untag", "branch", "switch", "reset",
    "checkout", "merge", "rebase", "compress", "gc", "undo", "redo", "fire", "generate", "chat",
)  # fmt: skip
_MESSAGES: Final = (
    {"role": "system", "content": "You answer briefly, with sources."},
    {"role": "user", "content": "Is https://example.com/a a good source?"},
)


def _method(name: str, body: str) -> str:
    return f"\n    def {name}(self, *args, **kwargs):\n        {body}\n"


_STAND_INS: Final = (
    f"""
_noted = []

def _note(name, args, kwargs):
    if len(_noted) < {_NOTES}:
        given = [repr(one)[:{_VALUE}] for one in args]
        given += [key + "=" + repr(one)[:{_VALUE}] for key, one in kwargs.items()]
        _noted.append(name + "(" + ", ".join(given) + ")")

class Made:
    def __init__(self):
        self.commit_hash = "0" * 64
        self.token_count = 0
        self.text = ""

class Message:
    def __init__(self, role, content):
        self.role, self.content, self.name, self.token_count = role, content, None, 8
        self.commit_hash = "0" * 64

class Compiled:
    def __init__(self):
        self.messages = [Message(one["role"], one["content"]) for one in {list(_MESSAGES)!r}]
        self.token_count, self.token_source, self.head = 16, "estimate", "0" * 64
        self.tools, self.max_tokens, self.commit_count = [], None, 2

    def to_dicts(self):
        return [{{"role": one.role, "content": one.content}} for one in self.messages]

    def to_openai(self):
        return self.to_dicts()

    def __len__(self):
        return 2

class Tract:
    def __init__(self):
        self.tract_id, self.head, self.current_branch = "rehearsal", "0" * 64, "main"

    def compile(self, *args, **kwargs):
        return Compiled()
"""
    + "".join(_method(name, "return []") for name in _READ)
    + "".join(
        _method(name, f'_note("tract.{name}", args, kwargs)\n        return Made()') for name in _CHANGING
    )
)


def _kernel_prelude(spec: OperationSpec) -> str:
    """Return the sandbox's `pending`, with stubs for the other attributes that kernel code uses."""
    others = "".join(
        f'_pending.{name} = lambda *args, **kwargs: _note("pending.{name}", args, kwargs)\n'
        for name in spec.actions
    )
    return (
        f"{PRELUDE}{_STAND_INS}\n"
        f"_pending.tract, _pending.operation, _pending.actor = Tract(), {spec.name!r}, 'user'\n"
        "_pending.status, _pending.rejection_reason, _pending.result = 'pending', '', None\n"
        f"_pending.triggered_by, _pending.pending_id, _pending.branch = 'a rehearsal', '0' * 16, 'main'\n{others}"
    )


# --- contained copies of this kernel, with packages, files of the workspace and the compiled context

SECONDS: Final = 5.0
"""The time limit of one run. An import of a package takes a part of it."""
_MEGABYTE: Final = 1_000_000
_MEMORY: Final = 512 * _MEGABYTE
_NEWEST: Final = 20  # commits of the log
_MOST_NAMED: Final = 5
_ENDED: Final = frozenset({"stopped", "limit", "crashed"})

_CONTEXT: Final = """
Tract.compile = lambda self, *args, **kwargs: _compiled
Tract.log = lambda self, *args, **kwargs: list(_log)
_pending.tract.tract_id, _pending.tract.head, _pending.tract.current_branch = _place
"""
_RESULT: Final = """
import json as _json
_json.dumps({call}, default=repr)
"""


class ContainedRun(NamedTuple):
    """The outcome of a run.

    `effects` says in words what the code tried outside of its fields. `limit` is the limit that ended the run.
    """

    output: Any
    error: str
    limit: str
    printed: str
    effects: tuple[str, ...]


class ActionCopies:
    """Copies of this kernel in which actions run."""

    def __init__(self, rehearser: Rehearser, tract: Any) -> None:
        self._rehearser = rehearser
        self._context: dict[str, Any] = {}
        with suppress(TractError):  # without a context, the mock conversation stays
            self._context = {
                "_compiled": tract.compile(),
                "_log": tract.log(_NEWEST),
                "_place": (tract.tract_id, tract.head, tract.current_branch),
            }

    def run(self, prelude: str, body: str, call: str, inputs: dict[str, Any]) -> ContainedRun:
        """Run an action's body, and return the outcome.

        `prelude` makes the `pending`. The value of `call` is the output.

        Raises:
            RehearsalError: this machine cannot contain the code. Nothing ran.
        """
        from tract_jupyter.rehearsal import RehearsalLimits

        limits = RehearsalLimits(
            SECONDS,
            int(SECONDS),
            _MEMORY,
            processes=16,
            output=_MEGABYTE,
            disk=16 * _MEGABYTE,
            values=_MEGABYTE,
        )
        code = f"{prelude}{_CONTEXT if self._context else ''}\n{body}\n{_RESULT.format(call=call)}"
        rehearsal = self._rehearser.rehearse(code, {**self._context, **inputs}, limits=limits, compares=False)
        try:
            return _outcome(rehearsal.effects)
        finally:
            rehearsal.discard()


def _outcome(effects: Effects) -> ContainedRun:
    output: Any = None
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):  # the code may show any result
        text = next((one.text for one in reversed(effects.outputs) if one.kind == "result"), "")
        output = json.loads(ast.literal_eval(text))
    is_over = effects.ending in _ENDED
    return ContainedRun(
        output if effects.ending == "finished" else None,
        effects.ending_note or "an error" if effects.ending == "raised" else "",
        effects.ending_note or effects.ending if is_over else "",
        "".join(one.text for one in effects.outputs if one.kind == "text"),
        tuple(_effects(effects)),
    )


def _effects(effects: Effects) -> list[str]:
    verbs = {"created": "create", "changed": "change", "deleted": "delete"}
    files = [f"would {verbs[file.action]} {file.path}" for file in effects.files]
    refused = [f"tried to {refusal.action}" for refusal in effects.refused]
    named = [*files, *refused]
    more = len(named) - _MOST_NAMED
    return [*named[:_MOST_NAMED], *([f"{counted(more, 'more effect')}"] if more > 0 else [])]
