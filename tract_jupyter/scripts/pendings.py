"""Pendings of scripts: a paused call, saved with its program, and a script for the kernel."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from tract_jupyter.exceptions import PendingStateError, StoreClosedError, TractError, TrustError
from tract_jupyter.llm import why_not_sent
from tract_jupyter.models import PendingStatus, admin_allows_looking
from tract_jupyter.models.schema import Parameter, Parameters
from tract_jupyter.review import (
    ASKED_BECAUSE,
    CHAT,
    CLIENT,
    KEEP,
    CodeBlock,
    CodeRange,
    FieldPending,
    Subject,
    ValueRow,
    ValueTable,
    action,
    origins,
    value_rows,
)
from tract_jupyter.review.builtin import Field
from tract_jupyter.scripts.effects import is_failed, only_looked, sent_text
from tract_jupyter.scripts.rehearsing import MOST_LOOKED, looking
from tract_jupyter.scripts.script import OWN, Script
from tract_jupyter.storage import interruptible
from tract_jupyter.toolkit import ToolPending, call_context, python_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.review import Pending, RunsIn
    from tract_jupyter.scripts.rehearsing import Rehearsed
    from tract_jupyter.scripts.result import ScriptResult
    from tract_jupyter.scripts.run import ScriptRun
    from tract_jupyter.scripts.runner import Scripts
    from tract_jupyter.storage import StoredPending
    from tract_jupyter.toolkit import ToolExecutor

    T = TypeVar("T")


RUN_SCRIPT: Final = "run_script"
"""The operation of `PendingScript`, as its requests and rows name it."""
_SAME: Final = ("code", "call", "first_line", "notebook_id", "tract")
"""The parts of a script's state that identify its current call."""


_AGAIN: Final = "The code was rehearsed again; these are its effects now."
_CHANGED_CODE: Final = "The changed code was rehearsed. These are its effects."


