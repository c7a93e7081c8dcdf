"""A model that reviews calls before a person is asked: what it is sent, and how its answer is read.

It is sent what the person said, and the one call with what is known of its tool: nothing that a tool said, nothing
that a model wrote but the arguments themselves. It answers with one call of one tool. Whatever else comes, or does not
come, the person is asked.
"""

from __future__ import annotations

import contextvars
import json
import math
import threading
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter import prompts
from tract_jupyter.exceptions import CassetteError, ContentError, LLMBudgetError, TractError
from tract_jupyter.llm import Reply, StopSignal, ended_by, redacted, side_by_side
from tract_jupyter.models import brief_repr, cut_middle, one_line, parse_message, repr_of_whole, sha256
from tract_jupyter.review import Look, check_wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.models import LLMClient, PersonsWords
    from tract_jupyter.review import Verdict

_MOST_WORDS: Final = 10  # messages of the person
_LONGEST_WORDS: Final = 2_000  # characters of each
_LONGEST_CALL: Final = 6_000  # characters of the call, as it is sent
_LONGEST_REASON: Final = 500
_LOOK: Final = 0.05  # seconds between two looks at whether somebody wants it to end
_ENDED: Final = frozenset({None, "stop", "tool_calls"})


class ModelReviewer:
    """A model that reviews first: `t.review.model_reviewer = ModelReviewer()`.

    It can clear a call, refuse it with a reason, or leave it to you. Which calls it may decide about at all is said by
    rules that no model is asked about (docs/review.md); about everything else you are asked, and so you are if anything
    goes wrong. It gives no standing approval and changes no value.

    Args:
        client: who is asked; the tract's own model for `review` (`t.models.use(MODEL, operation="review")`) if left
            out, or else the one that is asked for everything.
        timeout: the seconds that it may take for one call.
        most_cleared: how many calls it may clear before you say something again.

    Raises:
        ContentError: an argument is something else.
    """

    def __init__(
        self,
        client: LLMClient | None = None,
        *,
        timeout: float = 20.0,
        most_cleared: int = 50,
    ) -> None:
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout < math.inf:
            raise ContentError(f"timeout is a number of seconds above 0, not {brief_repr(timeout)}")
        if type(most_cleared) is not int or most_cleared < 1:
            raise ContentError(
                f"most_cleared is a whole number of calls from 1 on, not {brief_repr(most_cleared)}"
            )
        if client is not None and not callable(getattr(client, "chat", None)):
            raise ContentError(
                f"a client has a method chat(messages, **options), which {brief_repr(client)} has not; without one, "
                "the model that is configured for 'review' is asked"
            )
        self.timeout = float(timeout)
        self.most_cleared = most_cleared
        self._client = client

    @repr_of_whole
    def __repr__(self) -> str:
        who = "the model for 'review'" if self._client is None else type(self._client).__name__
        return f"<ModelReviewer: asks {who}, {self.timeout:g} s for each call>"

    def look(self, pending: Any, said: PersonsWords) -> Look:
        """Have the model look at one call.

        Args:
            pending: the question, which the rules leave to a model.
            said: the person's own words.

        Raises:
            CassetteError: a cassette is replayed, and the request is not what comes next on it.
        """
        try:
            request = _request(pending, said)
            if isinstance(request, str):
                return _failed(request)
            client = pending.tract.models.client_for("review", self._client)
            reply = self._asked(client, request)
        except CassetteError:
            raise
        except LLMBudgetError:
            return _failed("the budget leaves nothing for it")
        except TractError as error:
            return _failed(str(error))
        except Exception as error:  # noqa: BLE001 # a client of the user's own may raise anything
            return _failed(f"{type(error).__name__}: {error}")
        return _read(reply)

    def _asked(self, client: LLMClient, messages: list[dict[str, Any]]) -> Any:
        """Ask in a thread, which is left where its client cannot be ended.

        Raises:
            Exception: whatever the client raises.
            TimeoutError: its time is over.
        """
        end, came, context = StopSignal(), _Came(), contextvars.copy_context()

        def ask() -> None:
            try:
                with ended_by(end), side_by_side():
                    came.reply = client.chat(messages, tools=[prompts.DECIDE])
            except BaseException as error:  # noqa: BLE001 # it is raised where somebody waits
                came.error = error
            finally:
                came.is_over.set()

        threading.Thread(target=context.run, args=(ask,), name="tract-review", daemon=True).start()
        left = self.timeout
        try:
            while not came.is_over.wait(min(_LOOK, left)):
                check_wait()
                left -= _LOOK
                if left <= 0:
                    raise TimeoutError(f"it did not answer within {self.timeout:g} s")
        finally:
            end.set("not waited for any more")
        if isinstance(came.error, Exception):
            raise came.error
        if came.error is not None:  # it ends its own thread, and not this one
            raise RuntimeError(f"its client raised {type(came.error).__name__}")
        return came.reply


