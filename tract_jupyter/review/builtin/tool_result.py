"""Tool results: committed directly, or after a decision about the content that the model sees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from tract_jupyter.context import (
    MAX_RETRIES,
    AnswerShortener,
    Source,
    check_options,
    metadata_of,
    with_writer,
    writer_of,
    writer_options,
)
from tract_jupyter.exceptions import CompressionError, ContentError, LLMResponseError
from tract_jupyter.models import (
    CompressGroup,
    Message,
    PendingStatus,
    brief_repr,
    canonical_json,
    check_text,
    plain,
    several,
    show_tokens,
)
from tract_jupyter.review.builtin.base import BuiltinPending, Field, check_branch
from tract_jupyter.review.firing import outcome
from tract_jupyter.review.pending import action
from tract_jupyter.review.request import ValueRow, ValueTable
from tract_jupyter.storage import triggered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.models import CommitInfo, Summarizer, ToolCompactResult, Validator
    from tract_jupyter.review.firing import Firing

_logger = logging.getLogger(__name__)
_SHORTENS = "tool_summarization"
"""The name of the handler that shortens tool results."""
_DRAFTED = ("message", "priority", "metadata", "generation_config", "tags")
"""The `commit` options that a draft validates."""


class PendingToolResult(BuiltinPending):
    """Add the answer of a tool to the context.

    A rejection commits a notice with the reason, so every tool call has an answer. If the answer is an edit of an
    earlier answer (`edit`), a rejection leaves the earlier answer unchanged.
    """

    name = "tool_result"
    label = "Tool result"
    about: ClassVar[Mapping[str, str]] = {
        "tool_call_id": "The id of the call.",
        "tool_name": "The tool.",
        "content": "Its answer, as text or JSON.",
        "writer": "The model that shortened the answer, and its tokens; null if no model did.",
        "token_count": "The tokens of the answer.",
        "original_content": "The tool's original answer, if the answer was changed.",
        "is_error": "Whether the call failed.",
        "edit": "The earlier answer that this one replaces.",
        "branch": "The branch of the call.",
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
    def reject(self, reason: Annotated[str, "The reason; the model receives it."] = "") -> None:
        """Withhold the answer. The model receives the reason."""
        self._require_open("reject")
        if self._leaves_a_gap():
            self.withhold(reason)
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason

    @action
    def edit_result(self, content: Annotated[str | dict[str, Any], "The new answer."]) -> None:
        """Change the answer. The commit's metadata keeps the original."""
        self._change(content)

    @action
    def summarize(
        self,
        instructions: Annotated[str, "The important points."] = "",
        target_tokens: Annotated[int | None, "The target length in tokens."] = None,
    ) -> str:
        """Let the configured model shorten the answer, and return the new answer."""
        return self.shorten(instructions, target_tokens)

    def shorten(
        self,
        instructions: str,
        target_tokens: int | None = None,
        *,
        system_prompt: str | None = None,
        include_context: bool = False,
    ) -> str:
        """Shorten the result with options for code. See `Tract.tool_results.compress` for the arguments.

        Raises:
            LLMError: no model is configured, or its text is empty, too long or not a reply. The result is unchanged.
        """
        text = self.content if isinstance(self.content, str) else canonical_json(self.content)
        answer = Message("tool", text, name=self.tool_name, token_count=self.token_count)
        context = self.tract.compile().messages if include_context else ()
        client = self.tract.models.client_for("tool_result")
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
                f"the model wrote no valid text, so the answer is unchanged: {error}"
            ) from error
        self._change(shorter)
        return shorter

    def withhold(self, reason: str) -> None:
        """Commit a notice in place of the tool result. The notice says that the result is withheld."""
        try:
            self.check_current()
            notice = f"withheld: {reason or 'no reason was given'}"
            self.result = self._commit(
                {**self.fields, "content": notice, "is_error": True, "original_content": None}
            )
        except BaseException as error:  # the model has no notice yet, so the result is not rejected
            self.fail(error)
            raise

    def is_instant(self, action: str) -> bool:
        """Return True if an action only decides. A rejection that commits a notice is not instant."""
        return super().is_instant(action) and not (action == "reject" and self._leaves_a_gap())

    def check_current(self) -> None:
        """Check that the branch of the tool call is the current branch. The branch may have new messages."""
        check_branch(self.tract, self.fields["branch"], f"the answer of {self.tool_name!r}")

    def summary(self) -> str:
        """Describe the tool result in one sentence."""
        kind = "failed with" if self.is_error else "answered with"
        tokens = show_tokens(self.tract.corrected(self.token_count), self.tract.tokenizer.name)
        changed = " The answer was changed." if self.original_content is not None else ""
        return f"The tool {self.tool_name} {kind} {tokens} tokens.{changed}"

    def tables(self) -> tuple[ValueTable, ...]:
        """Show the tool result, and the original if it was changed."""
        rows = [ValueRow.of("content", type(self.content).__name__, self.content)]
        if self.original_content is not None:
            before = self.original_content
            rows.append(ValueRow.of("original_content", type(before).__name__, before))
        return (ValueTable("Answer", tuple(rows)),)

    def _leaves_a_gap(self) -> bool:
        """Return True if a rejection would leave the tool call without a result."""
        branch = self.fields["branch"]  # None if HEAD was detached
        return self.fields["edit"] is None and branch is not None and self._has_branch(branch)

    def _change(self, content: str | dict[str, Any]) -> None:
        changed = {**self.fields, "content": content, "writer": writer_of(content)}
        if self.original_content is None:
            changed["original_content"] = self.content
        self.fields.update(changed, token_count=self._count(changed))


