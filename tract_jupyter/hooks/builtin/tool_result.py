"""An answer of a tool that awaits a decision before the model sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.context.summaries import AnswerShortener, Source
from tract_jupyter.exceptions import CompressionError, FingerprintError, LLMResponseError
from tract_jupyter.hooks.builtin.base import BuiltinPending, Field
from tract_jupyter.hooks.introspection import reading
from tract_jupyter.hooks.pending import action
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.context import Message
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class PendingToolResult(BuiltinPending):
    """Add the answer of a tool to the context.

    A rejection commits that the answer is withheld, and why, so that no call is ever without an answer; only an edit
    of an earlier answer (`edit`) that is rejected leaves that one as it is.

    Args:
        fields: see `about`; also what the commit needs.
        run: commits the answer that the fields describe.
        count: how many tokens it takes, given the fields.
        has_branch: whether there is a branch of that name.
        options: see `BuiltinPending`.
    """

    name = "tool_result"
    label = "Tool result"
    about: ClassVar[Mapping[str, str]] = {
        "tool_call_id": "The call that is answered.",
        "tool_name": "The tool.",
        "content": "Its answer, as text or JSON.",
        "token_count": "How many tokens the answer takes.",
        "original_content": "What the tool gave, where the answer was changed since.",
        "is_error": "Whether the call failed.",
        "edit": "The earlier answer that this one replaces.",
        "branch": "Where the call is.",
    }
    in_view = frozenset({"content", "original_content"})
    tool_call_id = Field()
    tool_name = Field()
    content = Field()
    token_count = Field()
    original_content = Field()
    is_error = Field()

    def __init__(
        self,
        fields: dict[str, Any],
        *,
        run: Callable[[dict[str, Any]], Any],
        count: Callable[[dict[str, Any]], int],
        has_branch: Callable[[str], bool],
        **options: Any,
    ) -> None:
        super().__init__(fields, run=run, **options)
        self._commit = run
        self._count = count
        self._has_branch = has_branch

    @action
    def reject(self, reason: Annotated[str, "Why; the model is told."] = "") -> None:
        """Withhold the answer. The model is told so, and why."""
        self._require_open("reject")
        if self._leaves_a_gap():
            self.withhold(reason)
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason

    @action
    def edit_result(self, content: Annotated[str | dict[str, Any], "The new answer."]) -> None:
        """Change the answer; what the tool gave is kept in the commit's metadata."""
        self._change(content)

    @action
    def summarize(
        self,
        instructions: Annotated[str, "What to look after."] = "",
        target_tokens: Annotated[int | None, "How long it should be."] = None,
    ) -> str:
        """Have the configured model shorten the answer, and return what it is then."""
        return self.shorten(instructions, target_tokens)

    def shorten(
        self,
        instructions: str,
        target_tokens: int | None = None,
        *,
        system_prompt: str | None = None,
        include_context: bool = False,
    ) -> str:
        """Do so, with what only code can choose; the arguments are those of `Tract.compress_tool_calls`.

        Raises:
            LLMError: no model is configured, or what it wrote is empty, too long, or no reply; the answer is as it was.
        """
        text = self.content if isinstance(self.content, str) else canonical_json(self.content)
        answer = Message("tool", text, name=self.tool_name, token_count=self.token_count)
        context = self.tract.compile().messages if include_context else ()
        client = self.tract.llm_for("tool_result")
        source = Source(
            summarizer=AnswerShortener(client, system_prompt=system_prompt, context=context),
            instructions=instructions or None,
            target_tokens=target_tokens,
            count=lambda written: self._count({**self.fields, "content": written}),
        )
        try:
            (shorter,) = source.texts([CompressGroup((self.tool_call_id,), (answer,))])
        except CompressionError as error:
            raise LLMResponseError(
                f"no text of the model was good, and the answer is as it was: {error}"
            ) from error
        self._change(shorter)
        return shorter

    @reading
    def get_result(self) -> Any:
        """Return the answer as it would be committed."""
        return self.content

    def withhold(self, reason: str) -> None:
        """Commit, in place of the answer, that it is withheld.

        Raises:
            FingerprintError: the call is on another branch than the current one.
        """
        try:
            self.check_current()
            said = f"withheld: {reason or 'no reason was given'}"
            self.result = self._commit(
                {**self.fields, "content": said, "is_error": True, "original_content": None}
            )
        except BaseException as error:  # nobody told the model, so it is not turned down yet
            self.fail(error)
            raise

    def is_instant(self, action: str) -> bool:
        """Return True if an action only decides; not even a rejection does, where that commits something."""
        return super().is_instant(action) and not (action == "reject" and self._leaves_a_gap())

    def check_current(self) -> None:
        """Check that the call's branch is the current one; others may have been answered there meanwhile.

        Raises:
            FingerprintError: it is not.
        """
        if self.tract.current_branch != self.fields["branch"]:
            raise FingerprintError(
                f"the call of {self.tool_name!r} is on branch {self.fields['branch']!r}, and the current one is "
                f"{self.tract.current_branch!r}; switch({self.fields['branch']!r}) first"
            )

    def summary(self) -> str:
        """Describe the answer in a sentence."""
        kind = "failed with" if self.is_error else "answered with"
        tokens = show_tokens(self.tract.corrected(self.token_count), self.tract.tokenizer.name)
        changed = " It was changed since." if self.original_content is not None else ""
        return f"The tool {self.tool_name} {kind} {tokens} tokens.{changed}"

    def tables(self) -> tuple[ValueTable, ...]:
        """Show the answer, and what it was before."""
        rows = [ValueRow.of("content", type(self.content).__name__, self.content)]
        if self.original_content is not None:
            before = self.original_content
            rows.append(ValueRow.of("original_content", type(before).__name__, before))
        return (ValueTable("Answer", tuple(rows)),)

    def _leaves_a_gap(self) -> bool:
        """Return True if the call would be without an answer."""
        branch = self.fields["branch"]  # none where HEAD was detached
        return self.fields["edit"] is None and branch is not None and self._has_branch(branch)

    def _change(self, content: str | dict[str, Any]) -> None:
        changed = {**self.fields, "content": content}
        if self.original_content is None:
            changed["original_content"] = self.content
        self.fields.update(changed, token_count=self._count(changed))