class _Came:
    """What came of a request in a thread of its own."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.reply: Any = None
        self.error: BaseException | None = None


# --- what is sent


def _request(pending: Any, said: PersonsWords) -> list[dict[str, Any]] | str:
    """Return the messages; or why there are none to send."""
    words = words_of(pending.tract, said)
    if not words:
        return "nothing that the person said about this is known here"
    secrets = pending.tract.models.secrets()
    view = pending.model_view()
    call = _as_text(view.pop("call"))
    if len(call) > _LONGEST_CALL:
        return "the call is too long to be shown to a model as a whole"
    if redacted(call, secrets) != call:
        return "the call holds something like a key"
    sent = [_as_text(cut_middle(redacted(text, secrets), _LONGEST_WORDS)) for text in words]
    about = {name: redacted(value, secrets) for name, value in view.items()}
    fence = (f"CALL-{sha256(call.encode())[:12]}", call)
    return [
        {"role": "system", "content": prompts.REVIEW_FIRST},
        {"role": "user", "content": prompts.review_request(sent, about, fence)},
    ]


def words_of(tract: Any, said: PersonsWords) -> list[str]:
    """Return what the person said themselves in the conversation that the current branch holds, oldest first.

    What was sent beside a message (variables, files, outputs) is left out, and so is what was said elsewhere. The
    newest ten messages count.
    """
    head = tract.head  # named, so that no policy takes it for a compile that somebody asked for
    messages = () if head is None else tract.compile(at_commit=head).messages
    found = [one.content for one in messages if one.role == "user" and one.content in said]
    words = [parse_message(text)[1].strip() for text in found[-_MOST_WORDS:]]
    return [text for text in words if text]


def _as_text(value: Any) -> str:
    """Return JSON in which nothing is hidden: every character that is not plain stands there by its number."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


# --- what is answered


def _read(response: Any) -> Look:
    """Read the answer, of which one form counts: one call of `decide`, with a decision and a reason, and no text."""
    model = ""
    try:
        reply = Reply.of(response)
        model = one_line(reply.model or "unknown", 80)
        verdict, reason = _decision(reply)
    except (TractError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return _failed(str(error), model)
    return Look(verdict, one_line(reason, _LONGEST_REASON), model)


def _what_is_wrong(reply: Reply) -> Iterator[str]:
    """Yield why a reply has not the one form that counts."""
    if reply.finish_reason not in _ENDED:
        yield f"its answer ended early ({reply.finish_reason})"
    if len(reply.raw_calls) != 1:
        count = len(reply.raw_calls)
        yield f"it gave {count} decisions" if count else "it gave no decision"
    elif reply.text.strip():
        yield "it wrote a text beside its decision"
    elif reply.raw_calls[0].name != prompts.DECIDE["function"]["name"]:
        yield f"it called {one_line(reply.raw_calls[0].name, 40)!r}, which it was not given"
    elif reply.raw_calls[0].is_cut:
        yield "its answer was cut"


def _decision(reply: Reply) -> tuple[Verdict, str]:
    """Return the decision of a reply, and its reason.

    Raises:
        ValueError: it has another form than the one that counts.
    """
    for wrong in _what_is_wrong(reply):
        raise ValueError(wrong)
    given = json.loads(reply.raw_calls[0].arguments, object_pairs_hook=_once)
    if not isinstance(given, dict) or set(given) != {"decision", "reason"}:
        raise ValueError("its answer has another form")
    decision, reason = given["decision"], given["reason"]
    if decision not in ("clear", "refuse", "ask") or not isinstance(reason, str):
        raise ValueError("its answer has another form")
    if not reason.strip() or len(reason) > _LONGEST_REASON:
        raise ValueError("its answer has no usable reason")
    return decision, reason


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's values by name.

    Raises:
        ValueError: a name stands there twice, so that two readers could read two answers.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in its answer")
    return found


def _failed(why: str, model: str = "") -> Look:
    return Look("ask", one_line(why, _LONGEST_REASON), model, is_own=False)
