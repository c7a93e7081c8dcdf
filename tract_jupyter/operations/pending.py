"""`DynamicPending`: the base class for the pendings of dynamic operations."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import ParameterError, TractError
from tract_jupyter.models import PendingStatus, canonical_json
from tract_jupyter.operations.spec import GUIDANCE_FIELDS
from tract_jupyter.review import FieldPending, action, findings_text
from tract_jupyter.review.builtin import Guided, guidance_source
from tract_jupyter.storage import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.operations.advice import Advice
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.review import CodeBlock, RunsIn


class DynamicPending(FieldPending):
    """A fired dynamic operation.

    Raises:
        ParameterError: a field is missing, is unknown or has the wrong type.
    """

    kind = "operation"
    spec: ClassVar[OperationSpec]
    spec_hash: ClassVar[str]
    _analysed: ClassVar[tuple[Advice, tuple[CodeBlock, ...]] | None] = None
    field_parameters: ClassVar[Parameters]  # type: ignore[misc] # of the class here, of the instance for tool calls

    def __init__(self, *, tract: Any, fields: dict[str, Any] | None = None, **options: Any) -> None:
        values = self.field_parameters.validate(fields if fields is not None else {})
        super().__init__(self.spec.name, tract=tract, fields=values, **options)
        self._sound_fields = values  # the last valid fields, while an action changes them

    if TYPE_CHECKING:  # its actions are methods that only its spec names

        def __getattr__(self, name: str) -> Any: ...

    is_offered: bool = False
    """True if the user is asked because there is one action and no handler decided."""

    def runs_nothing(self, action: str) -> bool:
        """Return True if `action` is a plain approval that runs none of the operation's actions."""
        return action == "approve" and bool(self.spec.actions) and self._execute_fn is None

    @property
    def definition_hash(self) -> str:  # type: ignore[override] # a property is all that is needed
        """The hash of the spec."""
        return self.spec_hash

    @property
    def volatile(self) -> frozenset[str]:  # type: ignore[override]
        """The fields that an approval does not bind, according to the author."""
        return self.spec.volatile

    @property
    def resumable(self) -> bool:
        """True if another process can execute it, because all of its code is in its spec."""
        return self._execute_fn is None

    @property
    def runs_in(self) -> RunsIn:
        """`sandbox` if all actions run there, otherwise `kernel`."""
        return "sandbox" if self.spec.is_sandboxed else "kernel"

    def check_fields(self) -> None:
        """Check the current fields by the same rules as `fire`. Code may have changed them since."""
        super().check_fields()
        try:
            self.field_parameters.validate(self.fields)
        except ParameterError:
            canonical_json(self.fields)  # a value without a JSON form is a ContentError instead
            raise

    def check_current(self) -> None:
        """Check that this version of the operation is still active."""
        self.tract.operations.check_current(self)

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code of each action, with findings."""
        is_typed = self.spec_hash in self.tract.operations.typed
        return tuple(replace(block, is_typed=is_typed) for block in blocks_of(type(self), self.tract))

    def why(self) -> str:
        """Explain the reason for the request, with the actor and the analysis findings."""
        reason = "A review was requested, or a handler left the decision to you"
        if self.is_offered:
            reason = "It has an action to run, and no handler decides"
        if self.spec.unhandled == "ask":
            reason = f"{self.operation} asks the user if no handler decides"
        through = f" ({self.triggered_by})" if self.triggered_by else ""
        parts = [
            f"{reason}; fired by {self.actor}{through}.",
            unreviewed_text(type(self), self.tract),
            findings_text(self.code_blocks()),
        ]
        return " ".join(filter(None, parts))

    def run_action(self, action: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of the operation's actions through the gate."""
        __tracebackhide__ = True
        parameters: Parameters = action.parameters  # type: ignore[attr-defined]
        arguments = parameters.validate(parameters.bind(args, kwargs))
        if self.spec.actions[action.__name__].is_sandboxed:
            self.tract.sandboxes.opened()  # fail before the decision if there is no sandbox
        return self.through_gate(action.__name__, arguments, lambda: self._run_body(action, arguments))

    def _run_body(self, action: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        self._require_open(action.__name__)
        self.status, self.error = PendingStatus.PENDING, None  # retry after a failure
        self._sound_fields = copy.deepcopy(self.fields)
        try:
            returned = interruptible(action.body, self, **arguments)  # type: ignore[attr-defined]
            if self.status is not PendingStatus.REJECTED:
                self.check_fields()
        except BaseException as error:
            self._put_back()
            self.fail(error)
            raise
        if returned is not None:
            self.result = returned
        return returned

    def _put_back(self) -> None:
        """Restore the last valid fields if an action left invalid ones."""
        try:
            self.check_fields()
        except TractError:
            self.fields = self._sound_fields

    def run_approved(self) -> Any:
        """Check the fields, which an action may have changed, and run the approved work."""
        self._require_open("approve")
        self.check_fields()
        self._sound_fields = copy.deepcopy(self.fields)
        return super().run_approved()


class GuidedDynamicPending(Guided, DynamicPending):
    """A fired dynamic operation in two stages. Its actions follow the guidance, which is one of its fields."""

    labels: Mapping[str, str] = {
        **DynamicPending.labels,
        "edit_guidance": "Change guidance",
        "regenerate_guidance": "Write guidance again",
    }
    preparing: ClassVar[frozenset[str]] = frozenset({"edit_guidance", "regenerate_guidance"})

    @action
    def regenerate_guidance(
        self, instructions: Annotated[str | None, "Instructions for this time."] = None
    ) -> str:
        """Let a model write new guidance, and return it."""
        self.guidance = self.tract.operations.write_guidance(self.spec, self.fields, instructions)
        self.guidance_source = "llm"
        return str(self.guidance)

    def why(self) -> str:
        """Extend the explanation with the author of the guidance."""
        by = {
            "llm": "A model wrote its guidance",
            "user+llm": "A model wrote its guidance, and a user changed it",
        }
        written = by.get(self.guidance_source or "", "")
        return " ".join(filter(None, [super().why(), f"{written}; read it first." if written else ""]))

    def editable(self) -> Parameters | None:
        """Return the editable fields. The source of the guidance is not editable."""
        fields = super().editable()
        return None if fields is None else fields.without({GUIDANCE_FIELDS[1]})

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with other values and an updated source of the guidance."""
        source = self.guidance_source
        if values["guidance"] != self.guidance:
            source = guidance_source(source, "user")
        return {**values, "guidance_source": source}


def pending_base(spec: OperationSpec) -> type[DynamicPending]:
    """Return the base class for the pendings of a spec."""
    return GuidedDynamicPending if spec.two_stage else DynamicPending


def blocks_of(cls: type[DynamicPending], tract: Any) -> tuple[CodeBlock, ...]:
    """Return the code of each action, with findings. The result is cached for each version and set of rules."""
    advice: Advice = tract.operations.advice
    known = cls._analysed  # the attribute of `DynamicPending` or of this class
    if known is None or known[0] is not advice:
        known = cls._analysed = (advice, analysed_blocks(cls.spec, advice))
    return known[1]


def analysed_blocks(spec: OperationSpec, advice: Advice) -> tuple[CodeBlock, ...]:
    """Return the code of each action, with the analysis findings."""
    return tuple(advice.block(action) for action in spec.actions.values())


def members_of(cls: type) -> set[str]:
    """Return the attribute names of a pending class."""
    return {name for base in cls.__mro__[:-1] for name in base.__annotations__}.union(dir(cls))


def unreviewed_text(cls: type[DynamicPending], tract: Any) -> str:
    """Return a note for an unreviewed operation, otherwise an empty text."""
    unreviewed = cls.spec.name in tract.operations.registry.unreviewed
    return "A model wrote its code, and no user has reviewed it." if unreviewed else ""
