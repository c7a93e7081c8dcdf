"""Changes of a context that may be decided about first: answers, merges, summaries, replies.

Handlers see each of these before it happens, where there are any. `x(...)` does it; `propose_x(...)`, which takes the
same arguments, returns a pending whose approval does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from tract_jupyter.context import VersionedContext
from tract_jupyter.parts import Parts, arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


class HookedContext(VersionedContext):
    """A versioned context whose larger changes handlers may decide about before they happen."""

    _parts: Parts

    # --- answers of tools

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
        """Commit the answer to a tool call.

        A handler on `tool_result` may change it first, or reject it: then an error stands in its place that tells the
        model why it is withheld, and that commit is returned.

        Args:
            tool_call_id: the `id` of the call.
            tool_name: the tool.
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
        from tract_jupyter.review.builtin import ToolAnswer

        answer = ToolAnswer.of(tool_call_id, tool_name, content, is_error=is_error, edit=edit, **options)
        return self._parts.tool_results.commit(answer)

    @arguments_of(tool_result)
    def propose_tool_result(self, **arguments: Any) -> PendingToolResult:
        """Return the pending whose approval does what `tool_result` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        from tract_jupyter.review.builtin import ToolAnswer

        return self._parts.tool_results.propose(ToolAnswer.of(**arguments))

    # --- joining histories, and making them smaller

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

        If the other branch only goes on from here, the branch just moves there. Otherwise a merge commit joins the two;
        it adds nothing to the context but what the other branch has. What one side edited or annotated is taken over.
        Conflicts are what both edited differently (`both_edit`) and what one side left out and the other edited
        (`skip_vs_edit`). It is only a warning if one side edited a message, and the other side has new messages that
        were written after the old text (`edit_plus_append`): this blocks with `strategy="strict"` only. Where both
        branches set a priority or the tools, the other branch wins.

        Args:
            source_branch: the branch to merge.
            resolver: decides conflicts: `"ours"` or `"theirs"` for all that block; a dict from the conflict's `key` (or
                its target's hash) to a `Resolution` or `"ours"`, `"theirs"`, `"skip"`, `"abort"`; or a function of the
                conflict that returns one, None to leave it open. It is told the guidance, if it takes `guidance`.
            strategy: `auto`, or `strict` where warnings block too.
            no_ff: make a merge commit even if the branch could just move.
            delete_branch: delete the other branch afterwards.
            message: one line for the log.
            guidance: what matters in the conflicts.
            two_stage: first have the configured model say that.
            triggered_by: what set it off, for the log.

        Raises:
            MergeConflictError: something needs a decision; its `conflicts` list what. Nothing was written.
            NothingToMergeError: everything is here already.
            HistoryError: one of the two has no commits, they share none, or one has a summary of what the other still
                has.
            ContentError: the message is no text that every database can keep.
            BranchNotFoundError: there is no such branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch meanwhile; nothing was written.
            BudgetExceededError: the budget refuses it.
            LLMError: two stages are wanted without a model, or its reply cannot be read.
            RejectedError, UndecidedError: a handler turned it down, or left it open. They see merges with conflicts.
        """
        return self._parts.history_verbs.merge.run(locals())

    @arguments_of(merge)
    def propose_merge(self, **arguments: Any) -> PendingMerge:
        """Return the pending whose approval does what `merge` would; the arguments are the same.

        What the resolver leaves open can be decided there. It is in the inbox until it is decided.
        """
        return self._parts.history_verbs.merge.propose(arguments)

    def rebase(
        self, target_branch: str, *, resolver: Resolver | None = None, triggered_by: str | None = None
    ) -> RebaseResult:
        """Put the own commits of the current branch onto the tip of another branch.

        They are copied with their edits, annotations, tags, metadata and tools. The originals stay addressable:
        `ORIG_HEAD` names the old tip, and `undo` goes back to it. Other branches do not change.

        Args:
            target_branch: the branch to go on from. If that has nothing new, nothing is done.
            resolver: decides what both sides changed, as for `merge`; `"ours"` is the current branch.
            triggered_by: what set it off, for the log.

        Raises:
            MergeConflictError: something needs a decision; nothing was written.
            HistoryError: the own commits hold merges, or the two have no commit in common.
            BranchNotFoundError: there is no such branch.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another process moved the branch meanwhile; nothing was written.
            BudgetExceededError: the budget refuses it.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        return self._parts.history_verbs.rebase.run(locals())

    @arguments_of(rebase)
    def propose_rebase(self, **arguments: Any) -> PendingRebase:
        """Return the pending whose approval does what `rebase` would; the arguments are the same.

        It is in the inbox until it is decided.
        """
        return self._parts.history_verbs.rebase.propose(arguments)

    def compress(  # noqa: PLR0913 # keyword-only, and each is a choice of its own
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
        """Put summaries in the places of messages of the current branch, anywhere in the context.

        What is pinned or preserved stays word for word in its place, with its priority, tags and edits; each run of
        other messages becomes one message of the assistant. Skipped messages in a run go with it. What stands before
        the first summary keeps its hashes; what comes after it is placed anew, merges as plain commits. The originals
        stay addressable: `expand` brings them back, and `undo` takes the whole compression back. The summary of an
        important message is important itself, and must keep the same.

        Args:
            commits: what to compress, each by hash, prefix, branch or its `CommitInfo`; not necessarily neighbours.
            from_commit: instead, the first of a range; the beginning if left out.
            to_commit: the last of it; HEAD if left out.
            content: the summary, or a list with one for each run of messages.
            summarizer: writes them instead; called for each run. The configured model, if neither is given.
            preserve: commits that stay although nobody pinned them.
            target_tokens: how long each summary should be. What a summarizer writes may in no case be longer than what
                it stands for (or 100 tokens).
            instructions: what to look after; for the summarizer.
            guidance: what matters in these messages; the summarizer is told it before the instructions.
            two_stage: first have the configured model say what matters in these messages; that is the guidance then.
            validator: called with each summary; returns None or True if it is good, else a text that tells what is
                wrong, False, or `(False, text)`.
            max_retries: how often a summary that is not good is written again at most, with what was wrong.
            token_tolerance: how many tokens over the target are still good; 500 if left out.
            one_summary: write one summary for all messages, across those that stay between them. It stands where the
                first of them stood, and `expand` puts them all back there.
            include_context: show the configured model the rest of the context, too, to understand them by.
            system_prompt: what the configured model is told about its task, instead of the usual words.
            message: a line for the log, instead of the beginning of the summary.
            triggered_by: what set it off, for the log.

        Raises:
            CompressionError: there is nothing to compress, or a summary is missing, empty or lacks what must be kept.
            CommitNotFoundError: there is no such commit.
            DetachedHeadError: there is no current branch.
            BranchMovedError: somebody else moved the branch meanwhile. In each case nothing was changed.
            LLMError: two stages are wanted without a model, or its reply cannot be read.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        return self._parts.history_verbs.compress.run(locals())

    @arguments_of(compress)
    def propose_compress(self, **arguments: Any) -> PendingCompress:
        """Return the pending whose approval does what `compress` would; the arguments are the same.

        The summaries are written now, and can be looked at, changed and written again before anything happens. It is in
        the inbox until it is decided.
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
        """Remove commits of this tract that nothing leads to, and contents that nobody uses.

        Kept is what a branch, HEAD, a waiting pending, a compile record or another tract leads to. What was removed can
        no longer be brought back by `undo` or `expand`, which say so.

        Args:
            orphan_retention_days: keep what is younger, and what branches and HEAD were at since then, so that `undo`
                finds it. In days.
            archive_retention_days: remove the originals of a summary when they have been replaced for longer than this.
                In days; None keeps them.
            keep: commits that stay, with all that they need; each by hash, prefix, branch or its `CommitInfo`.
            dry_run: only return what would be removed.
            triggered_by: what set it off, for the log.

        Raises:
            HistoryError: a number of days is not valid, or `keep` is not a list of commits.
            CommitNotFoundError: there is no such commit.
            RejectedError, UndecidedError: a handler turned it down, or left it open.
        """
        return self._parts.history_verbs.gc.run(locals())

    @arguments_of(gc, without=["dry_run"])
    def propose_gc(self, **arguments: Any) -> PendingGC:
        """Return the pending whose approval does what `gc` would; the arguments are the same, but for `dry_run`.

        It is in the inbox until it is decided.
        """
        return self._parts.history_verbs.gc.propose(arguments)

    # --- asking a model

    def configure_llm(self, client: LLMClient | None) -> None:
        """Ask this client from now on; None removes it. `models.use` also takes names, addresses and functions.

        Args:
            client: has `chat(messages, **options)`; see `models.LLMClient`.

        Raises:
            LLMConfigError: it is no client.
        """
        self._parts.models.use(client)

    @property
    def llm(self) -> LLMClient | None:
        """The client for replies; None if none is configured."""
        models = self._parts.models
        connection = models.purposes.get("chat") or models.purposes.get(None)
        return None if connection is None else connection.client or models.client_for("chat")

    def generate(  # noqa: PLR0913 # keyword-only, and each is a choice of its own
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
        """Send the context to the model, and commit what it replies as the assistant's.

        With tools, the model's calls are carried out and it is asked again, until it answers or its turn ends in
        another way, which the response tells: `loop` says more. A turn that was left goes on where it was.

        With a profile, its operations run before and after that. Without one it is the plain call: nothing is sent if
        the reply could not be committed, and nothing is committed if no reply came. It is on record as a run all the
        same if `on_event` or `run` are given. A reply goes to the branch that was current when it was asked for; one
        that fails to get there waits in the inbox.

        Args:
            trigger: `generate`, or `regenerate` for another variant of the reply that the context ends with, which
                takes its place.
            profile: whose operations run: a name, or a profile that need not be stored; the active one if left out.
            on_event: is called with each event of the run as it happens, on this thread or another.
            run: how the run is carried out: executor, limits, timeout, ...
            validator: called with the text of each reply; returns None or True if it is good, else a text that tells
                what is wrong, False, or `(False, text)`. The model is told that, and asked again.
            max_retries: how often it is asked again at most.
            retry_prompt: what it is told then, instead of the usual words; `{diagnosis}` in it stands for what was
                wrong, which follows it otherwise.
            hide_retries: keep the replies that were not good out of the context; otherwise they are committed with
                what the model was told, before the good one.
            message: one line for the log.
            metadata: anything with a JSON form, kept beside the reply.
            tools: what the model may call: a tool profile or its name (`self`, `full`, ...), or a toolset; what
                `loop.tools` says if left out. A list of schemas, in OpenAI's shape, is only shown to the model,
                instead of those that the context offers: the caller answers what it calls.
            limits: what the turn may take; what `loop.limits` says if left out.
            on_delta: is called with each piece of a reply as it comes, if the client can stream.
            on_turn: is called with each event of the turn as it happens, on this thread or another: see `loop`.
            **options: for the client: `model`, `temperature`, `max_tokens`, ...; kept as the reply's generation config.

        Returns:
            The reply. Its `.run` tells what happened, also what failed after the reply; None without operations,
            unless `on_event` or `run` are given.

        Raises:
            RunFailedError: the run failed before there was a reply, or was aborted; `.run` tells why.
            LLMError: there is no client or no key, its reply cannot be read, or is cut also with higher limits, or this
                is within `batch()`; errors of the client are not wrapped. `LLMBudgetError`: it could exceed the budget
                of `costs`, and was not sent.
            BudgetExceededError: the budget refuses the reply; it waits in the inbox.
            RejectedError: no reply was good, for which it tells the reasons, or a handler turned it down.
            UndecidedError: a handler left it open, and it waits in the inbox; or an operation waits for a person, and
                nobody could be asked: `runs.resume` goes on with it.
            ContentError: there is nothing to send, or an argument is not valid.
            DetachedHeadError: there is no current branch.
            BranchMovedError: what the model was asked was undone meanwhile; the reply waits in the inbox.
                `FingerprintError` where handlers or a validator decide.
            TrustError: the run cannot be signed; only its user can resume it.
            ProfileError: an operation names a model or a credential that is not there; nothing was asked or noted.
            UnknownProfileError: there is no such profile. `RunError`: `run` or the trigger is not valid.
            StoreError: the store cannot be read or written; the subclass tells why.
        """
        with self._parts.turn():
            from tract_jupyter.loop import ReplyRequest, TurnRequest
            from tract_jupyter.runs import RunRequest

            options = _with_schemas(options, tools)
            asked = ReplyRequest(
                validator=validator, max_retries=max_retries, retry_prompt=retry_prompt, hide_retries=hide_retries,
                message=message, metadata=metadata, options=options,
            )  # fmt: skip
            turn = TurnRequest(
                reply=asked, tools=tools, limits=limits, on_delta=on_delta, on_turn=on_turn, whole=True
            )
            runs = RunRequest(trigger=trigger, profile=profile, on_event=on_event, options=run)
            return self._parts.runs.generate(turn, runs)

    async def agenerate(self, **arguments: Any) -> RunResponse:
        """Do what `generate` does, with the same arguments, without blocking the event loop; cancelling stops the turn.

        Raises:
            TractError: as of `generate`.
        """
        from tract_jupyter.loop import awaited

        with self._parts.loop.signal() as stop:
            return await awaited(lambda: self.generate(**arguments), stop)

    @arguments_of(generate, without=["trigger", "profile", "on_event", "run", "limits", "on_turn"])
    def propose_generate(self, *, tools: Any, **arguments: Any) -> PendingGeneration:
        """Ask the model, and return the pending whose approval commits the reply; arguments as for `generate`.

        No operations run and no calls are made, so that it takes neither `trigger` and `profile` nor `on_event`, `run`,
        `limits` and `on_turn`, and its `tools` are schemas.

        It is in the inbox until it is decided.

        Raises:
            TractError: as `generate` does, until the reply is there.
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
        **options: Any,
    ) -> RunResponse:
        """Commit what the user says, and `generate` the reply.

        If none comes, what was said is set aside, and not sent with what is said next. Saying the same again tries that
        turn again, as `generate` does; while its reply waits for a person, no other reply is asked for.

        Args:
            text: what the user says; None to go on with the turn that was left: because of a limit, a decision that
                was missing, Stop, an error, or the end of the process. What was done is not done again, and a turn
                that has its answer only returns it.
            name: who, among several.
            attachments: images, PDFs and texts that go with it: paths within the workspace, or what `workspace.read`
                gave.
            trigger: as for `generate`, like all that follow.
            profile: see `generate`.
            on_event: see `generate`.
            run: see `generate`.
            tools: see `generate`.
            limits: see `generate`.
            on_delta: see `generate`.
            on_turn: see `generate`.
            **options: as for `generate`.

        Raises:
            AttachmentError: a file cannot be attached; nothing is committed or sent.
            ContentError: the text is empty; nothing is committed or sent.
            TractError: as `generate` does; without a client nothing is committed.
        """
        with self._parts.turn():
            from tract_jupyter.loop import ReplyRequest, TurnRequest
            from tract_jupyter.runs import RunRequest

            options = _with_schemas(options, tools)
            turn = TurnRequest(
                reply=ReplyRequest.of(options), tools=tools, limits=limits, on_delta=on_delta, on_turn=on_turn
            )
            runs = RunRequest(trigger=trigger, profile=profile, on_event=on_event, options=run)
            return self._parts.runs.chat(text, name, attachments, turn, runs)

    async def achat(self, text: str | None, **arguments: Any) -> RunResponse:
        """Do what `chat` does, with the same arguments, without blocking the event loop; cancelling stops the turn.

        Raises:
            TractError: as of `chat`.
        """
        from tract_jupyter.loop import awaited

        with self._parts.loop.signal() as stop:
            return await awaited(lambda: self.chat(text, **arguments), stop)


def _with_schemas(options: dict[str, Any], tools: object) -> dict[str, Any]:
    """Return the options for the client, with the schemas that are only shown to the model, if these are some."""
    return {**options, "tools": tools} if isinstance(tools, list | tuple) else options
