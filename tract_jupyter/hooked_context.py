"""Changes of a context that handlers can review: tool results, merges, compressions, replies.

Registered handlers see each change before it happens. `x(...)` makes the change. `propose_x(...)` takes the same
arguments and returns a pending; its approval makes the change.
"""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack

from tract_jupyter.context import VersionedContext
from tract_jupyter.exceptions import ContentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tract_jupyter.context import Attachable, CommitOptions
    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.models import (
        Allowance,
        CommitInfo,
        CompressResult,
        Delta,
        GCResult,
        LLMClient,
        MergeResult,
        RebaseResult,
        Resolver,
        Summarizer,
        Validator,
    )
    from tract_jupyter.parts import Parts
    from tract_jupyter.review.builtin import (
        PendingCompress,
        PendingGC,
        PendingGeneration,
        PendingMerge,
        PendingRebase,
        PendingToolResult,
    )
    from tract_jupyter.runs import OnEvent, RunOptions, RunResponse, RunTrigger
    from tract_jupyter.runs.profile import OperationProfile
    from tract_jupyter.toolkit import ToolProfile, Toolset

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def arguments_of(
    method: Callable[Concatenate[Any, Arguments], object], *, without: Collection[str] = ()
) -> Callable[[Callable[..., Returned]], Callable[Concatenate[Any, Arguments], Returned]]:
    """Decorate a method with the signature of another one, and pass it all arguments by name, with defaults.

    Args:
        method: declares the arguments.
        without: names of arguments that the decorated method does not take. Type checkers do not know about them, so
            such an argument raises a `TypeError` at run time.
    """
    declared = signature(method)
    parameters = [parameter for parameter in declared.parameters.values() if parameter.name not in without]
    accepted = declared.replace(parameters=parameters)
    options = next(
        (parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_KEYWORD), ""
    )

    def decorate(other: Callable[..., Returned]) -> Callable[Concatenate[Any, Arguments], Returned]:
        @wraps(other)
        def call(*args: Any, **arguments: Any) -> Returned:
            for name in without:
                if name in arguments:
                    raise TypeError(
                        f"{other.__name__}() has no argument {name!r}, unlike {method.__name__}()"
                    )
            bound = accepted.bind(*args, **arguments)
            bound.apply_defaults()
            more = bound.arguments.pop(options, {})
            return other(**bound.arguments, **more)

        annotation = signature(other).return_annotation
        call.__signature__ = accepted.replace(return_annotation=annotation)  # type: ignore[attr-defined]
        return call

    return decorate


