"""The operations of a hook: their contexts, conditions, and results."""

import json

import pytest

from tests.review.scripted import ScriptedClient
from tests.runs.kinds.support import context_of, operation_of
from tests.runs.virtual import VirtualWorkers, watch
from tract_jupyter.concurrency import stopped_by
from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs import (
    Artifacts,
    ArtifactView,
    Hook,
    Operation,
    OperationResult,
    OperationStatus,
    Prompt,
    ThreadWorkers,
    Turn,
    plan_phases,
    result_of,
    run_phase,
    unmet_condition,
)
from tract_jupyter.runs.kinds import KindRegistry, OperationOutput, Services

MESSAGES = [{"role": "system", "content": "sys"}, {"role": "user", "content": "hello"}]


class AtOnce(VirtualWorkers):
    """Run real jobs in sequence."""

    def submit(self, key, job, abort):
        with stopped_by(abort):
            result = result_of(job.context, lambda: job.function(job.context))
        self.at(self.ms, lambda: [(key, result)])


class Noting:
    """A kind whose value is its parameter `value`; it records its contexts, and may have its own effects."""

    name = "noting"

    def __init__(self):
        self.contexts = {}

    def check(self, operation):
        return []

    def prepare(self, operation, services):
        params = operation.config.params
        if params.get("broken"):
            raise ImportError("no library")

        def run(context):
            self.contexts[context.operation_id] = context
            return OperationOutput(value=params.get("value"), effects=params.get("effects"))

        return run


def noting(key, order=1, needs=(), artifact=None, **more):
    params = {name: more.pop(name) for name in ("value", "effects", "broken") if name in more}
    return operation_of("noting", params, key, artifact, order=order, dependsOn=needs, **more)


def template(key, text, order=1, needs=(), **more):
    return operation_of(
        "template", {"template": text}, key, more.pop("artifact", key), order=order, dependsOn=needs, **more
    )


def run(*operations, hook=Hook.BEFORE, turn=None, services=None, workers=None, base=None, **options):
    """The phase, and the contexts of the recording operations."""
    kind = Noting()
    kinds = KindRegistry(["template", "guard", "llm"], {"noting": kind})
    base = base or context_of(hook=hook)
    plan = plan_phases(
        operations,
        base.trigger,
        kinds,
        **{name: options.pop(name) for name in ("activation_skips",) if name in options},
    )[base.hook]
    turn = turn or Turn.of(Prompt.of(MESSAGES))
    executed = watch(
        run_phase,
        plan,
        base,
        turn,
        kinds=kinds,
        services=services or Services(),
        workers=workers or AtOnce(),
        **options,
    )
    return executed, kind.contexts


def values(executed):
    return {key: next((one.value for one in result.effects if one.type == "artifact.upsert"), None)
            for key, result in executed.results.items()}  # fmt: skip


def test_the_context_is_complete():
    """R29, R30, R33, R34: the run's ids, the draft, artifacts, policy, seed and clock; all inputs
    are in the context."""
    base = context_of(
        run_id="run-7",
        tract_id="t",
        branch="b",
        turn_id="u1",
        seed=5,
        now="2026-01-01T00:00:00Z",
        variables={"user": "Ann"},
    )
    turn = Turn.of(Prompt.of(MESSAGES), artifacts=Artifacts({"old": ArtifactView(tag="old", value=1)}))
    _, contexts = run(noting("a"), base=base, turn=turn)
    context = contexts["a"]
    assert (context.run_id, context.operation_id, context.tract_id, context.branch, context.turn_id) == (
        "run-7",
        "a",
        "t",
        "b",
        "u1",
    )
    assert (context.seed, context.now, context.variables) == (5, "2026-01-01T00:00:00Z", {"user": "Ann"})
    assert [one.content for one in context.messages] == ["sys", "hello"]
    assert context.messages[1].key == context.user_key
    assert context.artifacts["old"].value == 1
    assert "prompt.system_update" in context.allowed_effects
    assert "turn.assistant.replace_text" not in context.allowed_effects
    assert type(context).from_dict(json.loads(json.dumps(context.to_dict()))) == context


def test_after_the_main_call_the_reply_is_there():
    """R30, R33: the new reply is the last message, and the policy comes from the other hook."""
    turn = Turn(Prompt.of(MESSAGES), "hello", None, "the reply")
    _, contexts = run(noting("a", hooks=["after_main_llm"]), hook=Hook.AFTER, turn=turn)
    assert contexts["a"].reply == contexts["a"].messages[-1].content == "the reply"
    assert contexts["a"].messages[-1].role == "assistant"
    assert "turn.assistant.replace_text" in contexts["a"].allowed_effects
    assert "prompt.system_update" not in contexts["a"].allowed_effects


def test_before_the_main_call_the_context_has_no_reply():
    """R30: the old reply of a regenerated turn is not visible."""
    _, contexts = run(noting("a"), turn=Turn(Prompt.of(MESSAGES), "hello", None, "an older one"))
    assert contexts["a"].reply is None
    assert len(contexts["a"].messages) == 2


