"""A model's reply that needs a decision. The user can retry it before it joins the context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import PendingError, PendingStateError
from tract_jupyter.llm import CUT, ask_model, sent_of
from tract_jupyter.models import counted
from tract_jupyter.prompts import retry_text
from tract_jupyter.review.builtin.base import BuiltinPending, Field, ValidationResult, check_branch
from tract_jupyter.review.introspection import reading
from tract_jupyter.review.pending import action
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.models import LLMClient, Validator


class PendingGeneration(BuiltinPending):
    """Add a model's reply to the context.

    After a restart it has no validator, which existed in the asking process.
    """

    name = "generate"
    label = "Model's reply"
    about: ClassVar[Mapping[str, str]] = {
        "response_text": "The text of the reply.",
        "tool_calls": "The tool calls of the reply.",
        "diagnosis": "The validator's error; empty if the reply is valid, null if it was not validated.",
        "retry_prompt": "The text for the model with the next try, instead of the default.",
        "hide_retries": "Whether the earlier replies stay out of the context.",
        "retry_count": "The number of retries so far.",
        "retry_history": "The earlier replies, each with its error.",
        "max_retries": "The maximum number of retries.",
        "usage": "The tokens of this reply.",
    }
    in_view = frozenset({"response_text", "tool_calls"})
    # a retry sends them again; the provider's own form of the reply goes with it
    machinery = frozenset({"prompt", "tools", "options", "retry_history", "provider_fields", "ending"})
    response_text = Field()
    tool_calls = Field()
    diagnosis = Field()
    retry_prompt = Field()
    hide_retries = Field()
    retry_count = Field()
    retry_history = Field()
    max_retries = Field()
    model = Field()
    generation_config = Field()
    usage = Field()

    def __init__(
        self,
        fields: dict[str, Any],
        *,
        client: Callable[[], LLMClient],
        validator: Validator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(fields, **options)
        self._client = client
        self._validator = validator
        self._verdict: tuple[str, str | None] | None = None  # a text, and its diagnosis

    @property
    def retries_left(self) -> int:
        """The number of remaining retries."""
        return int(self.max_retries - self.retry_count)

    @action
    def retry(
        self, guidance: Annotated[str | None, "More to correct, in addition to the validator's error."] = None
    ) -> str:
        """Send the problem to the model, and return its new reply."""
        if self.retries_left < 1:
            raise PendingStateError(
                f"no more retries: {self.retry_count} were made, and max_retries={self.max_retries}; "
                "approve this reply, or reject it"
            )
        wrong = "\n".join(dict.fromkeys(text for text in (self._known_diagnosis(), guidance) if text))
        failed = {
            "response_text": self.response_text,
            "tool_calls": self.tool_calls,
            "generation_config": self.generation_config,
            "usage": self.usage,
            "diagnosis": wrong,
            "prompt": retry_text(wrong, self.retry_prompt),
        }
        history = [*self.retry_history, failed]
        reply = ask_model(self._client(), self._request_messages(), {**self.fields, "retry_history": history})
        self.fields.update(reply, retry_history=history, retry_count=self.retry_count + 1)
        self.look()
        return str(self.response_text)

    @reading
    def validate(self) -> ValidationResult:
        """Return the verdict of the validator on the reply. Without a validator, the reply passes."""
        diagnosis = self._known_diagnosis()
        if diagnosis is None and self.fields["validator"] is not None:
            raise PendingError(
                f"only the asking process has the validator {self.fields['validator']!r}; read the reply yourself"
            )
        return ValidationResult.of(diagnosis)

    def check_current(self) -> None:
        """Check that the branch of the request to the model is the current branch.

        The branch may have new messages. The reply can still be added, because it was paid for. `why` mentions the new
        messages.
        """
        check_branch(self.tract, self.fields["branch"], "this reply")

    def why(self) -> str:
        """Explain who asked, and whether the context has changed since."""
        moved = self.tract.head != self.fields["head"]
        note = "the context has changed since the request to the model" if moved else ""
        return "; ".join(filter(None, [super().why(), note]))

    def summary(self) -> str:
        """Describe the reply in one sentence."""
        called = ", ".join(call["name"] for call in self.tool_calls)
        reply = f"{self.model or 'The model'} replied with {len(self.response_text):,} characters"
        retries = f", after {counted(self.retry_count, 'failed attempt')}" if self.retry_count else ""
        wrong = f" The validator says: {self.diagnosis}" if self.diagnosis else ""
        cut = self.fields["ending"].get(CUT)
        about = f" It is incomplete: {cut}." if cut else ""
        return f"{reply}{f', and calls {called}' if called else ''}{retries}.{about}{wrong}"

    def tables(self) -> tuple[ValueTable, ...]:
        """Show the reply and the earlier replies."""
        rows = [ValueRow.of("text", "str", self.response_text)]
        rows += [
            ValueRow.of(c["name"], "tool call", c["arguments"], f"id {c['id']}") for c in self.tool_calls
        ]
        before = tuple(
            ValueRow.of(str(number), "str", failed["response_text"], failed["diagnosis"])
            for number, failed in enumerate(self.retry_history, 1)
        )
        tables = (
            ValueTable("Reply", tuple(rows), "rows"),
            ValueTable("Earlier replies", before, "nothing"),
        )
        return tuple(table for table in tables if table.rows)

    def look(self) -> None:
        """Validate a new reply and save the diagnosis."""
        self._verdict = None
        self.diagnosis = None if self._validator is None else self._known_diagnosis()

    def _request_messages(self) -> list[dict[str, Any]]:
        """Return the messages of the request: the context at that time, or the prompt that a run built from it."""
        prompt: list[dict[str, Any]] | None = self.fields["prompt"]
        if prompt is not None:
            return prompt
        return sent_of(self.tract.compile(at_commit=self.fields["head"]))

    def _known_diagnosis(self) -> str | None:
        """Return the diagnosis of the reply. The validator runs once per reply, and again if the text changes."""
        if self._validator is None:
            return self.diagnosis  # type: ignore[no-any-return] # as it was stored
        if self._verdict is None or self._verdict[0] != self.response_text:
            text = self.response_text
            self._verdict = (text, ValidationResult.of(self._validator(text)).diagnosis)
        return self._verdict[1]
