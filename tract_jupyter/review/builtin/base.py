"""Base classes of the pendings of built-in operations.

Their fields hold all that carrying them out needs, and name the commit that they were made on: any process on the store
can carry them out, and none does where what they touch is no longer what was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from tract_jupyter.exceptions import FingerprintError, PendingError, TractError
from tract_jupyter.models import canonical_json, diagnosis_of
from tract_jupyter.review.builtin.stored import field_problem
from tract_jupyter.review.decision import decision_context
from tract_jupyter.review.introspection import reading
from tract_jupyter.review.pending import Pending, action
from tract_jupyter.storage import triggered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


PLACE: Final[Mapping[str, str]] = {
    "branch": "The branch that would change.",
    "head": "The commit of the branch at the time of the request; empty for none.",
}
"""The meaning of the fields that tie an operation to a history."""


class Field:
    """A field of a pending as an attribute: `pending.summaries` for `pending.fields["summaries"]`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, pending: Pending | None, owner: type) -> Any:
        return self if pending is None else pending.fields[self._name]

    def __set__(self, pending: Pending, value: object) -> None:
        pending.fields[self._name] = value


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of a check: whether it is good; if not, why, and at which place of a list."""

    passed: bool
    diagnosis: str = ""
    index: int | None = None

    def __bool__(self) -> bool:
        return self.passed

    @classmethod
    def of(cls, said: Any) -> ValidationResult:
        """Read what a validator said; see `diagnosis_of`.

        Raises:
            ContentError: it is nothing that a validator says.
        """
        if isinstance(said, ValidationResult):
            return said
        diagnosis = diagnosis_of(said)
        return cls(passed=not diagnosis, diagnosis=diagnosis)


class BuiltinPending(Pending):
    """The pending of one of the package's own operations.

    Args:
        fields: all of it; JSON values only.
        tract: where it would be done.
        run: does it, given the fields as they are then; its result is that of the operation.
        options: see `Pending`.
    """

    name: ClassVar[str]
    label: ClassVar[str] = ""
    """Its name for people; made from `name` if a class has none."""
    about: ClassVar[Mapping[str, str]] = {}
    """The meaning of each field, for panels and models."""

    def __init__(
        self, fields: dict[str, Any], *, tract: Any, run: Callable[[dict[str, Any]], Any], **options: Any
    ) -> None:
        def execute(pending: Pending) -> Any:
            with triggered(pending.triggered_by):
                return run(pending.fields)

        super().__init__(self.name, tract=tract, fields=fields, execute_fn=execute, **options)

    @property
    def title(self) -> str:
        """The heading of its panel."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def resumable(self) -> bool:
        """True: any process on the store can do it."""
        return True

    def check_fields(self) -> None:
        """Check that the fields are complete and of their types.

        Raises:
            PendingError: they are not.
        """
        super().check_fields()
        problem = field_problem(self.name, canonical_json(self.fields))
        if problem:
            raise PendingError(
                f"the fields of {self!r} do not fit: {problem}. Nothing was decided; put that right, and decide then"
            )

    def check_current(self) -> None:
        """Check that its branch is the current one, and that what it touches there is as it was when this was asked.

        Whatever else came to the branch since matters to nothing.

        Raises:
            FingerprintError: it is not.
        """
        branch = self.fields.get("branch")
        if branch is None:
            return
        if self.tract.current_branch != branch:
            raise FingerprintError(
                f"this is about branch {branch!r}, and the current one is {self.tract.current_branch!r}; "
                f"switch({branch!r}) first"
            )
        if self.tract.head == self.fields.get("head"):
            return
        try:
            self.check_touched()
        except TractError as error:
            raise FingerprintError(str(error)) from error

    def check_touched(self) -> None:
        """Check that what it touches on its branch is as it was.

        Raises:
            TractError: it is not; the error says what changed.
        """


def guidance_source(before: str | None, writer: str) -> str:
    """Return the author of a changed guidance: `llm`, `user` or `user+llm`.

    Args:
        before: who had written it; None if there was none.
        writer: `user` or `llm`.
    """
    return writer if before in {None, writer} else "user+llm"


class Guided(Pending):
    """A pending in two stages. The user can change the guidance before the second stage uses it."""

    guidance = Field()
    guidance_source = Field()

    @reading
    def get_guidance(self) -> str | None:
        """Return the guidance for what is done."""
        return self.guidance  # type: ignore[no-any-return] # a field's value

    @action
    def edit_guidance(self, text: Annotated[str, "The whole guidance."]) -> None:
        """Say what to look after; what is done from now on goes by it."""
        writer = "llm" if decision_context().channel == "model" else "user"
        self.guidance_source = guidance_source(self.guidance_source, writer)
        self.guidance = text


class GuidedPending(Guided, BuiltinPending):
    """An operation whose text somebody writes, with guidance; `retry` has it written again."""

    about: ClassVar[Mapping[str, str]] = {
        "guidance": "Guidance for the writer of the text.",
        "guidance_source": "Who wrote the guidance: llm, user or user+llm; null if there is none.",
    }