class HookedContext(VersionedContext):
    """A versioned context whose larger changes go through handlers first."""

    _parts: Parts

    # --- tool results

    def tool_result(
        self,
        tool_call_id: str,
        tool_name: str,
        content: str | dict[str, Any],
        *,
        is_error: bool = False,
        edit: str | None = None,
        **options: Unpack[CommitOptions],
    ) -> CommitInfo:
        """Commit the result of a tool call.

        A handler on `tool_result` can change or reject the result first. If it rejects, an error message for the model
        takes the place of the result, and the method returns the commit of that message.

        Args:
            tool_call_id: the `id` of the call.
            tool_name: the tool.
            content: the result, as text or as JSON.
            is_error: whether the call failed.
            edit: an earlier result to replace.
            **options: as for `commit`.

        Raises:
            TractError: as for `commit`.
            TypeError: unknown option.
            UndecidedError: a handler left the decision open; the call has no result until the decision.
            RejectedError: a handler rejected an `edit`; the earlier result stays.
        """
        from tract_jupyter.review.builtin import answer_fields

        answer = answer_fields(tool_call_id, tool_name, content, is_error=is_error, edit=edit, **options)
        return self._parts.tool_results.commit(answer)

    @arguments_of(tool_result)
    def propose_tool_result(self, **arguments: Any) -> PendingToolResult:
        """Propose a `tool_result`, with the same arguments; approval of the pending commits it.

        The pending stays in the inbox until its decision.
        """
        from tract_jupyter.review.builtin import answer_fields

        return self._parts.tool_results.propose(answer_fields(**arguments))

    # --- merge, rebase, compress, gc

    def merge(
        self,
        source_branch: str,
        *,
        resolver: Resolver | None = None,
        strategy: Literal["auto", "strict"] = "auto",
        no_ff: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        triggered_by: str | None = None,
    ) -> MergeResult:
        """Merge another branch into the current one.

        If the other branch contains the current one, the branch moves forward to its tip. Otherwise a merge commit
        joins the two, and the context gains the messages, edits and annotations of the other branch. Conflicts have two
        kinds: both sides edited a message differently (`both_edit`), or one side skipped a message that the
        other edited (`skip_vs_edit`). If one side edited a message and the other side appended messages after the old
        text (`edit_plus_append`), that is a warning; it blocks only with `strategy="strict"`. If both branches set a
        priority or the tools, the other branch wins.

        Args:
            source_branch: the branch to merge.
            resolver: decides conflicts: `"ours"` or `"theirs"` for all that block; a dict from the conflict's `key` (or
                its target's hash) to a `Resolution` or `"ours"`, `"theirs"`, `"skip"`, `"abort"`; or a function of the
                conflict that returns one of these, or None for no decision. It receives the guidance if it has a
                parameter `guidance`.
            strategy: `auto`, or `strict`: warnings block like conflicts.
            no_ff: make a merge commit even if a fast-forward is possible.
            delete_branch: delete the other branch afterwards.
            message: one line for the log.
            guidance: what matters in the conflicts.
            two_stage: first ask the configured model for the guidance.
            triggered_by: the trigger, for the log.

        Raises:
            MergeConflictError: conflicts need a decision; see its `conflicts`. Nothing was written.
            NothingToMergeError: the other branch has nothing new.
            HistoryError: a branch has no commits, the branches share no commit, or one has a summary of messages that
                the other still has.
            ContentError: invalid text of the message.
            BranchNotFoundError: unknown branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch; nothing was written.
            BudgetExceededError: the result exceeds the token budget.
            LLMError: `two_stage` without a model, or its reply is invalid.
            RejectedError, UndecidedError: a handler rejected the merge or left the decision open. Handlers see only
                merges with conflicts.
        """
        return self._parts.history_verbs.merge.run(locals())

    @arguments_of(merge)
    def propose_merge(self, **arguments: Any) -> PendingMerge:
        """Propose a `merge`, with the same arguments; approval of the pending merges.

        The pending takes decisions for conflicts left by the resolver. It stays in the inbox until its decision.
        """
        return self._parts.history_verbs.merge.propose(arguments)

    def rebase(
        self, target_branch: str, *, resolver: Resolver | None = None, triggered_by: str | None = None
    ) -> RebaseResult:
        """Move the commits that only the current branch has to the tip of another branch.

        Copies keep edits, annotations, tags, metadata and tools. The originals stay addressable: `ORIG_HEAD` names the
        old tip, and `undo` returns to it. Other branches do not change.

        Args:
            target_branch: the new base. If it has nothing new, the method changes nothing.
            resolver: decides conflicts, as for `merge`; `"ours"` is the current branch.
            triggered_by: the trigger, for the log.

        Raises:
            MergeConflictError: conflicts need a decision; nothing was written.
            HistoryError: the commits to move include merges, or the branches share no commit.
            BranchNotFoundError: unknown branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch; nothing was written.
            BudgetExceededError: the result exceeds the token budget.
            RejectedError, UndecidedError: a handler rejected the rebase or left the decision open.
        """
        return self._parts.history_verbs.rebase.run(locals())

    @arguments_of(rebase)
    def propose_rebase(self, **arguments: Any) -> PendingRebase:
        """Propose a `rebase`, with the same arguments; approval of the pending rebases.

        The pending stays in the inbox until its decision.
        """
        return self._parts.history_verbs.rebase.propose(arguments)

    def compress(  # noqa: PLR0913 # keyword-only, and each is a separate choice
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        instructions: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        validator: Validator | None = None,
        max_retries: int = 3,
        token_tolerance: int | None = None,
        one_summary: bool = False,
        include_context: bool = False,
        system_prompt: str | None = None,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> CompressResult:
        """Replace messages of the current branch with summaries, anywhere in the context.

        Pinned and preserved messages stay word for word in place, with priority, tags and edits. Each run of other
        messages becomes one assistant message, including skipped messages in the run. Commits before the first summary
        keep their hashes. Later commits get new hashes, and merges among them become plain commits. The originals stay
        addressable: `expand` restores them, and `undo` reverts the whole compression. The summary of an important
        message is important and has the same retention rules.

        Args:
            commits: the messages, each by hash, prefix, branch or its `CommitInfo`; not necessarily neighbors.
            from_commit: instead of `commits`, the first of a range; the beginning if omitted.
            to_commit: the last of the range; HEAD if omitted.
            content: the summary, or a list with one for each run of messages.
            summarizer: writes the summaries; called for each run. Default without `content`: the configured model.
            preserve: commits to keep, in addition to pinned ones.
            target_tokens: the length of each summary. A summarizer's text may not be longer than its messages (or 100
                tokens).
            instructions: instructions for the summarizer.
            guidance: what matters in these messages; the summarizer reads it before the instructions.
            two_stage: first ask the configured model for the guidance.
            validator: called with each summary; returns None or True to accept it, else a text with the problem, False,
                or `(False, text)`.
            max_retries: the maximum number of retries for a rejected summary; each retry includes the problem.
            token_tolerance: accepted tokens over the target; 500 if omitted.
            one_summary: write one summary for all messages, across preserved ones. It takes the place of the first
                message, and `expand` restores all messages there.
            include_context: show the configured model the rest of the context.
            system_prompt: replaces the default system prompt of the configured model.
            message: a line for the log; the beginning of the summary if omitted.
            triggered_by: the trigger, for the log.

        Raises:
            CompressionError: there is nothing to compress, or a summary is missing, empty or violates a retention rule.
            CommitNotFoundError: unknown commit.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process or thread moved the branch. No error changes the branch.
            LLMError: `two_stage` without a model, or its reply is invalid.
            RejectedError, UndecidedError: a handler rejected the compression or left the decision open.
        """
        return self._parts.history_verbs.compress.run(locals())

    @arguments_of(compress)
    def propose_compress(self, **arguments: Any) -> PendingCompress:
        """Propose a `compress`, with the same arguments; approval of the pending compresses.

        This call writes the summaries. You can read, edit and regenerate them before the approval. The pending stays in
        the inbox until its decision.
        """
        return self._parts.history_verbs.compress.propose(arguments)

    def gc(
        self,
        *,
        orphan_retention_days: float = 7,
        archive_retention_days: float | None = None,
        keep: Iterable[str | CommitInfo] = (),
        dry_run: bool = False,
        triggered_by: str | None = None,
    ) -> GCResult:
        """Remove unreachable commits of this tract and unused contents.

        Branches, HEAD, open pendings, compile records and other tracts keep their commits. `undo` and `expand` cannot
        restore removed commits, and their errors say this.

        Args:
            orphan_retention_days: keep younger commits, and past positions of branches and HEAD within this time, for
                `undo`. In days.
            archive_retention_days: remove the originals of summaries older than this. In days; None keeps them.
            keep: commits to keep, with everything that they need; each by hash, prefix, branch or its `CommitInfo`.
            dry_run: only return the commits to remove.
            triggered_by: the trigger, for the log.

        Raises:
            HistoryError: an invalid number of days, or `keep` is not a list of commits.
            CommitNotFoundError: unknown commit.
            RejectedError, UndecidedError: a handler rejected the removal or left the decision open.
        """
        return self._parts.history_verbs.gc.run(locals())

    @arguments_of(gc, without=["dry_run"])
    def propose_gc(self, **arguments: Any) -> PendingGC:
        """Propose a `gc`, with the same arguments except `dry_run`; approval of the pending removes.

        The pending stays in the inbox until its decision.
        """
        return self._parts.history_verbs.gc.propose(arguments)

    # --- requests to a model

    def configure_llm(self, client: LLMClient | None) -> None:
        """Set the client for requests; None removes it. `models.use` also takes names, addresses and functions.

        Args:
            client: has `chat(messages, **options)`; see `models.LLMClient`.

        Raises:
            LLMConfigError: not a client.
        """
        self._parts.models.use(client)

    @property
    def llm(self) -> LLMClient | None:
        """The client for replies; None if none is configured."""
        models = self._parts.models
        connection = models.purposes.get("chat") or models.purposes.get(None)
        return None if connection is None else connection.client or models.client_for("chat")

    def generate(  # noqa: PLR0913 # keyword-only, and each is a separate choice
        self,
        /,
        *,
        trigger: RunTrigger | str = "generate",
        profile: str | OperationProfile | None = None,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
        max_retries: int = 3,
        retry_prompt: str | None = None,
        hide_retries: bool = True,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        tools: str | ToolProfile | Toolset | list[dict[str, Any]] | None = None,
        limits: Allowance | None = None,
        on_delta: Callable[[Delta], object] | None = None,
        on_turn: Callable[[TurnEvent], object] | None = None,
        **options: Any,
    ) -> RunResponse:
        """Send the context to the model and commit its reply as an assistant message.

        With tools, the loop executes the model's tool calls and sends the results, until the model answers or the turn
        ends for another reason. The response states this reason; see `loop`. An interrupted turn resumes.

        With a profile, its operations run before and after the turn. Without one this is a plain call: it sends nothing
        if it could not commit the reply, and commits nothing if no reply arrives. With `on_event` or `run` it is
        recorded as a run in both cases. The reply goes to the branch that was current at the request. A reply that
        cannot be committed waits in the inbox.

        Args:
            trigger: `generate`, or `regenerate` to replace the last reply with another variant.
            profile: the profile whose operations run: a name or a profile, stored or not; the active one if omitted.
            on_event: called with each event of the run as it happens, on this thread or another.
            run: options of the run: executor, limits, timeout, ...
            validator: called with the text of each reply; returns None or True to accept it, else a text with the
                problem, False, or `(False, text)`. The retry tells the model the problem.
            max_retries: the maximum number of retries.
            retry_prompt: replaces the default text of a retry. `{diagnosis}` marks the place of the problem, which
                otherwise follows the text.
            hide_retries: keep rejected replies out of the context. Otherwise they are committed with the retry prompts,
                before the accepted reply.
            message: one line for the log.
            metadata: anything with a JSON form, stored with the reply.
            tools: the tools for the model: a tool profile or its name (`self`, `full`, ...), or a toolset; `loop.tools`
                if omitted. A list of schemas, in OpenAI's shape, replaces the schemas that the context offers: the
                model sees them, and the caller executes the calls.
            limits: limits of the turn; `loop.limits` if omitted.
            on_delta: called with each piece of a reply as it arrives, if the client can stream.
            on_turn: called with each event of the turn as it happens, on this thread or another: see `loop`.
            **options: for the client: `model`, `temperature`, `max_tokens`, ...; stored as the reply's generation
                config.

        Returns:
            The reply. Its `.run` describes the run, including errors after the reply. It is None without operations,
            except with `on_event` or `run`.

        Raises:
            RunFailedError: the run failed before the reply, or was aborted; `.run` has the reason.
            LLMError: there is no client or no key, the reply is invalid or cut off even with higher limits, or the call
                is within `batch()`. Errors of the client are not wrapped. `LLMBudgetError`: the request could exceed
                the budget of `costs` and was not sent.
            BudgetExceededError: the reply exceeds the token budget; it waits in the inbox.
            RejectedError: the validator rejected all replies (the error has its reasons), or a handler rejected.
            UndecidedError: a handler left the decision open, and the reply waits in the inbox; or an operation waits
                for an unavailable user: `runs.resume` continues the run.
            ContentError: there is nothing to send, or an argument is invalid.
            DetachedHeadError: there is no current branch.
            BranchMovedError: the request was undone; the reply waits in the inbox. `FingerprintError` if
                handlers or a validator decide.
            TrustError: the run cannot be signed; only its user can resume it.
            ProfileError: an operation names an unknown model or credential; nothing was sent or recorded.
            UnknownProfileError: unknown profile. `RunError`: `run` or the trigger is invalid.
            StoreError: the store cannot be read or written; the subclass says why.
        """
        with self._parts.turn():
            from tract_jupyter.loop import ReplyRequest, TurnRequest
            from tract_jupyter.runs import RunRequest

            options = _with_schemas(options, tools)
            reply = ReplyRequest(
                validator=validator, max_retries=max_retries, retry_prompt=retry_prompt, hide_retries=hide_retries,
                message=message, metadata=metadata, options=options,
            )  # fmt: skip
            turn = TurnRequest(
                reply=reply, tools=tools, limits=limits, on_delta=on_delta, on_turn=on_turn, whole=True
            )
            runs = RunRequest(trigger=trigger, profile=profile, on_event=on_event, options=run)
            return self._parts.runs.generate(turn, runs)

    async def agenerate(self, **arguments: Any) -> RunResponse:
        """Do the same as `generate` without blocking the event loop; cancellation stops the turn."""
        from tract_jupyter.loop import awaited

        with self._parts.loop.signal() as stop:
            return await awaited(lambda: self.generate(**arguments), stop)

    @arguments_of(generate, without=["trigger", "profile", "on_event", "run", "limits", "on_turn"])
    def propose_generate(self, *, tools: Any, **arguments: Any) -> PendingGeneration:
        """Request a reply, and return a pending whose approval commits it; arguments as for `generate`.

        It runs no operations and no tool calls. It therefore does not take `trigger`, `profile`, `on_event`, `run`,
        `limits` and `on_turn`, and its `tools` are schemas. The pending stays in the inbox until its decision.

        Raises:
            TractError: as for `generate`, until the reply arrives.
        """
        from tract_jupyter.loop import ReplyRequest

        if tools is not None:
            arguments["tools"] = tools
        return self._parts.generation.propose(ReplyRequest.of(arguments))

    def chat(
        self,
        text: str | None,
        *,
        name: str | None = None,
        attachments: Sequence[Attachable] = (),
        trigger: RunTrigger | str = "generate",
        profile: str | OperationProfile | None = None,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        tools: str | ToolProfile | Toolset | list[dict[str, Any]] | None = None,
        limits: Allowance | None = None,
        on_delta: Callable[[Delta], object] | None = None,
        on_turn: Callable[[TurnEvent], object] | None = None,
        agent: str | None = None,
        **options: Any,
    ) -> RunResponse:
        """Commit a user message and `generate` the reply.

        If no reply arrives, the message is set aside: the next request does not include it. The same message again
        retries the turn, as `generate` does. While the reply waits for the user's decision, no other request is sent.

        Args:
            text: the user message; None resumes an interrupted turn: after a limit, an open decision, Stop, an error,
                or the end of the process. Completed steps do not run again, and a completed turn returns its answer.
            name: the user's name, among several users.
            attachments: images, PDFs and texts for the message: paths within the workspace, or results of
                `workspace.read`.
            trigger: see `generate`.
            profile: see `generate`.
            on_event: see `generate`.
            run: see `generate`.
            tools: see `generate`.
            limits: see `generate`.
            on_delta: see `generate`.
            on_turn: see `generate`.
            agent: an outside agent that works on the message instead of the model, such as `claude`; see `outside`. It
                takes `name`, `attachments` and `on_turn` only.
            **options: as for `generate`.

        Raises:
            AttachmentError: a file cannot be attached; nothing is committed or sent.
            ContentError: the text is empty; nothing is committed or sent.
            TractError: as for `generate`; without a client nothing is committed.
        """
        if agent is not None:
            others = [
                trigger != "generate" or None,
                profile,
                on_event,
                run,
                tools,
                limits,
                on_delta,
                *options,
            ]
            return self._chat_outside(
                agent, text, others, name=name, attachments=attachments, on_turn=on_turn
            )
        with self._parts.turn():
            from tract_jupyter.loop import ReplyRequest, TurnRequest
            from tract_jupyter.runs import RunRequest

            options = _with_schemas(options, tools)
            turn = TurnRequest(
                reply=ReplyRequest.of(options), tools=tools, limits=limits, on_delta=on_delta, on_turn=on_turn
            )
            runs = RunRequest(trigger=trigger, profile=profile, on_event=on_event, options=run)
            return self._parts.runs.chat(text, name, attachments, turn, runs)

    def _chat_outside(self, agent: str, text: str | None, others: list[Any], **arguments: Any) -> RunResponse:
        """Let an outside agent work on a message."""
        if text is None:
            raise ContentError("The turn of an outside agent is not resumed. Send another message.")
        if any(one is not None for one in others):
            raise ContentError(
                "An outside agent takes `name`, `attachments` and `on_turn` only. Leave out the rest."
            )
        from tract_jupyter.runs import RunResponse

        with self._parts.turn():
            return RunResponse.of(self._parts.outside.chat(agent, text, **arguments))

    async def achat(self, text: str | None, **arguments: Any) -> RunResponse:
        """Do the same as `chat` without blocking the event loop; cancellation stops the turn."""
        from tract_jupyter.loop import awaited

        with self._parts.loop.signal() as stop:
            return await awaited(lambda: self.chat(text, **arguments), stop)


def _with_schemas(options: dict[str, Any], tools: object) -> dict[str, Any]:
    """Add tools to the client's options if they are a list of schemas."""
    return {**options, "tools": tools} if isinstance(tools, list | tuple) else options
