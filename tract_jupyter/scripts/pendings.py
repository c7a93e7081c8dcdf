"""Pendings of scripts: a paused call, saved with the program that made it, and a script for the kernel."""

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
READS: Final = "Run what has no findings and touches no files, in this session"
"""The rule of the standing approval for scripts that only read, as the user sees it."""


def reading_scripts() -> Subject:
    """Return the subject of that approval: scripts of the model of the chat only."""
    return Subject("script", "kernel", digest({"rule": READS}), {}, CHAT, rule=READS)


_SAME: Final = ("code", "call", "first_line", "notebook_id", "tract")
"""The parts of a script's state by which it is known to stand at the same call."""


class PendingScriptCall(ToolPending):
    """Call a tool from a script of the sandbox, which is paused at the call.

    The fields hold the paused program, so that any process on the store can go on with it.

    Args:
        fields: see `about`.
        go_on: takes the saved program up, where the script does not wait in this process: for an approval, and for a
            rejection too, which the script may catch. None where it waits, so that deciding is all there is to do.
        acts_in: gives the tract whose script it is, where that stands below the one that is asked.
        options: see `BuiltinPending`.
    """

    kind = "tool"
    name = "script_call"
    about: ClassVar[Mapping[str, str]] = {
        "tool": "The tool that the script calls.",
        "arguments": "What it calls it with.",
        "definition_hash": "Of the tool, as it was when this was asked.",
        "script": "The script, and where it stands.",
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
    def reject(self, reason: Annotated[str, "Why; the script is told, and may go on."] = "") -> Any:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason
        if self._execute_fn is not None and not self.doubt:  # what nobody knows does not go on at all
            self.result = interruptible(self._execute_fn, self)
        return self.result

    def repeats(self, other: Pending | StoredPending) -> bool:
        """Return True if the same call of the same script already waits, because the script was run again."""
        there = other.fields.get("script")
        return isinstance(there, dict) and all(there.get(name) == self.script[name] for name in _SAME)

    def is_instant(self, action: str) -> bool:
        """Return True if deciding is all there is to do, because the script itself is waiting."""
        if self.chooses(action):
            return False
        return self._execute_fn is None or action == "pass_through"

    def check_current(self) -> None:
        """Check that tool and program are the ones that were asked about.

        Raises:
            FingerprintError: the tool was changed or removed.
            TrustError: somebody else saved the program, or changed it: nobody can see what it would do.
        """
        if self.doubt:
            raise TrustError(
                f"{self.doubt} A saved program goes on only where it is known to be yours; turn it down"
            )
        super().check_current()

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of the operation that is fired, if any, and the whole script with the asking line marked."""
        asked, script = super().asking_block(), self.script
        title, marked = ("Script", None) if asked is None else (asked.title, asked.marked)
        whole = CodeBlock(title, script["code"], first_line=script["first_line"], marked=marked)
        return (*super().code_blocks(), whole)

    @property
    def runs_in(self) -> RunsIn:
        """The sandbox: only its scripts pause at a call."""
        return "sandbox"

    def asking_block(self) -> None:
        """Return None: the asking line is marked in the script."""

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
        return (*super().tables(), ValueTable("Where the script stands", rows, "nothing"))

    def summary(self) -> str:
        """Return what the tool does."""
        tool = self.current_tool
        return "" if tool is None else tool.description

    def _asker(self) -> str:
        try:
            return str(self.acts_in.executor.asker(self.actor))
        except TractError:  # the tract below is gone
            return self.actor

    def why(self) -> str:
        """Return who wants to call it, and what deciding later means."""
        return (
            f"{self._asker()} wants to make this call, and is stopped there. It was saved with this question: decided "
            f"later, it goes on from this line. {self.about_operation()}"
        ).rstrip()


class PendingScript(FieldPending):
    """A script for the kernel, where nothing contains it. Nothing of it runs before it is approved.

    The user may change the code first. One standing approval covers it, if it has no findings and only reads (`READS`).

    Args:
        code: all of it.
        notebook_id: whose variables it would see; `user` for the user's own.
        acts_in: the tract whose tools it would call; that of the question if left out.
        options: see `Pending`. `execute_fn` runs the code that its fields have then.

    Attributes:
        seen: a copy of the variables by which it was found that the code only reads; None if nobody looked.
    """

    kind = "script"
    labels: ClassVar[Mapping[str, str]] = {"approve": "Run", "reject": "Reject"}
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
        """Bind all of the code, and where it would run."""
        return Subject("script", "kernel", "", self.fields)

    @property
    def subject(self) -> Subject | None:
        """The rule that covers this code; None if it may do more than read, or if it is not the chat's own."""
        return None if self._why_not_reading or self.caution or self.doubt else reading_scripts()

    @property
    def _why_not_reading(self) -> str:
        """The reason why the user is asked about the code each time; empty if a standing approval may cover it."""
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
        """Return why the user is asked. If scripts that only read run at once, the reason for this one comes first."""
        reason = self._why_not_reading
        is_on = bool(reason) and self.tract.review.grants.has_rule()
        asked = f"{ASKED_BECAUSE} {reason}. " if is_on else ""
        reach = "In this kernel it can do whatever you can."
        calls = "You are asked again before it calls a tool that can change something."
        author = self._executor.asker(self.actor)
        if author == self.actor and author.startswith("agent:"):
            author = "The model"
        return f"{asked}{author} wrote this code. {reach} {calls}"

    def summary(self) -> str:
        """Return what the code can do, as far as its text tells."""
        return str(self.tract.operations.advice.ability(*self.code_blocks()))

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code, with the findings of the analysis."""
        advice, tools = self.tract.operations.advice, self._executor.tools()
        before = self._acts_in.scripts.notebooks.ran_code(self.fields["notebook_id"])
        return (advice.code_block("script", self.fields["code"], tools=tools, cells_before=before),)

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the name of the notebook, if it is not the user's own: else the code says everything."""
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
            ScriptSyntaxError: it is not Python.
        """
        Script(values["code"], 1).compiled()
        return {**self.fields, **values}
