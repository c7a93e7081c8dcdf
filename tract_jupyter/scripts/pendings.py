"""Pendings of scripts: a paused call, saved with its program, and a script for the kernel."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from tract_jupyter.exceptions import TractError, TrustError
from tract_jupyter.models import PendingStatus, digest
from tract_jupyter.models.schema import Parameter, Parameters
from tract_jupyter.review import (
    ASKED_BECAUSE,
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
from tract_jupyter.scripts.script import OWN, Script
from tract_jupyter.storage import interruptible
from tract_jupyter.toolkit import CHAT, ToolPending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.review import Pending, RunsIn
    from tract_jupyter.storage import StoredPending


RUN_SCRIPT: Final = "run_script"
"""The operation of `PendingScript`, as its requests and rows name it."""
READS: Final = "Run code without findings that touches no files, in this session"
"""The rule of the standing approval for scripts that only read, as the user sees it."""


def reading_scripts() -> Subject:
    """Return the subject of this approval. It covers only scripts by the model of the chat."""
    return Subject("script", "kernel", digest({"rule": READS}), {}, CHAT, rule=READS)


_SAME: Final = ("code", "call", "first_line", "notebook_id", "tract")
"""The parts of a script's state that identify its current call."""


class PendingScriptCall(ToolPending):
    """A tool call from a script in the sandbox, which is paused at the call.

    The fields hold the paused program. So any process on the store can continue it.

    Args:
        fields: See `about`.
        go_on: It continues the saved program after an approval or a rejection. A script may catch a rejection. None if
            the script waits in this process. Then the decision needs no further work.
        acts_in: It returns the tract of the script, if that tract is below the tract of the request.
        options: See `BuiltinPending`.
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
    """A script for the kernel, without any restrictions. No part of it runs before the approval.

    The user may change the code first. A standing approval covers code that has no findings and only reads (`READS`).

    Args:
        code: The whole code.
        notebook_id: The notebook with the variables; `user` for the user's own variables.
        acts_in: The tract whose tools the script calls. The default is the tract of the request.
        options: See `Pending`. `execute_fn` runs the code in the fields at that time.

    Attributes:
        seen: A copy of the variables from the check that the code only reads; None before the check.
    """

    kind = "script"
    labels: Mapping[str, str] = {"approve": "Run", "reject": "Reject"}
    definition_hash = ""
    in_view = frozenset({"code", "notebook_id"})

    def __init__(self, code: str, *, notebook_id: str, acts_in: Any = None, **options: Any) -> None:
        self._checked: tuple[str, str] | None = None
        self.seen: dict[str, Any] | None = None
        super().__init__(RUN_SCRIPT, fields={"code": code, "notebook_id": notebook_id}, **options)
        self._acts_in = self.tract if acts_in is None else acts_in
        self._executor = self._acts_in.executor
        self.field_parameters = Parameters("script", [Parameter("code", str)])

    @property
    def title(self) -> str:
        """The title, with the name of the notebook."""
        notebook = self.fields["notebook_id"]
        whose = "your variables" if notebook == OWN else f"the variables of {notebook!r}"
        return f"Run a script in the kernel, with {whose}"

    def binding(self) -> Subject:
        """Bind the approval to the whole code and its notebook."""
        return Subject("script", "kernel", "", self.fields)

    @property
    def subject(self) -> Subject | None:
        """The rule that covers this code; None if it may do more than read, or if the chat's model did not write it."""
        return None if self._why_not_reading or self.caution or self.doubt else reading_scripts()

    @property
    def _why_not_reading(self) -> str:
        """The reason why each run needs approval; empty if a standing approval may cover the code."""
        code = self.fields["code"]
        if self._checked is None or self._checked[0] != code:
            self._checked = code, self._check_reading()
        return self._checked[1]

    def _check_reading(self) -> str:
        if self._acts_in is not self.tract or self.actor != CHAT:
            return "the model of this conversation did not write it"
        kernel = self._acts_in.scripts.notebooks.known(self.fields["notebook_id"])
        self.seen = kernel.namespace
        return str(self.tract.operations.advice.why_not_reading(self.code_blocks()[0], kernel))

    @property
    def runs_in(self) -> RunsIn:
        """The kernel."""
        return "kernel"

    def why(self) -> str:
        """Return the reason for the request. If reading scripts run at once, begin with the reason for this script."""
        reason = self._why_not_reading
        is_on = bool(reason) and self.tract.review.grants.has_rule()
        begin = f"{ASKED_BECAUSE} {reason}. " if is_on else ""
        reach = "In this kernel it has all your permissions."
        calls = "Calls of tools that can change something need another approval."
        author = self._executor.asker(self.actor)
        if author == self.actor and author.startswith("agent:"):
            author = "The model"
        return f"{begin}{author} wrote this code. {reach} {calls}"

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
        """Return the fields with other code.

        Raises:
            ScriptSyntaxError: The code is not Python.
        """
        Script(values["code"], 1).compiled()
        return {**self.fields, **values}
