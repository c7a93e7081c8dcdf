"""Committing the answers of tools, which may be decided about before the model sees them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tract_jupyter.exceptions import ContentError
from tract_jupyter.facade.branches import Branches
from tract_jupyter.facade.gated import Gated, outcome
from tract_jupyter.facade.writing import Writing, check_options, metadata_of
from tract_jupyter.hooks.builtin.tool_result import PendingToolResult
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.checks import check_text, several
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from tract_jupyter.models.commit import CommitInfo

_logger = logging.getLogger(__name__)
_SHORTENS = "tool_summarization"
"""What the handler goes by that shortens answers."""
_DRAFTED = ("message", "priority", "metadata", "generation_config", "tags")
"""The options of `commit` that a draft checks."""


class Answering(Writing, Branches, Gated):
    """The part of `Tract` that commits the answers of tools."""

    def tool_result(
        self,
        tool_call_id: str,
        name: str,
        content: str | dict[str, Any],
        *,
        is_error: bool = False,
        edit: str | None = None,
        **options: Any,
    ) -> CommitInfo:
        """Commit the answer to a tool call.

        A handler on `tool_result` may change it first, or reject it: then an error stands in its place that tells the
        model why it is withheld, and that commit is returned.

        Args:
            tool_call_id: the `id` of the call.
            name: the tool.
            content: what it gave, as text or as JSON.
            is_error: whether the call failed.
            edit: an earlier answer to replace.
            **options: as for `commit`.

        Raises:
            TractError: as `commit` does.
            TypeError: there is no such option.
            UndecidedError: a handler left it open; the call is without an answer until that is decided.
            RejectedError: a handler rejected an `edit`; the earlier answer stays.
        """
        fields = {"tool_call_id": tool_call_id, "tool_name": name, "content": content, "is_error": is_error,
                  "edit": edit, "options": options}  # fmt: skip
        if not self._is_hooked("tool_result"):
            return self._commit_answer(fields)
        return self._answered(self._answer_pending(fields))

    def configure_tool_summarization(
        self,
        instructions: Mapping[str, str] | None = None,
        *,
        auto_threshold: int | None = None,
        default_instructions: str = "",
        target_tokens: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
    ) -> None:
        """Have the configured model shorten answers of tools before they are committed, by a rule for each tool.

        What the tool gave stays in the commit's metadata. An answer that reports an error, and one for which the model
        gives nothing usable, stay as they are. Rules of before are replaced; without any, nothing is shortened.

        Args:
            instructions: what to look after, by the name of the tool; answers of these tools are always shortened.
            auto_threshold: shorten answers of other tools with more tokens than this, too; None for none of them.
            default_instructions: what to look after in those.
            target_tokens: how long each should be.
            include_context: show the model the rest of the context, too.
            system_prompt: what it is told about its task, instead of the usual words.

        Raises:
            ContentError: the instructions are no texts by name, or a number is no number of tokens.
        """
        rules = _rules(instructions)
        check_text(default_instructions, "default_instructions")
        check_text(system_prompt or "", "system_prompt")
        for what, number, least in (
            ("auto_threshold", auto_threshold, 0),
            ("target_tokens", target_tokens, 1),
        ):
            if number is not None and (type(number) is not int or number < least):
                raise ContentError(f"{what} is a number of tokens from {least} on, not {brief_repr(number)}")

        def shorten(pending: PendingToolResult) -> None:
            told = rules.get(pending.tool_name)
            if (
                told is None
                and auto_threshold is not None
                and self._corrections.tokens(pending.token_count) > auto_threshold
            ):
                told = default_instructions
            if told is not None and not pending.is_error:
                try:
                    pending.shorten(
                        told, target_tokens, system_prompt=system_prompt, include_context=include_context
                    )
                except Exception as error:  # noqa: BLE001 # a client raises what it likes, and the answer is there
                    _logger.warning("an answer of %r was not shortened: %s", pending.tool_name, error)
            pending.pass_through()

        self._bus.off("tool_result", _SHORTENS)
        if rules or auto_threshold is not None:
            self._bus.on("tool_result", shorten, name=_SHORTENS, before=True)

    def propose_tool_result(
        self,
        tool_call_id: str,
        name: str,
        content: str | dict[str, Any],
        *,
        is_error: bool = False,
        edit: str | None = None,
        **options: Any,
    ) -> PendingToolResult:
        """Return the pending whose approval does what `tool_result` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        given = {"tool_call_id": tool_call_id, "tool_name": name, "content": content,
                 "is_error": is_error, "edit": edit, "options": options}  # fmt: skip
        return self._firing.keep(self._answer_pending(given))

    def _answer_pending(self, given: dict[str, Any]) -> PendingToolResult:
        """The pending for an answer, which is checked as `commit` would check it."""
        options = dict(given["options"])
        check_options(options)
        if "tags" in options:
            options["tags"] = several(options["tags"], "tags")
        edit = given["edit"] and self._commits.check_target(given["edit"]).commit_hash
        fields = {**given, "edit": edit, "options": options, "original_content": None}
        count = self._answer_tokens(fields)
        return self._restored_answer({**plain(fields), "token_count": count, "branch": self.current_branch})

    def _restored_answer(self, fields: dict[str, Any]) -> PendingToolResult:
        return PendingToolResult(
            fields, tract=self, run=self._commit_answer, count=self._answer_tokens,
            has_branch=self._has_branch,
        )  # fmt: skip

    def _has_branch(self, name: str) -> bool:
        with self._database.read() as connection:
            return self._ref_rows.exists(connection, name)

    def _answered(self, pending: PendingToolResult) -> CommitInfo:
        """The answer, or what stands in its place, once it is decided."""
        pending = cast("PendingToolResult", self._firing.decide(pending, unhandled="approve", joins=True))
        turned_down = pending.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}
        if turned_down and pending.result is None and pending.fields["edit"] is None:
            # decided by another process, or by nobody in time
            pending.withhold(pending.rejection_reason or "nobody decided in time")
        info: CommitInfo = pending.result if turned_down and pending.result is not None else outcome(pending)
        return info

    def _commit_answer(self, fields: dict[str, Any]) -> CommitInfo:
        options = {**fields["options"], "metadata": _metadata(fields)}
        return self._say(_content(fields), fields["edit"], options)

    def _answer_tokens(self, fields: dict[str, Any]) -> int:
        """How many tokens an answer takes.

        Raises:
            ContentError: it, or an option of it, is not valid.
        """
        options = {name: value for name, value in fields["options"].items() if name in _DRAFTED}
        draft = self._commits.draft(_content(fields), **{**options, "metadata": _metadata(fields)})
        return draft.token_count


def _rules(instructions: Mapping[str, str] | None) -> dict[str, str]:
    """What to look after in answers of tools, by their names."""
    if instructions is not None and not isinstance(instructions, Mapping):
        raise ContentError(
            f"the instructions are texts by the names of tools, not {brief_repr(instructions)}"
        )
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
    """What links the answer to its call, and what the tool gave, where that was changed."""
    linked = {"tool_call_id": fields["tool_call_id"], "name": fields["tool_name"]}
    failed = {"is_error": True} if fields["is_error"] else {}
    original = fields.get("original_content")
    changed = {} if original is None else {"original_content": original}
    return {**metadata_of(fields["options"]), **linked, **failed, **changed}
