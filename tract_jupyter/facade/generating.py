"""Asking a language model, and committing what it replies."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.timeline import PER_MESSAGE
from tract_jupyter.exceptions import (
    BranchMovedError,
    ContentError,
    DetachedHeadError,
    LLMError,
    TractError,
)
from tract_jupyter.facade.branches import Branches
from tract_jupyter.facade.compiling import Compiling
from tract_jupyter.facade.gated import Gated, outcome
from tract_jupyter.facade.turns import Turns, left_open
from tract_jupyter.facade.writing import Writing
from tract_jupyter.hooks.builtin.generation import PendingGeneration, ask_model, sent_of
from tract_jupyter.hooks.firing import auto_retry
from tract_jupyter.models.canonical import canonical_json, plain
from tract_jupyter.models.checks import check_limit, check_text
from tract_jupyter.models.commit import APPROXIMATE
from tract_jupyter.models.config import ChatResponse
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.models.text import brief_repr
from tract_jupyter.models.toolcall import ToolCall
from tract_jupyter.review.decision import deciding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.protocols import Validator
    from tract_jupyter.storage.refs import Position


class Generating(Writing, Compiling, Branches, Gated):
    """The part of `Tract` that asks a model."""

    def generate(
        self,
        *,
        validator: Validator | None = None,
        max_retries: int = 3,
        retry_prompt: str | None = None,
        hide_retries: bool = True,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> ChatResponse:
        """Send the context to the model, and commit what it replies as the assistant's.

        Nothing is sent if the reply could not be committed, and nothing is committed if no reply came. A reply goes to
        the branch that was current when it was asked for; one that fails to get there waits in the inbox.

        Args:
            validator: called with the text of each reply; returns None or True if it is good, else a text that tells
                what is wrong, False, or `(False, text)`. The model is told that, and asked again.
            max_retries: how often it is asked again at most.
            retry_prompt: what it is told then, instead of the usual words; `{diagnosis}` in it stands for what was
                wrong, which follows it otherwise.
            hide_retries: keep the replies that were not good out of the context; otherwise they are committed with
                what the model was told, before the good one.
            message: one line for the log.
            metadata: anything with a JSON form, kept beside the reply.
            **options: for the client: `model`, `temperature`, `max_tokens`, ...; kept as the reply's generation config.
                `tools` is instead of those that the context offers.

        Raises:
            LLMError: there is no client, what it gave back is no reply, or this is within `batch()`. What the client
                raises comes as it is.
            BudgetExceededError: the budget refuses the reply; it waits in the inbox.
            RejectedError: no reply was good, for which it tells the reasons, or a handler turned it down.
            UndecidedError: a handler left it open; it waits in the inbox.
            ContentError: there is nothing to send, or an argument is not valid.
            DetachedHeadError: there is no current branch.
            BranchMovedError: another branch was made the current one while the model was asked, or what it was asked
                was undone; the reply waits in the inbox. `FingerprintError` where handlers or a validator decide.
        """
        settings = {"max_retries": max_retries, "retry_prompt": retry_prompt, "hide_retries": hide_retries,
                    "message": message, "metadata": metadata}  # fmt: skip
        _ = self.llm
        self._check_place()
        with self._turns.answering():
            return self._generated(settings, validator, options)

    def propose_generate(
        self,
        *,
        validator: Validator | None = None,
        max_retries: int = 3,
        retry_prompt: str | None = None,
        hide_retries: bool = True,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> PendingGeneration:
        """Ask the model, and return the pending whose approval commits the reply; arguments as for `generate`.

        It is in the inbox until it is decided.

        Raises:
            TractError: as `generate` does, until the reply is there.
        """
        settings = {"max_retries": max_retries, "retry_prompt": retry_prompt, "hide_retries": hide_retries,
                    "message": message, "metadata": metadata}  # fmt: skip
        _ = self.llm
        self._check_place()
        with self._turns.answering():
            waiting = None if validator is not None else self._waiting_reply(settings, options)
            if waiting is not None:
                left_open()
                return waiting
            pending = self._asked(settings, validator, options)
            return self._firing.keep(pending, validator)

    def chat(self, text: str, *, name: str | None = None, **options: Any) -> ChatResponse:
        """Commit what the user says, and `generate` the reply.

        If none comes, what was said is set aside, and not sent with what is said next. Saying it again tries that turn
        again, as `generate` does; if its reply waits for a person, that one is meant.

        Args:
            text: what the user says.
            name: who, among several.
            **options: as for `generate`.

        Raises:
            TractError: as `generate` does; without a client nothing is committed.
        """
        _ = self.llm
        self._check_place()
        content = {"text": text, "name": name, "role": "user"}
        with self._turns.asking(content, lambda: self.user(text, name=name)) as turn:
            if not turn.waits:
                return self.generate(**options)
        return self.generate(**options)  # what waits is taken up, where it is just this

    @cached_property
    def _turns(self) -> Turns:
        return Turns(
            self.tract_id, self._database, self._refs, self._commits, self._timelines, self._is_waiting
        )

    def _generated(
        self, settings: dict[str, Any], validator: Validator | None, options: dict[str, Any], **how: Any
    ) -> ChatResponse:
        """Ask, have the reply decided about where anybody does so, and commit it; `how` as for `_asked`."""
        pending = None if validator is not None or how else self._waiting_reply(settings, options)
        if pending is not None:
            return self._taken_up(pending)
        pending = self._asked(settings, validator, options, **how)
        with self._saved(pending):
            if validator is None and not self._is_hooked("generate"):
                return (how.get("keep") or self._commit_reply)(pending.fields)
            retry = partial(auto_retry, max_retries=settings["max_retries"])
            unhandled: Any = "approve" if validator is None else retry
            return self._decided(pending, unhandled=unhandled, joins=False)  # type: ignore[no-any-return]

    def _asked(
        self,
        settings: dict[str, Any],
        validator: Validator | None,
        options: dict[str, Any],
        prompt: list[dict[str, Any]] | None = None,
        replaces: str | None = None,
        keep: Callable[[dict[str, Any]], Any] | None = None,
        on: str | None = None,
        on_delta: Callable[[str], object] | None = None,
    ) -> PendingGeneration:
        """Ask the model, and have the validator look at its reply.

        Args:
            settings: of the reply; see `generate`.
            validator: see `generate`.
            options: for the client.
            prompt: what is sent instead of the context, in OpenAI's shape.
            replaces: the commit whose place the reply takes.
            keep: commits the reply, in another way than usual.
            on: the branch that the reply is for; otherwise the current one.
            on_delta: is given what comes, piece by piece, of a model that can stream.
        """
        client = self.llm
        branch, context = self._to_be_answered()
        if on not in {None, branch}:
            raise BranchMovedError(
                f"the reply is for branch {on!r}, and the current one is {branch!r}; the model was not asked. "
                f"switch({on!r}), then generate() again"
            )
        self._check_settings(settings, validator, self._all_options(options)[0])
        fields = {
            **self._request(settings, options, branch, context, prompt, replaces),
            "validator": name_of(validator),
            "diagnosis": None,
            "retry_count": 0,
            "retry_history": [],
        }
        self.record_compile(context)  # what can fail comes before the reply is paid for
        sent = sent_of(context) if prompt is None else prompt
        reply = ask_model(client, sent, fields, on_delta)
        pending = self._restored_reply({**reply, **fields}, validator, keep)
        with self._saved(pending):
            pending.look()
        return pending

    def _request(
        self,
        settings: dict[str, Any],
        options: dict[str, Any],
        branch: str,
        context: CompiledContext,
        prompt: list[dict[str, Any]] | None = None,
        replaces: str | None = None,
    ) -> dict[str, Any]:
        """The fields of a reply that say what the model is asked; arguments as of `_asked`."""
        options, tools = self._all_options(options)
        offered = tools if tools is not None else self.get_tools() or list(context.tools)
        return {
            **plain({**settings, "options": options, "tools": offered}),
            "branch": branch,
            "head": context.head,
            "prompt": prompt,
            "replaces": replaces,
        }

    def _all_options(self, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """What the client is given, and the tools that it offers the model, if the caller names any."""
        everything = {**self.model_settings.get("chat", {}), **options}
        tools = everything.pop("tools", None)
        return everything, tools

    def _is_waiting(self, question: str) -> bool:
        """Whether a reply to a message of the current branch is in the inbox."""
        branch = self.current_branch
        for stored in self.reviewer.ledger.of_operation(PendingGeneration.name):
            with suppress(TractError):  # its head may be gone by now
                if (
                    stored.fields["branch"] == branch
                    and self._turns.last_said(stored.fields["head"]) == question
                ):
                    return True
        return False

    def _waiting_reply(self, settings: dict[str, Any], options: dict[str, Any]) -> PendingGeneration | None:
        """The reply in the inbox that the model gave when it was asked the very same."""
        waiting = self.reviewer.ledger.of_operation(PendingGeneration.name)
        request = self._request(settings, options, *self._to_be_answered()) if waiting else {}
        for stored in waiting:
            is_same = all(stored.fields.get(name) == value for name, value in request.items())
            if is_same and stored.fields.get("validator") is None:
                found = self.reviewer.asked_here(stored.pending_id) or self.operations.rebuild(stored)
                if isinstance(found, PendingGeneration) and found.status.is_open:
                    return found
        return None

    def _taken_up(self, pending: PendingGeneration) -> ChatResponse:
        """Have a reply decided about that is in the inbox, as one that came just now; what was proposed stays there."""
        left_open()
        is_hooked = self._is_hooked("generate")
        with self._saved(pending):
            if pending.status is PendingStatus.FAILED and not is_hooked:
                with deciding("automatic", "nobody"):
                    pending.approve()
            if pending.status is not PendingStatus.PENDING or (pending.is_unshown and not is_hooked):
                return outcome(pending)  # type: ignore[no-any-return]
            return self._decided(pending, joins=False)  # type: ignore[no-any-return]

    def _correct(self, fields: dict[str, Any]) -> None:
        """Have what the provider counted correct the estimates, in the transaction that stores the reply."""
        if self._commits.counter.name == APPROXIMATE and fields["usage"]:
            count = self._commits.counter.count_text
            if fields["prompt"] is None:
                estimated = self._commits.entry(fields["head"]).context_tokens
            else:
                parts = [message.get("content") or canonical_json(message) for message in fields["prompt"]]
                texts = [part if isinstance(part, str) else canonical_json(part) for part in parts]
                estimated = sum(count(text) + PER_MESSAGE for text in texts)
            estimated += count(canonical_json(fields["tools"])) if fields["tools"] else 0
            again = (
                text
                for failed in fields["retry_history"]
                for text in (failed["response_text"], failed["prompt"])
            )
            estimated += sum(count(text) + PER_MESSAGE for text in again)
            model = fields["model"] or str(fields["options"].get("model", ""))
            self._corrections.note(model, estimated, fields["usage"])

    def _to_be_answered(self) -> tuple[str, CompiledContext]:
        """The current branch and its context."""
        here = self._check_place()
        context = None if here.commit_hash is None else self.compile(at_commit=here.commit_hash)
        if not context:
            raise ContentError(
                "the context is empty; commit what the model should reply to first, as user(text)"
            )
        return here.branch or "", context

    def _check_place(self) -> Position:
        """Where a reply goes to."""
        if self._database.in_transaction:
            raise LLMError(
                "a model cannot be asked within batch(): every other writer of the store would wait for its reply; "
                "ask it before or after the block"
            )
        here = self._refs.position  # both of one look: another thread may switch
        if here.branch is None:
            raise DetachedHeadError(
                "HEAD names a commit, so a reply has no branch to go to; switch to one first"
            )
        return here

    def _check_settings(
        self, settings: dict[str, Any], validator: Validator | None, options: dict[str, Any]
    ) -> None:
        """Check before anything is sent what would be refused after it."""
        if validator is not None and not callable(validator):
            raise ContentError(
                f"a validator is a function that is given the text, not {brief_repr(validator)}"
            )
        if check_limit(settings["max_retries"]) != settings["max_retries"]:
            raise ContentError(f"max_retries is a number from 0 on, not {settings['max_retries']}")
        if settings["retry_prompt"] is not None:
            check_text(settings["retry_prompt"], "retry_prompt")
        self._commits.draft(
            {"content_type": "dialogue", "role": "assistant", "text": ""},
            message=settings["message"], metadata=settings["metadata"], generation_config=options,
        )  # fmt: skip

    def _restored_reply(
        self,
        fields: dict[str, Any],
        validator: Validator | None = None,
        keep: Callable[[dict[str, Any]], Any] | None = None,
    ) -> PendingGeneration:
        return PendingGeneration(fields, tract=self, run=keep or self._commit_reply, validator=validator)

    @contextmanager
    def _saved(self, pending: PendingGeneration) -> Iterator[None]:
        """Put a reply into the inbox if anything fails before it is decided: it was paid for."""
        as_given = dict(pending.fields)
        try:
            yield
        except BaseException as error:
            is_there = getattr(error, "pending", None) is pending or bool(pending.rounds)
            if pending.status.is_open and not is_there:
                with suppress(Exception):  # the store itself may be what failed
                    pending.fields = as_given  # a handler may have put there what cannot be stored
                    self.reviewer.keep(pending)
                    is_there = True
            if pending.status.is_open and is_there:
                left_open()
                if getattr(error, "pending", None) is not pending:
                    error.add_note(
                        "The model's reply waits in '%tract inbox'; approve it there once it can be committed."
                    )
            raise

    def _commit_reply(self, fields: dict[str, Any]) -> ChatResponse:
        """Commit a reply, and before it those that were not good, where they are to be seen.

        Raises:
            BranchMovedError: the current branch is another one than the model was asked on, or has not any more what
                the model was asked.
        """
        with self.batch():
            branch, current = fields["branch"], self.current_branch
            if current != branch:
                raise BranchMovedError(
                    f"the model was asked on branch {branch!r}, and the current one is {current!r}; nothing was "
                    f"committed. switch({branch!r}), then approve the reply"
                )
            if not self._turns.is_still_said(fields["head"]):
                raise BranchMovedError(
                    f"what the model was asked is not in the context of {branch!r} any more, as that was undone, reset "
                    "or compressed meanwhile; nothing was committed. Bring it back (undo() or redo()), then approve "
                    "the reply"
                )
            if not fields["hide_retries"]:
                for failed in fields["retry_history"]:
                    self._say_reply(failed, {}, None)
                    self.user(failed["prompt"])
            self._correct(fields)
            retried = {"retry_count": fields["retry_count"]} if fields["retry_count"] else {}
            metadata = {**(fields["metadata"] or {}), **retried}
            info = self._say_reply(fields, metadata, fields["message"], fields["replaces"])
        calls = tuple(ToolCall.from_dict(call) for call in fields["tool_calls"])
        return ChatResponse(
            fields["response_text"], info, fields["usage"], fields["generation_config"], calls
        )

    def _say_reply(
        self, said: dict[str, Any], metadata: dict[str, Any], message: str | None, replaces: str | None = None
    ) -> CommitInfo:
        tools = said.get("tools")
        return self.assistant(
            said["response_text"],
            tool_calls=said["tool_calls"],
            edit=replaces,
            generation_config=said["generation_config"],
            metadata=metadata,
            message=message,
            tools=tools if tools and tools != self.get_tools() else None,
        )


def name_of(validator: Validator | None) -> str | None:
    """What a validator is called in what is stored; None if there is none."""
    return None if validator is None else getattr(validator, "__name__", type(validator).__name__)
