"""Real kinds, with a scripted model, in virtual milliseconds: `execute_phase` and `flow`."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.runs.virtual import VirtualWorkers, watch
from tests.vectors.adapters.template import view_of
from tract_jupyter.concurrency import Stopped, StopSignal, stopped_by
from tract_jupyter.exceptions import PlanError
from tract_jupyter.llm import Models
from tract_jupyter.runs import (
    Artifacts,
    ArtifactUpsert,
    CommitItem,
    ExecutionMode,
    Hook,
    MemoryTarget,
    Operation,
    OperationContext,
    OperationFinished,
    OperationResult,
    OperationStatus,
    Persistence,
    Prompt,
    RunTrigger,
    Skip,
    SkippedReason,
    Turn,
    commit,
    counts_against,
    plan_phases,
    result_of,
    run_phase,
    value_of,
)
from tract_jupyter.runs.kinds import KindRegistry, Services
from tract_jupyter.runs.templates import variables_of

Given = dict[str, Any]

KINDS = ("template", "guard", "llm")
_CONFIG = ("order", "enabled", "required", "hooks", "triggers", "dependsOn", "runConditions", "activation")
_LLM = {
    "prompt": "prompt",
    "system": "system",
    "strict": "strictVariables",
    "strictVariables": "strictVariables",
    "outputMode": "outputMode",
    "jsonParseMode": "jsonParseMode",
    "jsonCustomPattern": "jsonCustomPattern",
    "jsonSchema": "jsonSchema",
    "strictSchemaValidation": "strictSchemaValidation",
    "timeoutMs": "timeoutMs",
    "retry": "retry",
    "samplers": "samplers",
    "providerRef": "providerRef",
    "model": "model",
}


class ScriptedClient:
    """Gives the scripted attempts in the order of its calls, and notes how long each takes."""

    def __init__(self, attempts: list[Given]) -> None:
        self._attempts = iter(attempts)
        self.requests: list[list[Given]] = []
        self.options: list[Given] = []
        self.ms = 0.0

    def chat(self, messages: list[Given], **options: Any) -> Given:
        self.requests.append(messages)
        self.options.append(options)
        attempt = next(self._attempts)
        self.ms += attempt.get("delayMs", 0)
        events = attempt.get("events", [])
        for event in events:
            if event["type"] == "error":
                raise RuntimeError(event.get("message", "error"))
        status = next((event.get("status", "done") for event in events if event["type"] == "done"), "done")
        if status == "aborted":
            raise Stopped
        if status == "error":
            raise RuntimeError("the provider ended with an error")
        text = "".join(event["text"] for event in events if event["type"] == "delta")
        return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


class PhaseWorkers(VirtualWorkers):
    """Runs a job when it is started; what it gave counts once the time has passed that its model takes."""

    def __init__(self, client: ScriptedClient) -> None:
        super().__init__()
        self._client = client

    def submit(self, key: Any, job: Any, abort: StopSignal) -> None:
        before = self._client.ms
        with stopped_by(abort):
            result = result_of(job.context, lambda: job.function(job.context))
        lasts, reported = self._client.ms - before, []

        def end(stopped: bool) -> list[Any]:
            if reported:
                return []
            reported.append(True)
            aborted = OperationResult(operation_id=job.context.operation_id, status=OperationStatus.ABORTED)
            return [(key, aborted if stopped and lasts else result)]

        self.at(self.ms + lasts, partial(end, stopped=False))
        abort.on_set(lambda: self.at(self.ms, partial(end, stopped=True)))


class _Recording:
    """A kind that notes the context of each operation."""

    def __init__(self, kind: Any, contexts: dict[str, OperationContext]) -> None:
        self._kind, self._contexts = kind, contexts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)

    def prepare(self, operation: Operation, services: Services) -> Any:
        run = self._kind.prepare(operation, services)

        def recorded(context: OperationContext) -> Any:
            self._contexts[operation.id] = context
            return run(context)

        return recorded


def operation_of(given: Given) -> Operation:
    """An operation of a vector."""
    kind = given["kind"]
    config = {name: given[name] for name in _CONFIG if given.get(name) is not None}
    config["params"] = params_of(kind, given.get(kind) or {})
    config.setdefault("debug", {"enabled": True})
    if given.get("artifact") is not None:
        config["artifact"] = {name: one for name, one in given["artifact"].items() if one is not None}
    definition = {"operationId": given["id"], "name": given.get("name", given["id"]), "kind": kind}
    return Operation.from_dict({"definition": definition, "config": config})


def params_of(kind: str, given: Given) -> Given:
    """The parameters of a kind, as the vectors spell them."""
    if kind == "template":
        return {"template": given.get("text", ""), "strictVariables": given.get("strict", False)}
    asked = {_LLM[name]: value for name, value in given.items() if name in _LLM}
    if kind != "guard":
        return asked
    contract = [
        one if isinstance(one, dict) else {"key": one, "title": one} for one in given.get("outputs") or []
    ]
    own = {"engine": given.get("engine", "liquid"), "outputContract": contract}
    own |= {name: given[name] for name in ("template", "runOnError") if name in given}
    return {**asked, **own}


def execute_phase(given: Given) -> Given:
    """One hook: results by operation, and what was asked of the model."""
    client = ScriptedClient(given.get("llm") or [])
    contexts: dict[str, OperationContext] = {}
    try:
        phase, finished = _phase(
            given, Hook(given.get("hook") or Hook.BEFORE), _turn(given), client, contexts
        )
    except PlanError as error:
        return {"planError": {"code": error.code, "message": str(error)}, "results": {}}
    results = {key: _told(one) for key, one in phase.results.items()}
    return {
        "results": results,
        "finished": finished,
        "startOrder": list(phase.start_order),
        "resultOrder": list(phase.results),
        "llmCalls": len(client.requests),
        "llmRequests": client.requests,
        "llmOptions": client.options,
        "templateDebug": {key: _debug(one, phase.results[key]) for key, one in contexts.items()},
        "runs": [one.to_dict() for one in phase.runs],
    }


def flow(given: Given) -> Given:
    """Before, commit, the main call, after, commit."""
    client = ScriptedClient(given.get("llm") or [])
    turn = _turn({**given, "hook": Hook.BEFORE})
    target = MemoryTarget(session="session", artifacts=turn.artifacts.persisted.values())
    found: Given = {"results": {}, "afterRequiredError": False}
    found["beforeRequiredError"], turn = _step(given, Hook.BEFORE, turn, target, client, found["results"])
    # the barrier: nothing is sent if a required operation is not done (R12)
    found["promptSent"] = None if found["beforeRequiredError"] else turn.prompt.provider_messages()
    if given.get("mainLlmText") is not None and not found["beforeRequiredError"]:
        turn = Turn(**{**vars(turn), "reply": given["mainLlmText"], "reply_part": "reply:0"})
        found["afterRequiredError"], turn = _step(given, Hook.AFTER, turn, target, client, found["results"])
    return {
        **found,
        "assistantText": turn.reply,
        "userText": turn.user_text,
        "artifacts": {tag: view.value for tag, view in turn.artifacts.view.items()},
        "llmRequests": client.requests,
        "llmCalls": len(client.requests),
    }


def _step(
    given: Given, hook: Hook, turn: Turn, target: MemoryTarget, client: ScriptedClient, results: Given
) -> tuple[bool, Turn]:
    ops = given.get("before" if hook is Hook.BEFORE else "after") or []
    phase, _ = _phase({**given, "ops": ops}, hook, turn, client, {})
    items = [CommitItem.of(one, phase.results[one.id]) for one in phase.plan.by_id.values()]
    turn, report = commit(hook, items, turn, target)
    results.update({key: _told(one) for key, one in phase.results.items()})
    failed = any(map(counts_against, phase.results.values()))
    return failed or report.required_error, turn


def _phase(
    given: Given, hook: Hook, turn: Turn, client: ScriptedClient, contexts: dict[str, OperationContext]
) -> Any:
    plain = KindRegistry(KINDS)
    kinds = KindRegistry(KINDS, {name: _Recording(plain[name], contexts) for name in KINDS})
    workers, abort, finished = PhaseWorkers(client), StopSignal(), {}
    if given.get("abortBeforeStart"):
        abort.set()
    if given.get("abortAtMs") is not None:
        workers.at(given["abortAtMs"], abort.set)

    def notify(event: Any) -> None:
        if isinstance(event, OperationFinished):
            finished[event.operation_id] = _told(event.result)

    base = OperationContext(
        run_id="run",
        operation_id="none",
        trigger=RunTrigger(given.get("trigger") or RunTrigger.GENERATE),
        hook=hook,
        now="2026-01-02T03:04:05+00:00",
        variables=given.get("context") or {},
    )
    plan = plan_phases(
        [operation_of(one) for one in given["ops"]],
        base.trigger,
        kinds,
        mode=ExecutionMode(given.get("mode") or ExecutionMode.CONCURRENT),
        activation_skips={
            key: Skip(reason=SkippedReason.ACTIVATION_NOT_REACHED, activation=one)
            for key, one in (given.get("activationSkips") or {}).items()
        },
    )[hook]
    phase = watch(
        run_phase,
        plan,
        base,
        turn,
        kinds=kinds,
        services=Services(llm=client, models=_models(given["ops"], client)),
        workers=workers,
        abort=abort,
        notify=notify,
    )
    return phase, finished


def _models(ops: list[Given], client: ScriptedClient) -> Models:
    """Whatever operations name stands for the scripted model."""
    models = Models()
    for name in {str(one["llm"]["providerRef"]) for one in ops if (one.get("llm") or {}).get("providerRef")}:
        models.add(name, client)
    return models


def _turn(given: Given) -> Turn:
    """The turn of a vector: afterwards, the last message is the reply."""
    messages, reply = list(given.get("messages") or ()), None
    if given.get("hook") == Hook.AFTER and messages and messages[-1]["role"] == "assistant":
        reply = messages.pop()["content"]
    views = {tag: view_of(tag, one) for tag, one in (given.get("artifacts") or {}).items()}
    persisted = {
        tag: one.model_copy(update={"persistence": Persistence.PERSISTED}) for tag, one in views.items()
    }
    turn = Turn.of(Prompt.of(messages), user_part="user:0", artifacts=Artifacts(persisted))
    return Turn(**{**vars(turn), "reply": reply})


def _told(result: OperationResult) -> Given:
    skip = result.skip.to_dict() if result.skip else {}
    condition = skip.pop("condition", None)
    written = next((one for one in result.effects if isinstance(one, ArtifactUpsert)), None)
    texts = [
        getattr(one, name)
        for one in result.effects
        for name in ("content", "payload", "text")
        if hasattr(one, name)
    ]
    value = value_of(result)
    return {
        **skip,
        "status": result.status.value,
        "required": result.required,
        "reason": skip.get("reason"),
        "guard": condition,
        "value": value,
        "valueJson": value,
        "valueText": value if isinstance(value, str) else json.dumps(value),
        "tag": written.tag if written else None,
        "effects": [one.type for one in result.effects],
        "exposedText": texts[0] if texts else None,
        "errorCode": result.error.code if result.error else None,
        "errorMessage": result.error.message if result.error else None,
        **(result.error.details if result.error else {}),
    }


def _debug(context: OperationContext, result: OperationResult) -> Given:
    return {
        "rendered": result.debug.get("rendered"),
        "promptSystem": variables_of(context)["promptSystem"],
        "messages": [{"role": one.role, "content": one.content} for one in context.messages],
    }
