"""The ten functions that connect the scenarios of `tests/vectors/loop` with the product: it translates, it never decides."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import contextmanager

from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMBudgetError, UndecidedError
from tract_jupyter.models import Allowance
from tract_jupyter.review import Answer, Channel
from tract_jupyter.toolkit import ToolConfig, ToolProfile

OUTCOMES = {"waiting": "pending"}


class PersonChannel(Channel):
    """Asks the scripted person: once for each list of questions."""

    name = "person"

    def __init__(self, person):
        self.person = person
        self.shown = None

    def can_reach(self):
        return True

    @contextmanager
    def together(self):
        self.shown = []
        try:
            yield
        finally:
            shown, self.shown = self.shown, None
            self._ask(shown)

    def show(self, ticket):
        if ticket.status.is_open:
            if self.shown is None:
                self._ask([ticket])
            else:
                self.shown.append(ticket)

    def _ask(self, tickets):
        questions = [question_of(ticket.pending) for ticket in tickets]
        if not questions:
            return
        for ticket, answer in zip(tickets, self.person.decide(questions), strict=True):
            if answer["answer"] == "approve":
                action, arguments = "approve", {}
            elif answer["answer"] == "change":
                action, arguments = "approve", {"edits": answer["args"]}
            elif answer["answer"] == "reject":
                action, arguments = "reject", {"reason": answer["reason"] or ""}
            else:
                continue
            assert ticket.submit(Answer(action, arguments, ticket.round_id), "person")

    def panel_may_answer(self, ticket, waited):
        return ticket.answered


def question_of(pending):
    if hasattr(pending, "tool_name"):
        return {"tool": pending.tool_name, "args": dict(pending.call_arguments)}
    return {"tool": "notebook_execute", "args": {"code": pending.fields.get("code")}}


def connect(ctx):
    ctx.session = t = Tract.open(ctx.store)
    ctx.options = {}
    if os.environ.get("LOOP_WIRE") == "responses":
        os.environ["OPENAI_BASE_URL"] = ctx.base_url
        t.models.add("scenario", model=f"openai/{ctx.model}", dialect="responses")
        t.models.use("scenario")
    else:
        t.models.use(f"{ctx.dialect}/{ctx.model}", api_key=ctx.key, base_url=ctx.base_url)
    if ctx.scenario.get("system") and t.head is None:
        t.system(ctx.scenario["system"])


def register(ctx, name, function, tool):
    ctx.session.tool(
        function, read_only=tool["effect"] == "read", destructive=tool["effect"] == "destructive"
    )
    ctx.names = [*getattr(ctx, "names", ()), name]


def show(ctx):
    if ctx.scenario.get("mode") == "code":
        ctx.options["tools"] = "code"
    elif getattr(ctx, "names", None):
        ctx.options["tools"] = ToolProfile("scenario", {name: ToolConfig() for name in ctx.names})


def lock(ctx, name):
    ctx.session.executor.lock_tool(name)


def limit(ctx, limits):
    of_turn = {name: limit for name, limit in limits.items() if name != "usd"}  # which counts the session
    ctx.options["limits"] = Allowance(**of_turn)
    if "usd" in limits:
        ctx.session.costs.set_budget(usd=limits["usd"])


def questions(ctx):
    ctx.session.reviewer.channel = PersonChannel(ctx.person)


def told(ctx):
    def on_delta(piece):
        if piece.kind in {"text", "reasoning"}:
            ctx.on_delta(piece.kind, piece.text)

    return on_delta if ctx.stream else None


def chat(ctx, text):
    t, options = ctx.session, {**ctx.options, "on_delta": told(ctx)}
    try:
        is_async = ctx.actor == "async"
        response = asyncio.run(t.achat(text, **options)) if is_async else t.chat(text, **options)
    except LLMBudgetError as error:
        return {"outcome": "limit", "text": "", "error": str(error)}
    except UndecidedError as error:
        return {"outcome": "pending", "text": "", "error": str(error)}
    usage = response.usage
    counted = "prompt_tokens" in usage
    return {
        "outcome": OUTCOMES.get(response.outcome, str(response.outcome)),
        "text": response.text,
        "error": response.note,
        "usage": {"input": usage["prompt_tokens"], "output": usage["completion_tokens"]} if counted else None,
        "cost_usd": None if response.cost is None else float(response.cost),
    }


def stop(ctx):
    loop = ctx.session.loop
    loop.pause() if ctx.scenario["cancel"].get("pause") else loop.stop()


def history(ctx):
    t = ctx.session
    kept = []
    for info in t.log(limit=1_000):
        kept.append(json.dumps([t.get_content(info.commit_hash), dict(info.metadata)], ensure_ascii=False))
    return "\n".join(kept)


def close(ctx):
    ctx.session.close()