def answer_fields(
    tool_call_id: str, tool_name: str, content: str | dict[str, Any], *,
    is_error: bool = False, edit: str | None = None, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments of `Tract.tool_result` as the fields of a pending."""
    if options.pop("attachments", ()):
        raise ContentError("only a message of the user has attachments; give them to user() or chat()")
    return {
        "tool_call_id": tool_call_id, "tool_name": tool_name, "content": content, "is_error": is_error,
        "edit": edit, "options": options,
    }  # fmt: skip


class ToolResults:
    """Commits tool results, after a decision if handlers exist, and shortens them."""

    def __init__(self, tract: object, repository: Repository, firing: Firing, models: Models) -> None:
        self._tract = tract
        self._repository = repository
        self._firing = firing
        self._models = models

    def commit(self, answer: dict[str, Any]) -> CommitInfo:
        """Implement `Tract.tool_result`."""
        if not self._firing.bus.listens("tool_result"):
            return self._commit(answer)
        return self._decided(self._pending(answer))

    def propose(self, answer: dict[str, Any]) -> PendingToolResult:
        """Implement `Tract.propose_tool_result`."""
        return self._firing.keep(self._pending(answer))

    def configure_summarization(
        self,
        instructions: Mapping[str, str] | None = None,
        *,
        auto_threshold: int | None = None,
        default_instructions: str = "",
        target_tokens: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
    ) -> None:
        """Shorten tool results with the configured model before they are committed. Each tool can have its own rule.

        The commit's metadata stores the original result. An error result stays unchanged, and so does a result without
        a usable summary. The call replaces earlier rules. Without any rule, no result is shortened.

        Args:
            instructions: the instructions for the summary, by tool name. Results of these tools are always shortened.
            auto_threshold: shorten results of other tools if they have more tokens than this; None to shorten none of
                them.
            default_instructions: the instructions for those other results.
            target_tokens: the target length of each summary in tokens.
            include_context: also show the model the rest of the context.
            system_prompt: replaces the default system prompt.
        """
        rules = _rules(instructions)
        check_text(default_instructions, "default_instructions")
        check_text(system_prompt or "", "system_prompt")
        for option, number, least in (
            ("auto_threshold", auto_threshold, 0),
            ("target_tokens", target_tokens, 1),
        ):
            if number is not None and (type(number) is not int or number < least):
                raise ContentError(f"{option} must be at least {least} tokens, not {brief_repr(number)}")

        def shorten(pending: PendingToolResult) -> None:
            rule = rules.get(pending.tool_name)
            tokens = self._repository.corrections.tokens
            if rule is None and auto_threshold is not None and tokens(pending.token_count) > auto_threshold:
                rule = default_instructions
            if rule is not None and not pending.is_error:
                try:
                    pending.shorten(
                        rule, target_tokens, system_prompt=system_prompt, include_context=include_context
                    )
                except Exception as error:  # noqa: BLE001 # a client may raise anything; the original result remains
                    _logger.warning("an answer of %r was not shortened: %s", pending.tool_name, error)
            pending.pass_through()

        self._firing.bus.off("tool_result", _SHORTENS)
        if rules or auto_threshold is not None:
            self._firing.bus.on("tool_result", shorten, name=_SHORTENS, before=True)

    def compress(
        self,
        commits: Iterable[str] | None = None,
        *,
        name: str | None = None,
        content: Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        target_tokens: int | None = None,
        instructions: str | None = None,
        validator: Validator | None = None,
        max_retries: int = MAX_RETRIES,
        token_tolerance: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
        triggered_by: str | None = None,
    ) -> ToolCompactResult:
        """Replace committed tool results with shorter texts.

        `undo` reverts the whole step; `restore` reverts one result.

        Args:
            commits: selected results, by hash, prefix or branch. The default is all results of the current branch.
            name: only results of this tool.
            content: the new texts, one per result, oldest first or in the order of `commits`.
            summarizer: writes the texts instead, with one call per result. The default is the configured model.
            target_tokens: the target length of each text in tokens. The remaining options work as in `Tract.compress`.
            instructions: the instructions for the summarizer.
            validator: a function that checks each text.
            max_retries: the maximum number of retries per text.
            token_tolerance: the number of tokens above the target that are still acceptable.
            include_context: also show the configured model the rest of the context.
            system_prompt: replaces the default system prompt.
            triggered_by: the cause of the call, for the log.

        Raises:
            CompressionError: a result does not exist, or a text is missing, empty or lacks required content.
            DetachedHeadError: no branch is current.
            BranchMovedError: another process moved the branch. After each of these errors, nothing has changed.
        """
        repository, writer = self._repository, summarizer
        context = repository.compiler.compile().messages if include_context else ()
        client = self._models.available("tool_result")
        if content is None and writer is None and client is not None:
            writer = AnswerShortener(client, system_prompt=system_prompt, context=context)
        source = Source(
            content, writer, target_tokens, instructions, validator, token_tolerance, max_retries,
            repository.counter.count_text,
        )  # fmt: skip
        with triggered(triggered_by):
            return repository.tool_turns.compact(commits, name, source)

    def restored(self, fields: dict[str, Any]) -> PendingToolResult:
        """Create the pending of a tool result from its fields."""
        return PendingToolResult(
            fields, tract=self._tract, run=self._commit, count=self._tokens, has_branch=self._has_branch
        )

    def _pending(self, answer: dict[str, Any]) -> PendingToolResult:
        """Return the pending for a tool result, with the same validation as `commit`."""
        options = dict(answer["options"])
        check_options(options)
        if "tags" in options:
            options["tags"] = several(options["tags"], "tags")
        edit = answer["edit"] and self._repository.commits.check_target(answer["edit"]).commit_hash
        fields = {**answer, "edit": edit, "options": options, "original_content": None, "writer": None}
        count = self._tokens(fields)
        branch = self._repository.refs.position.branch
        return self.restored({**plain(fields), "token_count": count, "branch": branch})

    def _has_branch(self, name: str) -> bool:
        with self._repository.database.read() as connection:
            return self._repository.ref_rows.exists(connection, name)

    def _decided(self, pending: PendingToolResult) -> CommitInfo:
        """Return the committed tool result, or the notice that replaces it, after the decision."""
        pending = cast("PendingToolResult", self._firing.decide(pending, unhandled="approve", joins=True))
        turned_down = pending.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}
        if turned_down and pending.result is None and pending.fields["edit"] is None:
            # another process decided, or the request expired
            pending.withhold(pending.rejection_reason or "no decision in time")
        info: CommitInfo = pending.result if turned_down and pending.result is not None else outcome(pending)
        return info

    def _commit(self, fields: dict[str, Any]) -> CommitInfo:
        content = fields["content"]
        written = with_writer(content, fields.get("writer")) if isinstance(content, str) else content
        wrote = writer_options(written, _metadata(fields))
        if wrote["generation_config"] is None:
            del wrote["generation_config"]
        options = {**fields["options"], **wrote}
        return self._repository.commits.say(_content(fields), fields["edit"], options)

    def _tokens(self, fields: dict[str, Any]) -> int:
        options = {name: value for name, value in fields["options"].items() if name in _DRAFTED}
        draft = self._repository.commits.draft(_content(fields), **{**options, "metadata": _metadata(fields)})
        return draft.token_count


def _rules(instructions: Mapping[str, str] | None) -> dict[str, str]:
    if instructions is not None and not isinstance(instructions, Mapping):
        raise ContentError(f"instructions must map tool names to texts, not {brief_repr(instructions)}")
    rules = dict(instructions or {})
    for tool, text in rules.items():
        check_text(tool, "the name of a tool")
        check_text(text, f"the instructions for {tool!r}")
    return rules


def _content(fields: dict[str, Any]) -> dict[str, Any]:
    content = fields["content"]
    return {
        "content_type": "tool_io",
        "tool_name": fields["tool_name"],
        "direction": "result",
        "payload": {"content": content} if isinstance(content, str) else content,
        "status": "error" if fields["is_error"] else None,
    }


def _metadata(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the link to the tool call, and the original content if the result was changed."""
    linked = {"tool_call_id": fields["tool_call_id"], "name": fields["tool_name"]}
    failed = {"is_error": True} if fields["is_error"] else {}
    original = fields.get("original_content")
    changed = {} if original is None else {"original_content": original}
    return {**metadata_of(fields["options"]), **linked, **failed, **changed}
