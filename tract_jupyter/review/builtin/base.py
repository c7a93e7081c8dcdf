"""Base classes for the pendings of built-in operations.

The fields hold everything that the operation needs, including the commit that it is based on. Any process on the store
can therefore carry it out. It refuses if the affected part of the history has changed since.
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
    """The result of a check. A failed check has a diagnosis and, for a list, the index of the bad item."""

    passed: bool
    diagnosis: str = ""
    index: int | None = None

    def __bool__(self) -> bool:
        return self.passed

    @classmethod
    def of(cls, verdict: Any) -> ValidationResult:
        """Convert the return value of a validator; see `diagnosis_of`."""
        if isinstance(verdict, ValidationResult):
            return verdict
        diagnosis = diagnosis_of(verdict)
        return cls(passed=not diagnosis, diagnosis=diagnosis)


class BuiltinPending(Pending):
    """The pending of one of the package's operations.

    `run` carries the operation out with the current fields.
    """

    name: ClassVar[str]
    label: ClassVar[str] = ""
    """The display name. If a class has none, it is derived from `name`."""
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
        """The heading of the panel."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def resumable(self) -> bool:
        """True: any process on the store can carry it out."""
        return True

    def check_fields(self) -> None:
        """Check that all fields exist and have the right types."""
        super().check_fields()
        problem = field_problem(self.name, canonical_json(self.fields))
        if problem:
            raise PendingError(
                f"invalid fields of {self!r}: {problem}. Nothing was decided; correct them, and decide again"
            )

    def check_current(self) -> None:
        """Check that the pending's branch is current and that the affected commits are unchanged.

        Other new commits on the branch do not matter.
        """
        branch = self.fields.get("branch")
        if branch is None:
            return
        check_branch(self.tract, branch)
        if self.tract.head == self.fields.get("head"):
            return
        try:
            self.check_touched()
        except TractError as error:
            raise FingerprintError(str(error)) from error

    def check_touched(self) -> None:
        """Check that the affected commits of the branch are unchanged.

        Raises:
            TractError: a commit has changed. The error names the change.
        """


def check_branch(tract: Any, branch: str | None, subject: str = "this request") -> None:
    """Check that a tract is on the branch of a request."""
    current = tract.current_branch
    if current != branch:
        raise FingerprintError(
            f"{subject} is for branch {branch!r}, and the current branch is {current!r}; switch({branch!r}) first"
        )


def guidance_source(before: str | None, writer: str) -> str:
    """Return the author of a changed guidance: `llm`, `user` or `user+llm`."""
    return writer if before in {None, writer} else "user+llm"


class Guided(Pending):
    """A pending in two stages. The user can change the guidance before the second stage uses it."""

    guidance = Field()
    guidance_source = Field()

    @reading
    def get_guidance(self) -> str | None:
        """Return the guidance."""
        return self.guidance  # type: ignore[no-any-return] # a field's value

    @action
    def edit_guidance(self, text: Annotated[str, "The whole guidance."]) -> None:
        """Set the guidance; it applies to all later steps."""
        writer = "llm" if decision_context().channel == "model" else "user"
        self.guidance_source = guidance_source(self.guidance_source, writer)
        self.guidance = text


class GuidedPending(Guided, BuiltinPending):
    """An operation with a written text and guidance for the author. `retry` writes the text again."""

    about: ClassVar[Mapping[str, str]] = {
        "guidance": "Guidance for the writer of the text.",
        "guidance_source": "Who wrote the guidance: llm, user or user+llm; null if there is none.",
    }