def test_only_direct_dependencies_are_seen():
    """G20, R26, R31, R62: effects of siblings and of indirect dependencies are not visible."""
    executed, contexts = run(
        template("a", "A", 1), template("b", "B", 2, ["a"]), template("side", "S", 1), noting("c", 3, ["b"]), noting("d", 3, ["a", "b"]),
    )  # fmt: skip
    assert set(contexts["c"].artifacts) == {"b"}
    assert contexts["c"].by_operation == {"b": "B"}
    assert set(contexts["d"].artifacts) == {"a", "b"}
    assert all(one.is_done for one in executed.results.values())


def test_effects_of_dependencies_are_replayed_in_commit_order():
    """G20: the order of the later commit counts, not `dependsOn` or the order of the endings."""
    part = [{"type": "prompt_part", "mode": "append"}]
    late = template("late", "L", 1, ["middle"], exposures=part)
    middle = template("middle", "M", 2, ["early"], exposures=part)
    early = template("early", "E", 9, exposures=part)
    # `late` has the smaller order, but is committed after its direct and indirect dependencies
    executed, contexts = run(late, middle, early, noting("x", 20, ["late", "early"]))
    assert contexts["x"].messages[0].content == "sysEL"
    assert list(contexts["x"].by_operation) == ["early", "late"]
    assert executed.results["x"].is_done


def test_a_rewritten_user_message_is_seen_by_dependents():
    """R30, G20: a dependency's rewrite is visible with its new text."""
    rewrite = noting("r", effects=[{"type": "turn.user.replace_text", "text": "CLEAN"}])
    executed, _ = run(
        rewrite,
        template("t", "{{ lastUserMessage }}", 2, ["r"]),
        template("alone", "{{ lastUserMessage }}", 2),
    )
    assert (values(executed)["t"], values(executed)["alone"]) == ("CLEAN", "hello")


def test_a_rewritten_reply_is_seen_by_dependents():
    """R30, R48: afterwards the reply is the one written by a dependency."""
    hooks = {"hooks": ["after_main_llm"]}
    rewrite = noting("r", effects=[{"type": "turn.assistant.replace_text", "text": "NEW"}], **hooks)
    _, contexts = run(
        rewrite,
        noting("x", 2, ["r"], **hooks),
        hook=Hook.AFTER,
        turn=Turn(Prompt.of(MESSAGES), "hello", None, "raw"),
    )
    assert contexts["x"].reply == contexts["x"].messages[-1].content == "NEW"


def test_an_effect_that_the_hook_forbids_is_not_visible_to_dependents():
    """R33, R41: an effect that the commit will refuse is not replayed either."""
    bad = noting(
        "bad",
        effects=[
            {"type": "turn.assistant.replace_text", "text": "NO"},
            {"type": "artifact.upsert", "tag": "t", "value": 1},
        ],
        artifact="t",
    )
    _, contexts = run(bad, noting("x", 2, ["bad"]))
    assert contexts["x"].reply is None
    assert contexts["x"].artifacts["t"].value == 1


def test_artifacts_of_dependencies_hide_persisted_ones_and_keep_their_history():
    """R31, R50: data of this run is read through a dependency; also by artifact id, if there is one (X09)."""
    turn = Turn.of(
        Prompt.of(MESSAGES),
        artifacts=Artifacts(
            {"w": ArtifactView(tag="w", value="old", history=("old",), persistence="persisted")}
        ),
    )
    write = Operation.from_dict({"definition": {"operationId": "a", "name": "a", "kind": "template"}, "config": {
        "order": 1, "params": {"template": "new"}, "artifact": {"tag": "w", "artifactId": "world", "persistence": "persisted"}}})  # fmt: skip
    executed, contexts = run(
        write,
        template("b", "{{ art.w.value }}{{ art.world.history.size }}", 2, ["a"]),
        noting("c"),
        turn=turn,
    )
    assert values(executed)["b"] == "new2"
    assert contexts["c"].artifacts["w"].value == "old"


def test_an_operation_cannot_change_the_context_of_another():
    """R29: the context is read-only; a value changed by one operation is unchanged for all others."""
    turn = Turn.of(Prompt.of(MESSAGES), artifacts=Artifacts({"w": ArtifactView(tag="w", value=[1])}))
    _, contexts = run(noting("a"), noting("b"), turn=turn)
    contexts["a"].artifacts["w"].value.append(2)
    assert contexts["b"].artifacts["w"].value == [1]
    with pytest.raises(ValueError, match="frozen"):
        contexts["a"].run_id = "other"


GUARD = {"engine": "liquid", "outputContract": [{"key": "x"}]}


def guard(answer):
    return operation_of("guard", {**GUARD, "template": json.dumps({"x": answer})}, "g", "flags")


