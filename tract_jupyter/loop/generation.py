"""Requests to a language model, and commits of its replies."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.context import PER_MESSAGE
from tract_jupyter.exceptions import (
    BranchMovedError,
    ContentError,
    DetachedHeadError,
    LLMError,
    TractError,
)
from tract_jupyter.llm import CUT, FINISH, REFUSED, WholeReplies, ask_model, sent_of
from tract_jupyter.loop.open_turns import Turns, left_open
from tract_jupyter.loop.turn import ACTS, ending_of_reply
from tract_jupyter.models import (
    APPROXIMATE,
    PROVIDER_FIELDS,
    Attachment,
    ChatResponse,
    PendingStatus,
    Priority,
    ToolCall,
    brief_repr,
    canonical_json,
    check_limit,
    check_text,
    plain,
)
from tract_jupyter.review import deciding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.loop.journal import CallJournal
    from tract_jupyter.models import CommitInfo, CompiledContext, Delta, LLMClient, Validator
    from tract_jupyter.review import Firing, Pending, Reviewer
    from tract_jupyter.review.builtin import PendingGeneration
    from tract_jupyter.storage import Position, StoredPending


_UNSAID: Final = "f" * 64
"""The hash for a message without a commit."""

_GENERATE: Final = "generate"
"""The name of the built-in operation whose pending, `PendingGeneration`, is a reply."""


@dataclass(frozen=True, kw_only=True)
class ReplyRequest:
    """A request for a reply. The fields are arguments of `Tract.generate` and `Tract.propose_generate`."""

    validator: Validator | None = None
    max_retries: int = 3
    retry_prompt: str | None = None
    hide_retries: bool = True
    message: str | None = None
    metadata: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the client."""
    through: Callable[[LLMClient], LLMClient] = lambda client: client
    """Wraps the client; not stored."""
    on_delta: Callable[[Delta], object] | None = None
    """Gets each piece of the reply when it arrives; not stored."""

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> ReplyRequest:
        """Create a request from the arguments of `Tract.propose_generate`. Other arguments are client options."""
        known = {one.name for one in fields(cls)} - {"options", "through"}
        options = {name: value for name, value in arguments.items() if name not in known}
        return cls(**{name: value for name, value in arguments.items() if name in known}, options=options)

    @property
    def settings(self) -> dict[str, Any]:
        """The stored settings: all except the validator and the client's options."""
        names = ("max_retries", "retry_prompt", "hide_retries", "message", "metadata")
        return {name: getattr(self, name) for name in names}

    @property
    def validator_name(self) -> str | None:
        """The stored name of the validator; None if there is none."""
        return (
            None
            if self.validator is None
            else getattr(self.validator, "__name__", type(self.validator).__name__)
        )


