"""One call of a tool, in four steps: find it, permit it, ask about it, make it.

`ToolExecutor.execute` runs all four steps. `ToolExecutor.prepare` runs the first two and creates the request. The
requests of several calls can then appear together. An approved call is executed with its `Approval`, through the same
steps. Effects that are known before the call belong between `permit` and `request`.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    CassetteError,
    FingerprintError,
    ParameterError,
    RejectedError,
    StoreError,
    UndecidedError,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.prompts import CHANGED_SINCE, NO_PERMISSION, NO_REASON, undecided
from tract_jupyter.storage import current_trigger, is_order
from tract_jupyter.toolkit.ambient import call_context, changed_context
from tract_jupyter.toolkit.callers import USER, Permission, question, waiting
from tract_jupyter.toolkit.pendings import Approval, PendingToolCall
from tract_jupyter.toolkit.recorded import call_name
from tract_jupyter.toolkit.results import ToolResult, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.review import ActionChoice, Pending
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.definitions import CallDetails, ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.pendings import ToolQuestion
    from tract_jupyter.toolkit.profiles import ToolProfile

FINAL: Final = " It cannot be undone."
"""The sentence in a request about a call without a revert."""
_ALLOW: Final = Permission.ALLOW  # a member lookup takes as long as a function call


class Call:
    """One call of a tool.

    A caller sets `approval` once a prepared call is approved; it makes another request unnecessary. `values` are the
    arguments with defaults, and later the approved arguments. `question` is the request that must be decided first.
    """

    tool: ToolDefinition
    values: dict[str, Any]

    def __init__(
        self,
        executor: ToolExecutor,
        name: str,
        actor: str,
        profile: ToolProfile | None,
        level: LeveledPermission | None,
        approval: Approval | None = None,
    ) -> None:
        self._executor = executor
        self._name = name
        self._actor = actor
        self._profile = profile
        self._level = level
        self.approval = approval
        self._choice: ActionChoice | None = None
        self.question: ToolQuestion | None = None

    def prepare(self, arguments: Mapping[str, Any], doubt: str = "") -> ToolResult | None:
        """Find and permit the call, and create its request if it needs approval. Return the refusal, or None.

        `doubt` is the reason to ask although the call was allowed before. The user sees it.
        """
        try:
            self.find()
            permitted = self.permit(arguments)
            if permitted is Permission.ASK or (doubt and not self.shows_doubt()):
                self.question = self.request(doubt)
        except BaseException as error:  # errors are data
            if is_order(error):
                raise
            return failed(self._name, error)
        self._name = self.tool.name  # another tool may have the given name when the call is made
        return None

    def execute(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Take all four steps. See `ToolExecutor.execute`."""
        try:
            self.find()
            self.count()
            if self.permit(arguments) is Permission.ASK and self.approval is None:
                self.ask()
        except BaseException as error:  # errors are data, as promised
            if is_order(error):
                raise
            return failed(self._name, error)
        return self.make()

    def find(self) -> None:
        """Find the tool. It must exist, match the approval, belong to the profile, and be unlocked."""
        executor, name, profile = self._executor, self._name, self._profile
        tool = executor.get(name) if isinstance(name, str) else None
        if self.approval is not None and tool is None:
            raise CallRefused(executor.why_gone() or CHANGED_SINCE.format(tool=name))
        if tool is None or (profile is not None and not profile.has(tool)):
            raise CallRefused.by(executor.unknown(name, tool, profile, self._actor))
        self.tool = tool
        self._actor, locks = executor.qualified(self._actor), executor.locks
        if tool.name in locks:
            reason = f": {locks[tool.name]}" if locks[tool.name] else ", without a reason"
            raise CallRefused(f"tool {tool.name!r} is locked{reason}; it cannot be called now")

    def count(self) -> None:
        """Count the call in the turn that makes it."""
        take_call = call_context().take_call
        why_not = "" if take_call is None else take_call()
        if why_not:
            raise CallRefused(why_not)

    def permit(self, arguments: Mapping[str, Any]) -> Permission:
        """Validate the arguments, and return whether the actor may make the call or has to ask.

        Raises:
            CallRefused: the arguments do not fit, the approval is for another call, or the call is not permitted.
        """
        tool = self.tool
        try:
            self.values = tool.validate(arguments)
        except ParameterError as error:
            if self.approval is not None:  # they fitted the tool that the user saw
                raise CallRefused(CHANGED_SINCE.format(tool=tool.name)) from None
            raise CallRefused("; ".join(error.problems), denied=False) from None
        self._check_approval()
        if tool.check is not None:
            with _call_settings(self._executor, self._profile):
                tool.check(self.values, self._actor)
        self._check_level()
        return self._permission()

    def _check_approval(self) -> None:
        approval, tool = self.approval, self.tool
        if approval is None:
            return
        if approval.definition_hash != tool.hash_for(self.values):
            raise CallRefused(CHANGED_SINCE.format(tool=tool.name))
        self._choice = approval.choice

    def _permission(self) -> Permission:
        permitted = (self._level or self._executor.permission)(self.tool, self._actor)
        reads_freely = self.tool.reads_freely
        if permitted is _ALLOW and reads_freely is not None and self._actor != USER:
            return _ALLOW if reads_freely(self.values, self._actor) else Permission.ASK
        if permitted is _ALLOW or permitted is Permission.ASK:
            return permitted
        if self._level is not None:
            raise CallRefused(self._level.why_not(self.tool, self._actor))
        raise CallRefused(NO_PERMISSION.format(actor=self._actor, tool=self.tool.name))

    def shows_doubt(self) -> bool:
        """Return True if the tool itself always asks about these arguments."""
        asks = self.tool.asks_always
        return self._actor != USER and asks is not None and asks(self.values)

    def request(self, doubt: str = "") -> ToolQuestion:
        """Return the request about the call. If it fires an operation, the request says why no handler decides."""
        tool = self.tool
        pending: ToolQuestion = question(tool, self.values) or self._request(doubt)
        if doubt and isinstance(pending, PendingToolCall):
            pending.is_in_doubt = True
        if pending.fired is not None:
            pending.unguarded = self._executor.home(tool.name).unguarded(pending.fired.spec.name)
        return pending

    def ask(self) -> None:
        """Ask the user, and use the approved values and action.

        Raises:
            CallRefused: the user did not approve it, or the tool has changed since the request.
        """
        tool, reviewer = self.tool, self._executor.reviewer
        pending = self.request()
        try:
            if not reviewer.granted(pending):
                with reviewer.claim(pending) as same:  # the identical open request, if there is one
                    same.unguarded = pending.unguarded
                    with waiting(same):
                        reviewer.decide_now(same)
                pending = same
        except UndecidedError as error:
            raise CallRefused(undecided(str(error))) from error
        if pending.status is not PendingStatus.APPROVED:
            raise CallRefused(refusal(pending))
        self.values, approval = dict(pending.call_arguments), pending.approval
        if tool.hash_for(self.values) != approval.definition_hash:
            raise CallRefused(CHANGED_SINCE.format(tool=tool.name))
        self._choice = approval.choice
        self._check_level()  # it may have changed while the request waited

    def make(self) -> ToolResult:
        """Run the tool's handler, or replay its result from a cassette.

        Raises:
            CassetteError: a cassette is replayed, and its next entry is another call.
        """
        tool, actor, cassette = self.tool, self._actor, self._executor.cassette
        self._executor.count_use(tool.name)
        # a cassette does not record the user's own calls of tools that work on the tract
        if cassette is None or (tool.is_of_tract and actor == USER):
            return self._run()
        return cassette.call(
            tool.name, self.values, actor, self._run,
            write=ToolResult.to_json, read=partial(ToolResult.from_json, self._name), again=tool.is_of_tract,
        )  # fmt: skip

    def _run(self) -> ToolResult:
        effects = call_context().effects
        if effects is None or not self.tool.acts_outside:
            result = self._run_handler()
            if effects is not None and self.tool.remains and not result.denied:
                effects.left(call_name(self.tool, self.values), self.tool.remains)
            return result
        try:
            return effects.call(self.tool, self.values, self._run_handler)
        except StoreError as error:  # the record cannot be stored, so nothing ran
            return failed(self._name, error)

    def _run_handler(self) -> ToolResult:
        tool, values, actor = self.tool, self.values, self._actor
        with _call_settings(self._executor, self._profile, self._level):
            try:
                if tool.told_choice:
                    output = tool.handler(actor, self._choice, **values)
                else:
                    output = tool.handler(actor, **values) if tool.told_actor else tool.handler(**values)
            except CassetteError:
                raise  # from a nested call or request: the whole replay has failed
            except (
                BaseException
            ) as error:  # also a `CancelledError` or `SystemExit`: it becomes the tool's result
                if is_order(error):
                    raise
                return failed(self._name, error)
            return result_of(self._name, output)

    def _request(self, doubt: str) -> PendingToolCall:
        executor, tool, values, actor = self._executor, self.tool, self.values, self._actor
        code = tool.examine()
        definition_hash = tool.hash_for(values, code.digest)
        return PendingToolCall(
            tool.name,
            values,
            tract=executor.top.tract,
            acts_in=executor.tract,
            actor=actor,
            triggered_by=current_trigger(),
            parameters=tool.parameters,
            definition_hash=definition_hash,
            check=partial(self._check_unchanged, dict(values), definition_hash),
            description=tool.description,
            why=f"{executor.asker(actor)} wants to make this call. It needs your approval: "
            f"{doubt or f'the tool {_traits(tool)}'}.{_doubt_sentence(code.doubt)}{FINAL if tool.is_final else ''}",
            details=_details_of(tool, actor),
            code_doubt=code.doubt,
        )

    def _check_unchanged(self, values: dict[str, Any], definition_hash: str) -> None:
        """Check that an approval still matches the call."""
        repeat = Call(
            self._executor, self.tool.name, self._actor, None, self._level, Approval(definition_hash)
        )
        repeat.values = values
        try:
            repeat.find()
            repeat._check_approval()
            repeat._permission()
        except CallRefused as refused:
            raise FingerprintError(str(refused)) from None

    def _check_level(self) -> None:
        """Check the level of the outer caller, such as a script, if this call is nested."""
        acting = call_context().level
        if acting is not None and acting.bars(self.tool):
            raise CallRefused(acting.why_not(self.tool, self._actor))