@pytest.mark.parametrize(("answer", "output", "wanted", "actual"), [
    (True, "x", True, None), (False, "x", False, None), (True, "x", False, True), (False, "x", True, False),
    (True, "zz", True, "null"), (True, "zz", False, "null"),
])  # fmt: skip
def test_conditions_ask_a_guard(answer, output, wanted, actual):
    """R40, E23: the guard is done in both cases; its dependents run, or are skipped with a reason."""
    executed, contexts = run(
        guard(answer), noting("c", 2, ["g"], runConditions=[{"source": "g", "output": output, "is": wanted}])
    )
    result = executed.results["c"]
    assert executed.results["g"].is_done
    assert ("c" in contexts) == result.is_done == (actual is None)
    if actual is not None:
        expected = {
            "source": "g",
            "output": output,
            "is": wanted,
            "actual": None if actual == "null" else actual,
        }
        assert (result.skip.reason, result.skip.condition) == ("condition_false", expected)


def test_the_first_unmet_condition_is_reported_and_dependents_are_blocked():
    """E23, R38, R61: all conditions must hold; a skip blocks the dependents."""
    conditions = [{"source": "g", "output": "x", "is": True}, {"source": "g", "output": "y", "is": True}]
    executed, _ = run(guard(True), noting("c", 2, ["g"], runConditions=conditions), noting("d", 3, ["c"]))
    assert executed.results["c"].skip.condition["output"] == "y"
    assert executed.results["d"].skip.blocked_by == ("c",)


def test_a_condition_without_a_value_of_its_source_is_unmet():
    """E23: a source that is not a dependency, that failed, or that wrote no flat map has no value."""
    operation = noting("c", runConditions=[{"source": "g", "output": "x", "is": False}])
    for results in ({}, {"g": OperationResult(operation_id="g", status=OperationStatus.ERROR)},
                    {"g": OperationResult(operation_id="g", status=OperationStatus.DONE)}):  # fmt: skip
        assert unmet_condition(operation, results).condition["actual"] is None
    assert unmet_condition(noting("d"), {}) is None


def test_unknown_kinds_are_skipped_when_it_is_planned():
    """X07, R16: operations of an unknown kind do not run; their dependents have a missing dependency."""
    executed, contexts = run(operation_of("quantum", {}, "q"), noting("a", 2, ["q"]), noting("b", 3))
    assert executed.results["q"].skip.reason == "unsupported_kind"
    assert (executed.results["a"].skip.dep, executed.results["a"].skip.blocked_by) == ("missing", ("q",))
    assert set(contexts) == {"b"}


def test_a_failing_preparation_is_an_error_of_that_operation_alone():
    """R53, R27: an exception during preparation is an error of that operation."""
    executed, _ = run(
        noting("bad", broken=True), operation_of("llm", {"prompt": ""}, "l", "l"), noting("good")
    )
    assert executed.results["bad"].error.code == "operation_error"
    assert executed.results["l"].error.code == "validation_error"
    assert executed.results["good"].is_done


def test_operations_that_cannot_be_planned_are_refused():
    with pytest.raises(PlanError):
        run(noting("a", 1, ["b"]), noting("b", 1, ["a"]))


def test_attempts_of_a_model_are_carried_out_by_the_engine():
    """E25, R56: `retry` in the parameters; the record counts attempts and has the summaries of the
    last one."""
    model = ScriptedClient(RuntimeError("boom"), RuntimeError("429"), "third")
    asking = operation_of("llm", {"prompt": "p", "retry": {"maxAttempts": 3}}, "l", "l")
    executed, _ = run(asking, services=Services(llm=model))
    (record,) = executed.runs
    assert values(executed)["l"] == "third"
    assert (record.attempts, record.status) == (3, OperationStatus.DONE)
    assert record.inputs_summary["userHash"]
    assert record.outputs_summary["text"] == "third"


def test_bad_output_is_asked_for_once():
    """E25: bad output is never retried."""
    model = ScriptedClient("nope", "{}")
    asking = operation_of("llm", {"prompt": "p", "outputMode": "json", "retry": {"maxAttempts": 3}}, "l", "l")
    executed, _ = run(asking, services=Services(llm=model))
    assert (executed.results["l"].error.code, len(model.asked)) == ("output_parse_error", 1)


def test_every_execution_leaves_a_record_without_texts():
    """R56, R57, R17: name, kind, times, and the ending; no operation needs steps."""
    executed, _ = run(template("a", "{{ lastUserMessage }} and a secret plan"), template("b", "{{ nope", 2))
    done, failed = executed.runs
    assert (done.kind, done.name, done.outputs_summary) == ("template", "a", {"characters": 23})
    assert (failed.status, failed.error_code) == (OperationStatus.ERROR, "template_render_error")
    assert "secret plan" not in str(done.to_dict())


def test_world_state_and_its_diff_are_two_operations():
    """R63, R51: each writes its own tag; the second one reads the first one's."""
    executed, _ = run(
        template("state", "castle"), template("diff", "now: {{ art.state.value }}", 2, ["state"])
    )
    assert values(executed) == {"state": "castle", "diff": "now: castle"}


def test_threads_give_the_same_as_one_after_the_other():
    """R58, R62: the result depends on neither speed nor place."""
    operations = [
        template(f"o{n}", "{{ art.o0.value }}" + str(n), n, [] if n == 0 else ["o0"]) for n in range(12)
    ]
    with ThreadWorkers() as threads:
        assert run(*operations, workers=threads)[0].results == run(*operations)[0].results