class Generation:
    """Requests replies from the model of one tract.

    Args:
        tract: owns the pendings.
        repository: stores the replies.
        firing: lets handlers decide about pendings.
        reviewer: keeps pendings in the inbox.
        models: the models of the tract.
        rebuild: recreates a stored pending.
        waits: returns True if an answer to a user message, other than a reply in the inbox, waits for approval.
        journal: returns the journal that signs the calls of the tool loop.
    """

    def __init__(
        self,
        tract: Any,
        repository: Repository,
        firing: Firing,
        reviewer: Reviewer,
        models: Models,
        rebuild: Callable[[StoredPending], Pending],
        waits: Callable[[str], bool],
        journal: Callable[[], CallJournal],
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._firing = firing
        self._reviewer = reviewer
        self._ledger = reviewer.ledger
        self._models = models
        self._rebuild = rebuild
        self._journal = journal
        self.turns = Turns(
            repository.tract_id,
            repository.database,
            repository.refs,
            repository.writer,
            repository.commits,
            repository.timelines,
            lambda question: waits(question) or self.is_waiting(question),
        )

    def propose(self, request: ReplyRequest) -> PendingGeneration:
        """Ask the model, and return the pending whose approval commits the reply.

        Raises:
            TractError: as for `Tract.generate`, up to the reply.
        """
        self.check_ready()
        with self.turns.answering():
            waiting = None if request.validator is not None else self._waiting_reply(request)
            if waiting is not None:
                left_open()
                return waiting
            request = replace(request, through=WholeReplies)
            return self._firing.keep(
                self._checked_pending(request, self._request_reply(request)), request.validator
            )

    def carry_out(
        self, request: ReplyRequest, keep: Callable[[dict[str, Any]], Any] | None = None, **options: Any
    ) -> ChatResponse:
        """Ask the model, let handlers decide about the reply, and commit it.

        Args:
            request: the request.
            keep: commits the reply instead of `commit_reply`, for a run.
            options: more arguments of `_request_reply`.
        """
        pending = None if request.validator is not None or keep or options else self._waiting_reply(request)
        if pending is not None:
            return self._decide_waiting(pending)
        fields = self._request_reply(request, **options)
        has_handlers = self._firing.bus.listens(_GENERATE)
        if request.validator is None and not has_handlers:
            try:
                return (keep or self.commit_reply)(fields)
            except BaseException:
                with self._saved(self.restored(fields, keep=keep)):
                    raise
        from tract_jupyter.review import auto_retry

        pending = self._checked_pending(request, fields, keep)
        with self._saved(pending):
            retry = partial(auto_retry, max_retries=request.max_retries)
            unhandled: Any = "approve" if request.validator is None else retry
            return self._firing.result(pending, unhandled=unhandled, joins=False)  # type: ignore[no-any-return]

    def _request_reply(
        self,
        request: ReplyRequest,
        prompt: list[dict[str, Any]] | None = None,
        replaces: str | None = None,
        on_delta: Callable[[Delta], object] | None = None,
        context_at: tuple[str, CompiledContext] | None = None,
        before: Callable[[Connection], object] | None = None,
    ) -> dict[str, Any]:
        """Ask the model, and return the fields of its reply.

        Args:
            request: the request.
            prompt: messages to send instead of the context, in OpenAI's shape.
            replaces: the commit that the reply replaces.
            on_delta: gets the pieces of the reply, if the model can stream.
            context_at: the branch and its context, if they are known.
            before: called in the last transaction before the request.
        """
        client = request.through(self._models.client_for("chat"))
        branch, context = context_at or self.to_be_answered(self._repository.refs.position)
        options = self._all_options(request)
        self._check(request, options[0])
        fields = {
            **self._request(request, branch, context, prompt, replaces, options),
            "validator": request.validator_name,
            "diagnosis": None,
            "retry_count": 0,
            "retry_history": [],
        }
        # fail before the paid request, not after it
        self._repository.compile_records.note(context, {}, before)
        sent = sent_of(context) if prompt is None else prompt
        return {**ask_model(client, sent, fields, _both(on_delta, request.on_delta)), **fields}

    def _checked_pending(
        self,
        request: ReplyRequest,
        fields: dict[str, Any],
        keep: Callable[[dict[str, Any]], Any] | None = None,
    ) -> PendingGeneration:
        """Return the pending of a new reply, with the validator's diagnosis."""
        pending = self.restored(fields, request.validator, keep, request.through)
        with self._saved(pending):
            pending.look()
        return pending

    def _request(
        self,
        request: ReplyRequest,
        branch: str,
        context: CompiledContext,
        prompt: list[dict[str, Any]] | None = None,
        replaces: str | None = None,
        all_options: tuple[dict[str, Any], Any] | None = None,
    ) -> dict[str, Any]:
        """Return the fields that describe the request of a reply. The arguments are as for `_request_reply`."""
        options, tools = all_options or self._all_options(request)
        offered = list(context.tools) if tools is None else tools
        return {
            **plain({**request.settings, "options": options, "tools": offered}),
            "branch": branch,
            "head": context.head,
            "prompt": prompt,
            "replaces": replaces,
        }

    def _all_options(self, request: ReplyRequest) -> tuple[dict[str, Any], Any]:
        everything = {**self._models.options("chat"), **request.options}
        tools = everything.pop("tools", None)
        return everything, tools

    def is_waiting(self, question: str) -> bool:
        """Return True if a reply to a message of the current branch is in the inbox."""
        branch = self._repository.refs.position.branch
        for stored in self._ledger.of_operation(_GENERATE):
            with suppress(TractError):  # its head may be removed
                if (
                    stored.fields["branch"] == branch
                    and self.turns.newest_user_message(stored.fields["head"]) == question
                ):
                    return True
        return False

    def _waiting_reply(self, request: ReplyRequest) -> PendingGeneration | None:
        """Return the reply in the inbox to the identical request."""
        waiting = self._ledger.of_operation(_GENERATE)
        if not waiting:
            return None
        from tract_jupyter.review.builtin import PendingGeneration

        wanted = self._request(request, *self.to_be_answered())
        for stored in waiting:
            is_same = all(stored.fields.get(name) == value for name, value in wanted.items())
            if is_same and stored.fields.get("validator") is None:
                pending = self._reviewer.asked_here(stored.pending_id) or self._rebuild(stored)
                if isinstance(pending, PendingGeneration) and pending.status.is_open:
                    return pending
        return None

    def _decide_waiting(self, pending: PendingGeneration) -> ChatResponse:
        """Decide about a reply from the inbox like about a new one. A proposed reply stays in the inbox."""
        from tract_jupyter.review import outcome

        left_open()
        is_hooked = self._firing.bus.listens(_GENERATE)
        with self._saved(pending):
            if pending.status is PendingStatus.FAILED and not is_hooked:
                with deciding("automatic", "nobody"):
                    pending.approve()
            if pending.status is not PendingStatus.PENDING or (pending.is_unshown and not is_hooked):
                return outcome(pending)  # type: ignore[no-any-return]
            return self._firing.result(pending, joins=False)  # type: ignore[no-any-return]

    def _correct(self, fields: dict[str, Any]) -> None:
        """Correct the token estimates with the provider's counts, in the transaction that stores the reply."""
        if self._repository.commits.counter.name == APPROXIMATE and fields["usage"]:
            count = self._repository.commits.counter.count_text
            if fields["prompt"] is None:
                estimated = self._repository.commits.entry(fields["head"]).context_tokens
            else:
                parts = [message.get("content") or canonical_json(message) for message in fields["prompt"]]
                texts = [part if isinstance(part, str) else canonical_json(part) for part in parts]
                estimated = sum(count(text) + PER_MESSAGE for text in texts)
                attached = (one for message in fields["prompt"] for one in message.get("attachments", ()))
                estimated += self.attached_tokens([Attachment(**one) for one in attached])
            estimated += count(canonical_json(fields["tools"])) if fields["tools"] else 0
            again = (
                text
                for failed in fields["retry_history"]
                for text in (failed["response_text"], failed["prompt"])
            )
            estimated += sum(count(text) + PER_MESSAGE for text in again)
            model = fields["model"] or str(fields["options"].get("model", ""))
            self._repository.corrections.note(model, estimated, fields["usage"])

    def to_be_answered(self, here: Position | None = None) -> tuple[str, CompiledContext]:
        """Return the branch and context of a position; by default of the current one."""
        if here is None or here.branch is None:
            here = self.check_place()
        context = None if here.commit_hash is None else self._repository.compiler.of(here.commit_hash)
        if not context:
            raise ContentError("The context is empty. Commit a message first, as user(text).")
        return here.branch or "", context

    def with_user_message(self, text: str) -> tuple[str, CompiledContext]:
        """Return the current branch and its context with one more user message, without committing it."""
        from tract_jupyter.models import CompiledContext, Message

        if not text.strip():
            return self.to_be_answered()
        here = self.check_place()
        counter = self._repository.counter
        context = self._repository.compiler.compile(at_commit=here.commit_hash) if here.commit_hash else None
        before = context or CompiledContext.empty(counter.name)
        tokens = counter.count_text(text) + PER_MESSAGE
        message = Message("user", text, commit_hash=_UNSAID, token_count=tokens)
        return here.branch or "", replace(
            before, messages=(*before.messages, message), token_count=before.token_count + tokens
        )

    def attached_tokens(self, attachments: Sequence[Attachment]) -> int:
        """Return the tokens of attached files."""
        return self._repository.files.tokens(attachments, self._repository.counter.count_text)

    def check_ready(self) -> Position:
        """Check the model and the branch, and return the position for the next reply."""
        self._models.check()
        return self.check_place()

    def check_place(self) -> Position:
        """Return the position for the next reply, if there can be one."""
        if self._repository.database.in_transaction:
            raise LLMError(
                "Requests to a model are not allowed within batch(), because all other writers of the store would wait "
                "for the reply. Send them before or after the block."
            )
        here = self._repository.refs.position  # read once: another thread may switch
        if here.branch is None:
            raise DetachedHeadError(
                "HEAD is detached, so there is no branch for a reply. Switch to a branch first."
            )
        return here

    def _check(self, request: ReplyRequest, options: dict[str, Any]) -> None:
        """Check the request before it is sent, for problems that would otherwise appear after it."""
        if request.validator is not None and not callable(request.validator):
            raise ContentError(
                f"Invalid validator {brief_repr(request.validator)}. Use a function that takes the text."
            )
        if check_limit(request.max_retries) != request.max_retries:
            raise ContentError(f"Invalid max_retries {request.max_retries}. Use 0 or more.")
        if request.retry_prompt is not None:
            check_text(request.retry_prompt, "retry_prompt")
        if options or request.message is not None or request.metadata is not None:
            self._repository.commits.draft(
                {"content_type": "dialogue", "role": "assistant", "text": ""},
                message=request.message, metadata=request.metadata, generation_config=options,
            )  # fmt: skip

    def restored(
        self,
        fields: dict[str, Any],
        validator: Validator | None = None,
        keep: Callable[[dict[str, Any]], Any] | None = None,
        through: Callable[[LLMClient], LLMClient] = lambda client: client,
    ) -> PendingGeneration:
        """Create the pending of a reply from its fields. `keep` replaces `commit_reply`."""
        from tract_jupyter.review.builtin import PendingGeneration

        return PendingGeneration(
            fields,
            tract=self._tract,
            client=lambda: through(self._models.client_for("chat")),
            run=keep or self.commit_reply,
            validator=validator,
        )

    @contextmanager
    def _saved(self, pending: PendingGeneration) -> Iterator[None]:
        """Put a reply into the inbox if an error occurs before the decision, because it is paid for."""
        original = dict(pending.fields)
        try:
            yield
        except BaseException as error:
            is_stored = getattr(error, "pending", None) is pending or bool(pending.rounds)
            if pending.status.is_open and not is_stored:
                with suppress(Exception):  # the store may have caused the error
                    pending.fields = original  # a handler may have added values that cannot be stored
                    self._reviewer.keep(pending)
                    is_stored = True
            if pending.status.is_open and is_stored:
                left_open()
                if getattr(error, "pending", None) is not pending:
                    error.add_note(
                        "The model's reply waits in '%tract inbox'; approve it there once it can be committed."
                    )
            raise

    def commit_reply(self, fields: dict[str, Any]) -> ChatResponse:
        """Commit a reply, after the rejected ones if they are to be visible.

        Raises:
            BranchMovedError: another branch is current, or the branch no longer has the message that the reply answers.
        """
        with self._repository.writer.batch():
            return self.commit_in_batch(fields)

    def commit_in_batch(self, fields: dict[str, Any]) -> ChatResponse:
        """Commit a reply as `commit_reply` does, in the caller's batch."""
        here = self._repository.writer.position
        branch, current = fields["branch"], here.branch
        if current != branch:
            raise BranchMovedError(
                f"The request was sent on branch {branch!r}, but the current branch is {current!r}, so nothing was "
                f"committed. Call switch({branch!r}), then approve the reply."
            )
        if not self.turns.still_has_message(fields["head"], here.commit_hash):
            raise BranchMovedError(
                f"The message that the reply answers is no longer on branch {branch!r} (undo, reset or compress "
                "removed it), so nothing was committed. Restore it with undo() or redo(), then approve the reply."
            )
        self._correct(fields)
        if fields["hide_retries"]:
            fields = _with_retries(fields)
        else:
            for failed in fields["retry_history"]:
                self._say_reply(failed, {}, None)
                self._say_user(failed["prompt"])
        retried = {"retry_count": fields["retry_count"]} if fields["retry_count"] else {}
        provider_fields = {PROVIDER_FIELDS: fields["provider_fields"]} if fields["provider_fields"] else {}
        ending: dict[str, str] = fields["ending"]
        metadata = {**(fields["metadata"] or {}), **retried, **provider_fields, **ending}
        info = self._say_reply(fields, metadata, fields["message"], fields["replaces"])
        if ending.get(FINISH) in REFUSED:  # its text would lead to more refusals
            self._repository.commits.annotate(info.commit_hash, Priority.SKIP, ending[CUT])
        calls = tuple(ToolCall.from_dict(call) for call in fields["tool_calls"])
        if calls and ACTS in metadata:
            self._journal().sign(info.commit_hash, calls)
        return ChatResponse(
            fields["response_text"], info, fields["usage"], fields["generation_config"], calls,
            *ending_of_reply(metadata, has_calls=bool(calls)),
        )  # fmt: skip

    def _say_user(self, text: str) -> None:
        content = {"content_type": "dialogue", "role": "user", "text": text, "name": None}
        self._repository.commits.say(content, None, {})

    def _say_reply(
        self,
        reply: dict[str, Any],
        metadata: dict[str, Any],
        message: str | None,
        replaces: str | None = None,
    ) -> CommitInfo:
        tools, calls = reply.get("tools"), reply["tool_calls"]
        options = {
            "generation_config": reply["generation_config"],
            "metadata": {**metadata, **({"tool_calls": calls} if calls else {}), **_usage_metadata(reply)},
            "message": message,
            "tools": tools or None,
        }
        content = {
            "content_type": "dialogue", "role": "assistant", "text": reply["response_text"], "name": None
        }  # fmt: skip
        return self._repository.commits.say(content, replaces, options)


def _both(
    one: Callable[[Delta], object] | None, other: Callable[[Delta], object] | None
) -> Callable[[Delta], object] | None:
    if one is None or other is None:
        return one or other
    first, second = one, other

    def give(piece: Delta) -> None:
        first(piece)
        second(piece)

    return give


def _with_retries(fields: dict[str, Any]) -> dict[str, Any]:
    """Add the usage of rejected replies, which have no commit, to the fields of a reply."""
    usage = fields["usage"]
    used = [failed["usage"] for failed in fields["retry_history"] if failed.get("usage")]
    if not usage or not used:
        return fields
    return {**fields, "usage": {**usage, "failed_tries": [*used, *usage.get("failed_tries", ())]}}


def _usage_metadata(reply: Mapping[str, Any]) -> dict[str, Any]:
    usage = reply.get("usage")
    return {"usage": usage} if usage else {}