class RevertCall(Call):
    """The call that takes back an earlier call of a tool, for the user: the same four steps, with the tool's revert."""

    def find(self) -> None:
        """Find the revert of the tool. The tool itself must exist and be unlocked."""
        super().find()
        if self.tool.revert is None:
            raise CallRefused(f"the tool {self.tool.name!r} has no revert any more", denied=False)
        self.tool = self.tool.revert

    def ask(self) -> None:
        """Refuse: the user has decided already, so another permission than `allow` forbids the call."""
        raise CallRefused(NO_PERMISSION.format(actor=self._actor, tool=self.tool.name))


class CallRefused(Exception):  # noqa: N818 # it becomes a result and is not an error
    """The refusal of a call."""

    def __init__(self, why: str, *, denied: bool = True) -> None:
        super().__init__(why)
        self.denied = denied
        self.result: ToolResult | None = None

    @classmethod
    def by(cls, result: ToolResult) -> CallRefused:
        """Return the refusal for a result."""
        refused = cls(result.error)
        refused.result = result
        return refused


def failed(name: str, error: BaseException) -> ToolResult:
    """Convert an exception into a result for the caller."""
    if isinstance(error, CallRefused):
        return error.result or ToolResult(
            name, success=False, error=str(error), cause=error.__cause__, denied=error.denied
        )
    message = f"{type(error).__name__}: {_words(error)}"
    if isinstance(error, UndecidedError):
        message = undecided(message)
    return ToolResult(
        name, success=False, error=message, cause=error, denied=isinstance(error, RejectedError)
    )