class PendingScriptCall(ToolPending):
    """A tool call from a script in the sandbox, which is paused at the call.

    The fields hold the paused program. So any process on the store can continue it. `go_on` continues the saved program
    after an approval or a rejection, which a script may catch. It is None if the script waits in this process.
    `acts_in` returns the tract of the script, if that tract is below the tract of the request.
    """

    kind = "tool"
    name = "script_call"
    about: ClassVar[Mapping[str, str]] = {
        "tool": "The tool that the script calls.",
        "arguments": "The arguments of the call.",
        "definition_hash": "The hash of the tool at the time of the request.",
        "script": "The script and its position.",
    }
    in_view = frozenset({"tool", "arguments", "script"})
    is_renewed = True
    tool_field = "tool"
    arguments_field = "arguments"
    again = "run the script again"
    script = Field()

    def __init__(
        self,
        fields: dict[str, Any],
        *,
        go_on: Callable[[Any], Any] | None = None,
        acts_in: Callable[[], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(fields, run=lambda _: None, **options)
        self._acts_in = acts_in
        code, first_line = self.script["code"], self.script["first_line"]
        self.origins = origins("\n" * (first_line - 1) + code, CodeRange(*self.script["call"]))
        self._execute_fn = go_on

    @action
    def reject(
        self, reason: Annotated[str, "The reason. The script gets it as an error, and may continue."] = ""
    ) -> Any:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason
        if self._execute_fn is not None and not self.doubt:  # a doubtful program never continues
            self.result = interruptible(self._execute_fn, self)
        return self.result

    def repeats(self, other: Pending | StoredPending) -> bool:
        """Return True if a second run of the same script waits at the same call."""
        other_script = other.fields.get("script")
        return isinstance(other_script, dict) and all(
            other_script.get(name) == self.script[name] for name in _SAME
        )

    def is_instant(self, action: str) -> bool:
        """Return True if the decision needs no further work, because the script itself waits."""
        if self.chooses(action):
            return False
        return self._execute_fn is None or action == "pass_through"

    def check_current(self) -> None:
        """Check that the tool and the program have not changed since the request.

        Raises:
            FingerprintError: The tool was changed or removed.
            TrustError: Another user saved or changed the program, so its effects are unknown.
        """
        if self.doubt:
            raise TrustError(
                f"{self.doubt} Only a program that is certainly yours can continue; reject this one"
            )
        super().check_current()

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of the fired operation, if any, and the script with the calling line marked."""
        calling_block, script = super().asking_block(), self.script
        title, marked = (
            ("Script", None) if calling_block is None else (calling_block.title, calling_block.marked)
        )
        script_block = CodeBlock(title, script["code"], first_line=script["first_line"], marked=marked)
        return (*super().code_blocks(), script_block)

    @property
    def runs_in(self) -> RunsIn:
        """The sandbox. Only its scripts pause at a call."""
        return "sandbox"

    def asking_block(self) -> None:
        """Return None, because the script marks the calling line."""

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments of the call, the script's position, and the digest of the saved program."""
        known = {name: value for name, value in self.script.items() if name not in {"code", "snapshot"}}
        if not known["tract"]:
            del known["tract"]
        saved = self.script["snapshot"]
        rows = (
            *value_rows(known, {}),
            ValueRow(
                "snapshot",
                "saved program",
                f"sha256 {sha256(saved.encode()).hexdigest()}, {len(saved):,} characters",
            ),
        )
        return (*super().tables(), ValueTable("Position of the script", rows, "nothing"))

    def summary(self) -> str:
        """Return the description of the tool."""
        tool = self.current_tool
        return "" if tool is None else tool.description

    def _caller(self) -> str:
        try:
            return str(self.acts_in.executor.asker(self.actor))
        except TractError:  # the child tract is gone
            return self.actor

    def why(self) -> str:
        """Return the caller, and the effect of a later decision."""
        return (
            f"{self._caller()} wants to make this call, and is paused there. The program is saved with this request. "
            f"After a later decision, it continues from this line. {self.about_operation()}"
        ).rstrip()


class PendingScript(FieldPending):
    """A script for the kernel, with the effects of its rehearsal if one is possible.

    Nothing changes before a decision. `keep` adopts exactly the effects, and the code does not run in the kernel.
    `approve` runs the code in the kernel, without any restrictions. The user may change the code first; changed code is
    rehearsed again, and the request stays open. The default of `execute_fn` is `carry_out`.

    Attributes:
        looked: The characters that scripts without effects sent in this turn without a request.
    """

    kind = "script"
    definition_hash = ""
    in_view = frozenset({"code", "notebook_id", "effects"})
    good_notes = frozenset({_CHANGED_CODE})

    def __init__(self, code: str, *, notebook_id: str, acts_in: Any = None, **options: Any) -> None:
        fields = {"code": code, "notebook_id": notebook_id}
        super().__init__(RUN_SCRIPT, fields=fields, **{"execute_fn": _carry_out, **options})
        self._acts_in = self.tract if acts_in is None else acts_in
        self._executor = self._acts_in.executor
        self._acts_in_id = str(self._acts_in.family.agent_id)
        self._rehearsed: Rehearsed | None = None
        self._keeps = False
        self._sent = ""
        self._profile = call_context().profile
        self.looked = 0
        self.field_parameters = Parameters("script", [Parameter("code", str)])

    @classmethod
    def of(cls, run: ScriptRun, executor: ToolExecutor) -> PendingScript:
        """Return the request about a prepared run, rehearsed if that is possible."""
        pending = cls(
            run.script.code,
            notebook_id=run.notebook_id or OWN,
            tract=executor.top.tract,
            acts_in=executor.tract,
            actor=run.author,
        )
        executor.remember_grants()
        pending.rehearse(run)
        pending.created_at = datetime.now(UTC)  # the rehearsal does not wait for the user
        pending.looked = executor.tract.scripts.rehearsing.looked()
        return pending

    def rehearse(self, run: ScriptRun | None = None) -> None:
        """Rehearse the current code. The request then shows these effects."""
        self.discard()
        scripts: Scripts = self._acts_in.scripts
        self._rehearsed = scripts.rehearse_run(run or self._prepare(self.fields["code"]))
        rest = {name: value for name, value in self.fields.items() if name != "effects"}
        effects = self._rehearsed.effects
        is_look = effects is not None and only_looked(effects)
        self._sent = sent_text(self._rehearsed.run, effects) if is_look and effects is not None else ""
        self.fields = rest if effects is None else {**rest, "effects": effects.digest}

    def _reopen(self) -> None:
        """Open the tract of the script again if its agent's call has ended and closed it. Its grant is stored.

        Raises:
            TractError: it cannot be opened. Nothing ran.
        """
        try:
            _ = self._acts_in.head
        except StoreClosedError:
            self._acts_in = self.tract.session.get_tract(self._acts_in_id)
            self._executor = self._acts_in.executor

    def _prepare(self, code: str) -> ScriptRun:
        self._reopen()
        scripts: Scripts = self._acts_in.scripts
        run = scripts.prepare(code, notebook_id=self.fields["notebook_id"], author=self.actor)
        run.calls.call_with(self._profile)  # the decision may come from another cell, or later
        return run

    def discard(self) -> None:
        """Free the rehearsal. The effects stay on display, and can no longer be kept."""
        if self._rehearsed is not None and self._rehearsed.rehearsal is not None:
            self._rehearsed.rehearsal.discard()

    @property
    def effects(self) -> Effects | None:
        """The effects of the rehearsal. None if there was none."""
        return None if self._rehearsed is None else self._rehearsed.effects

    @property
    def why_not(self) -> str:
        """The reason why the code was not rehearsed. Empty if it was, or if rehearsals are switched off."""
        return "" if self._rehearsed is None else self._rehearsed.why_not

    def shown_effects(self) -> Effects | None:
        """Return the effects of the rehearsal."""
        return self.effects

    @property
    def _can_keep(self) -> bool:
        effects = self.effects
        return effects is not None and (effects.can_be_kept or is_failed(effects))

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of the available actions, with `keep` if the effects can be kept."""
        return super().offered_actions if self._can_keep else super().offered_actions - {KEEP}

    @property
    def leading(self) -> str:  # type: ignore[override] # it depends on the effects
        """The action `keep`, if the effects can be kept."""
        return KEEP if self._can_keep else ""

    @property
    def labels(self) -> Mapping[str, str]:  # type: ignore[override] # they depend on the effects
        """The labels of the buttons."""
        effects = self.effects
        if effects is None:
            return {"approve": "Run", "reject": "Reject"}
        keep = "Send the error" if is_failed(effects) else "Send the output" if effects.is_empty else "Keep"
        return {KEEP: keep, "approve": "Run in the kernel", "reject": "Reject"}

    @action
    def keep(self) -> Any:
        """Keep exactly these effects. The code does not run in the kernel."""
        self._require_open(KEEP)
        effects = self.effects
        if (
            self._rehearsed is None
            or self._rehearsed.rehearsal is None
            or effects is None
            or not self._can_keep
        ):
            raise PendingStateError(
                f"The effects of {self!r} cannot be kept. Approve it to run it in the kernel."
            )
        if self._is_changed:
            return self._rehearse_again(_CHANGED_CODE)
        changed = () if only_looked(effects) else _in_line(self._rehearsed.rehearsal.changed_since)
        if changed:
            return self._rehearse_again(f"Changed since the rehearsal: {', '.join(changed)}. {_AGAIN}")
        self._keeps = True
        return super().run_approved()

    def run_approved(self) -> Any:
        """Run the code in the kernel. Changed code is rehearsed first, and the request stays open."""
        if self.effects is not None and self._is_changed:
            self._require_open("approve")
            return self._rehearse_again(_CHANGED_CODE)
        return super().run_approved()

    @property
    def _is_changed(self) -> bool:
        return self._rehearsed is not None and self._rehearsed.run.script.code != self.fields["code"]

    def _rehearse_again(self, note: str) -> None:
        self.rehearse()
        self.note = note

    def carry_out(self) -> ScriptResult:
        """Keep the effects, or run the code in the kernel, as decided."""
        self._reopen()
        scripts: Scripts = self._acts_in.scripts
        rehearsed = self._rehearsed
        if self._keeps and rehearsed is not None:
            is_unasked = self.decision is not None and self.decision.channel == "grant"
            if is_unasked and rehearsed.effects is not None:
                scripts.rehearsing.count_look(max(len(rehearsed.effects.text()), len(self._sent)))
            return scripts.keep(rehearsed)
        self.discard()
        return scripts.execute(self._prepare(self.fields["code"]), effects=self.effects)

    @property
    def title(self) -> str:
        """The title, with the name of the notebook."""
        notebook = self.fields["notebook_id"]
        whose = "your variables" if notebook == OWN else f"the variables of {notebook!r}"
        return f"Run a script{self._of_client} in the kernel, with {whose}"

    @property
    def _of_client(self) -> str:
        """The name that an MCP client gives, for the title."""
        return f" of the client {self.actor.removeprefix(CLIENT)!r}" if self.actor.startswith(CLIENT) else ""

    def binding(self) -> Subject:
        """Bind the approval to the whole code, its notebook, and the digest of the effects."""
        return Subject("script", "kernel", "", self.fields)

    @property
    def subject(self) -> Subject | None:
        """The rule that covers a script without effects by the chat's model. None if the user has to decide."""
        effects = self.effects
        is_look = effects is not None and only_looked(effects) and not self._is_changed
        is_own = self._acts_in is self.tract and self.actor == CHAT
        is_doubtful = self.caution or self.doubt or self._is_too_much or self._has_secret
        may_look = is_look and is_own and not is_doubtful and admin_allows_looking()
        return looking() if may_look else None

    @property
    def _has_secret(self) -> bool:
        """True if the output may have a key, so the user has to look at it."""
        return self.effects is not None and bool(why_not_sent(self._sent))

    @property
    def _is_too_much(self) -> bool:
        effects = self.effects
        return effects is not None and self.looked + max(len(effects.text()), len(self._sent)) > MOST_LOOKED

    @property
    def runs_in(self) -> RunsIn:
        """The kernel."""
        return "kernel"

    def why(self) -> str:
        """Return the state of the rehearsal, or the reason why there is none, and the author."""
        author = self._executor.asker(self.actor)
        if author == self.actor and author.startswith("agent:"):
            author = "The model"
        wrote = "You wrote this code." if self.actor == "user" else f"{author} wrote this code."
        reach = "In this kernel it has all your permissions."
        calls = "Calls of tools that can change something need another approval."
        final = self._final_calls()
        return " ".join(
            filter(None, [self._why_asked(), *self._about_rehearsal(), wrote, reach, calls, final])
        )

    def _final_calls(self) -> str:
        """Return a sentence about the calls of the code that an undo of the turn cannot take back."""
        code, effects = self.fields["code"], self.effects
        rehearsed = set() if effects is None else {call.tool for call in effects.calls}
        names = [
            tool.name
            for tool in self._executor.tools().values()
            if tool.is_final and (tool.name in rehearsed or f"tools.{python_name(tool.name)}(" in code)
        ]
        return f"Cannot be undone: calls of {', '.join(sorted(names))}." if names else ""

    def _why_asked(self) -> str:
        """Return the reason why a script without effects needs a request, although the user let the model look."""
        effects = self.effects
        if effects is None or not only_looked(effects) or not self._is_too_much:
            return ""
        if not self.tract.review.grants.has_rule():
            return ""
        return f"{ASKED_BECAUSE} the model may get {MOST_LOOKED:,} characters per turn without a request."

    def _about_rehearsal(self) -> list[str]:
        effects = self.effects
        if effects is None:
            return [f"Not rehearsed: {self.why_not.rstrip('.')}."] if self.why_not else []
        lines = [f"Rehearsed on a copy in {effects.seconds:.1f} s; nothing has changed yet."]
        if effects.problems:
            lines.append(f"These effects cannot be kept: {'; '.join(effects.problems)}.")
        return lines

    def summary(self) -> str:
        """Return the abilities of the code, as far as its text shows."""
        return str(self.tract.operations.advice.ability(*self.code_blocks()))

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code, with the findings of the analysis."""
        advice, tools = self.tract.operations.advice, self._executor.tools()
        before = self._acts_in.scripts.notebooks.ran_code(self.fields["notebook_id"])
        return (advice.code_block("script", self.fields["code"], tools=tools, cells_before=before),)

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the name of the notebook, unless it is the user's own."""
        notebook = self.fields["notebook_id"]
        return (
            () if notebook == OWN else (ValueTable("Where it runs", value_rows({"notebook": notebook}, {})),)
        )

    @property
    def _values(self) -> Mapping[str, Any]:
        return {"code": self.fields["code"]}

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        Script(values["code"], 1).compiled()
        return {**self.fields, **values}


def _carry_out(pending: PendingScript) -> ScriptResult:
    return _in_line(pending.carry_out)


def _in_line(work: Callable[[], T]) -> T:
    """Run work in this thread. For a call of an outside program, run it in line with the user's cells."""
    outside = call_context().outside
    return work() if outside is None else outside.in_line(work)