def refusal(pending: Pending) -> str:
    """Return why a request was not approved, for the actor of the request."""
    if pending.status is PendingStatus.EXPIRED:
        return f"no decision within {pending.timeout:g} s"
    return pending.rejection_reason or NO_REASON


def _call_settings(
    executor: ToolExecutor, profile: ToolProfile | None, level: LeveledPermission | None = None
) -> AbstractContextManager[None]:
    """Set the executor, the profile and the level of the calls in this block. A script has already set its own."""
    now = call_context()
    if now.executor is executor and profile in (None, now.profile) and level in (None, now.level):
        return nullcontext()
    changes = {"executor": executor, "profile": profile, "level": level}
    return changed_context(**{name: value for name, value in changes.items() if value is not None})


def _doubt_sentence(doubt: str) -> str:
    return doubt and f" A standing approval is not possible, because other code may run later: {doubt}."


def _details_of(tool: ToolDefinition, actor: str) -> Callable[[Mapping[str, Any]], CallDetails] | None:
    """Return a function that returns the details of a call for its current arguments."""
    details = tool.details
    return None if details is None else lambda now: details(now, actor)


def _words(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it tried to end the process (exit code {error.code!r})"
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 # its own __str__ may raise anything
        return "an error without a readable text"


def _traits(tool: ToolDefinition) -> str:
    traits = tool.traits
    if traits.read_only:
        return "reads data of the user"
    words = ["may destroy something" if traits.destructive else "writes"]
    return " and ".join([*words, *(["reaches outside"] if traits.open_world else [])])
