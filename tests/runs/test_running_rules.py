"""Tract runs: their rules, tested through `generate`."""

import re

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import ContentError, ProfileError, RunFailedError
from tract_jupyter.runs import (
    AppendAfterLastUser,
    ArtifactUpsert,
    AssistantReplaceText,
    ErrorCode,
    FailedType,
    Hook,
    RunOptions,
    RunStatus,
    RunTrigger,
    SkippedReason,
    UserReplaceText,
)
from tract_jupyter.runs.kinds import OperationFailed, Skipped
from tract_jupyter.runs.profile import OperationProfile, run_operation

SNAKE = re.compile(r"[a-z][a-z0-9_]*")


@pytest.fixture
def asked(tract):
    """A tract with a question, and functions for operations; the model replies `Rome.` ten times."""
    tract.configure_llm(ScriptedClient(*["Rome."] * 10))
    tract.system("You are a guide.")
    tract.user("Where am I?")

    @tract.functions.register()
    def fail(context, arguments):
        raise OperationFailed("no_weather", "there is no weather today")

    @tract.functions.register()
    def skip(context, arguments):
        return Skipped()

    return tract


def run_of(tract, *operations, **options):
    """The run of these operations, and whether it failed before the reply."""
    try:
        return tract.generate(profile=OperationProfile.of("p", operations), **options).run, False
    except RunFailedError as error:
        return error.run, True


def ended(run):
    """The status of each operation, with its reason."""
    return {
        one.operation_id: (one.status.value, one.skipped_reason or one.error_code) for one in run.operations
    }


def sent(tract, call=-1):
    """The messages sent to the model."""
    return [(one["role"], one["content"]) for one in tract.llm.asked[call][0]]


PLAIN = [("system", "You are a guide."), ("user", "Where am I?")]


# --- operations


def test_only_effects_come_out_of_an_operation(asked):
    """R1, R29, R62: only its status and its effects are visible outside."""
    seen = []

    @asked.functions.register()
    def meddle(context, arguments):
        arguments["text"] = "changed"
        context.messages[0].extra["name"] = "changed"
        context.artifacts["mood"] = "changed"
        context.variables["place"] = "changed"
        seen.append(context.messages)
        return "made"

    first = run_operation("first", "compute", order=1, function="meddle", arguments={"text": "given"})
    second = run_operation(
        "second", order=2, after="first", text="{{ messages | json }}{{ art | json }}", into="tail"
    )
    run, _ = run_of(asked, first, second)
    assert ended(run) == {"first": ("done", None), "second": ("done", None)}
    assert "changed" not in run.prompt[-1].content
    assert "changed" not in str(asked.llm.asked)
    assert seen


def test_there_are_two_hooks(asked):
    """R2, R8, R22: an operation runs before the main call, after it, or both; there is no other hook."""
    operations = [
        run_operation("early", order=1, text="a"), run_operation("late", order=1, text="b", when="after"),
        run_operation("twice", order=2, text="c", when="both"),
    ]  # fmt: skip
    run, _ = run_of(asked, *operations)
    events = [one.data for one in asked.runs.events(run.run_id)]
    ends = [one.operation_id if one.type == "operation.finished" else one.type for one in events]
    ends = [one for one in ends if one == "main_llm.started" or "." not in one]
    assert set(ends[:2]) == {"early", "twice"}
    assert ends[2] == "main_llm.started"
    assert set(ends[3:]) == {"late", "twice"}
    assert [(one.operation_id, one.hook) for one in run.operations] == [
        ("early", Hook.BEFORE), ("twice", Hook.BEFORE), ("late", Hook.AFTER), ("twice", Hook.AFTER),
    ]  # fmt: skip
    with pytest.raises(ProfileError, match="hook"):
        run_operation("during", order=1, text="a", when="during_main_llm")


def test_an_operation_may_change_the_prompt_the_turn_and_an_artifact(asked):
    """R3, R4, R47, R50: the prompt for this call only, the turn permanently, an artifact for others."""

    @asked.functions.register()
    def all_three(context, arguments):
        return [
            AppendAfterLastUser(role="system", content="It rains."), UserReplaceText(text="Where am I now?"),
            ArtifactUpsert(tag="weather", value="rain", persistence="persisted"),
        ]  # fmt: skip

    reads = run_operation(
        "reads", order=2, text="{{ art.weather.value }}", into="tail", triggers=["regenerate"]
    )
    every = run_operation(
        "all", "compute", order=1, function="all_three", triggers=["generate"], tag="weather", keep=True
    )
    profile = OperationProfile.of("p", [every, reads])
    asked.generate(profile=profile)
    rewritten = [PLAIN[0], ("user", "Where am I now?")]
    assert sent(asked) == [*rewritten, ("system", "It rains.")]
    asked.generate(profile=profile, trigger="regenerate")
    assert sent(asked) == [*rewritten, ("system", "rain")]
    assert [one["content"] for one in asked.compile().to_dicts()] == [
        "You are a guide.",
        "Where am I now?",
        "Rome.",
    ]


def test_a_request_by_an_operation_does_not_change_the_main_call(asked):
    """R7, R13: a request by an operation is another call; it changes neither the options nor the
    reply of the main call."""
    asked.configure_llm(ScriptedClient("sunny", "Rome."))
    aux = run_operation(
        "weather", "llm", order=1, text="How is it?", into="tail", model="small", samplers={"temperature": 0}
    )
    response = asked.generate(profile=OperationProfile.of("p", [aux]), temperature=0.7)
    (_, small), (main, options) = asked.llm.asked
    assert small["model"] == "small"
    assert small["temperature"] == 0
    assert options.get("temperature") == 0.7
    assert "model" not in options
    assert main[-1]["content"] == "sunny"
    assert response.text == "Rome."
    assert [one["content"] for one in asked.compile().to_dicts()][2:] == ["Rome."]


def test_a_disabled_operation_is_recorded_as_skipped_and_has_no_effect(asked):
    """R18, G2, G3: it does not count at the barrier, even if it is required."""
    run, failed = run_of(
        asked, run_operation("off", order=1, text="a", into="tail", enabled=False, required=True)
    )
    assert not failed
    assert ended(run) == {"off": ("skipped", "disabled")}
    assert sent(asked) == PLAIN


# --- the course of a run


def test_a_run_begins_with_one_of_two_triggers(asked):
    """R9, R13, R23: a new turn, or another reply to the same turn; each sends one main request."""
    assert asked.generate(profile=OperationProfile.of("p")).run.trigger is RunTrigger.GENERATE
    again = asked.generate(trigger="regenerate").run
    assert again.trigger is RunTrigger.REGENERATE
    assert sent(asked) == PLAIN
    assert len(asked.llm.asked) == 2
    assert [one["role"] for one in asked.compile().to_dicts()] == ["system", "user", "assistant"]
    with pytest.raises(ContentError, match="trigger"):
        asked.generate(trigger="continue")
    assert len(asked.llm.asked) == 2


def test_a_required_operation_of_another_trigger_does_not_count(asked):
    """R23, G2, G3: it was not planned, which is recorded."""
    run, failed = run_of(
        asked, run_operation("again", order=1, text="a", required=True, triggers=["regenerate"])
    )
    assert not failed
    assert ended(run) == {"again": ("skipped", "trigger_mismatch")}


BAD = {
    "error": ([run_operation("it", "compute", order=1, required=True, function="fail")], ("error", "no_weather")),
    "condition": ([run_operation("it", "compute", order=1, required=True, function="skip")], ("skipped", "condition_false")),
    "blocked": (
        [run_operation("source", "compute", order=1, function="fail"),
         run_operation("it", order=2, text="a", required=True, after="source")],
        ("error", "dependency_failed"),
    ),
    "kind": ([run_operation("it", "astrology", order=1, required=True)], ("skipped", "unsupported_kind")),
}  # fmt: skip


@pytest.mark.parametrize(("operations", "how"), BAD.values(), ids=BAD)
def test_a_required_operation_that_is_not_done_prevents_the_main_request(asked, operations, how):
    """R11, R12, R19, R61, G1, G4: all other operations have ended by then; the run names the operation."""
    run, failed = run_of(asked, *operations, run_operation("other", order=9, text="b"))
    assert failed
    assert (run.status, run.failed_type) == (RunStatus.FAILED, FailedType.BEFORE_BARRIER)
    assert run.failed_details["operationId"] == "it"
    assert ended(run)["it"] == how
    assert ended(run)["other"] == ("done", None)
    assert asked.llm.asked == []
    assert len(asked.compile().to_dicts()) == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_optional_operation_never_blocks_the_run(asked, when):
    """R14, R20, R25, R61, G12: errors, skips and blocked operations; the same rules apply at both hooks."""
    operations = [
        run_operation("bad", "compute", order=1, function="fail", when=when),
        run_operation("none", "compute", order=2, function="skip", when=when),
        run_operation("next", order=3, text="a", after="bad", when=when),
        run_operation("last", order=4, text="a", after=["next", "good"], when=when),
        run_operation("good", order=5, text="a", when=when),
    ]
    run, failed = run_of(asked, *operations)
    assert not failed
    assert run.status is RunStatus.DONE
    assert ended(run) == {
        "bad": ("error", "no_weather"), "none": ("skipped", "condition_false"),
        "next": ("skipped", "dependency_failed"), "last": ("skipped", "dependency_failed"), "good": ("done", None),
    }  # fmt: skip
    assert len(asked.llm.asked) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_effects_are_committed_in_one_order_at_each_hook(asked, when):
    """R14, R46, R58, R60: dependencies, then `order`, then the id, at both hooks."""
    names = ["z", "b", "a"]
    operations = [run_operation(name, order=1, text=name, tag=f"t_{name}", when=when) for name in names]
    operations.append(run_operation("first", order=0, text="f", tag="t_first", after="z", when=when))
    run, _ = run_of(asked, *operations)
    (report,) = [one for one in run.reports if "entries" in one]
    assert report["hook"] == Hook(f"{when}_main_llm")
    assert [one["operationId"] for one in report["entries"]] == ["a", "b", "z", "first"]


def test_a_required_operation_after_the_reply_takes_nothing_back(asked):
    """R14, R19, R21: the reply is kept; the run has failed, and reports it."""
    run, failed = run_of(
        asked, run_operation("check", "compute", order=1, function="fail", when="after", required=True),
        run_operation("seal", order=2, text="{{ lastAssistantMessage }} Really.", into="reply", when="after"),
    )  # fmt: skip
    assert not failed
    assert (run.status, run.failed_type) == (RunStatus.FAILED, FailedType.AFTER_MAIN_LLM)
    assert run.failed_details["operationId"] == "check"
    assert asked.compile().to_dicts()[-1]["content"] == run.reply == "Rome. Really."


def test_statuses_and_effects_are_recorded(asked):
    """R15, R56: also for a run that failed early, with all its planned operations."""
    weather = run_operation("weather", order=1, text="rain", tag="weather", into="system")
    run, _ = run_of(asked, weather, run_operation("late", order=1, text="b", when="after"))
    kept = asked.runs.get(run.run_id)
    assert kept == run
    assert ended(kept) == {"weather": ("done", None), "late": ("done", None)}
    assert [(one["effectType"], one["status"]) for one in kept.reports[0]["entries"]] == [
        ("artifact.upsert", "applied"), ("prompt.system_update", "applied"),
    ]  # fmt: skip
    failed, _ = run_of(
        asked, weather, run_operation("bad", "compute", order=2, function="fail", required=True)
    )
    assert (
        ended(asked.runs(1)[0])
        == ended(failed)
        == {"weather": ("done", None), "bad": ("error", "no_weather")}
    )


def test_operations_that_cannot_be_planned_fail_the_run_at_once(asked):
    """G6, G11: no operation ran and no request was sent; the plan's error code is the reason."""
    circle = tuple(
        run_operation(one, order=1, text="a", after=other, when="after") for one, other in ("ab", "ba")
    )
    unchecked = OperationProfile.of("p").model_copy(update={"operations": circle})
    for options, code in (
        ({"profile": unchecked}, "CYCLE_DETECTED"),
        ({"profile": OperationProfile.of("p"), "run": RunOptions(concurrency=0)}, "INVALID_CONCURRENCY"),
    ):
        with pytest.raises(RunFailedError, match=code) as failed:
            asked.generate(**options)
        run = failed.value.run
        assert (run.status, run.failed_type) == (RunStatus.FAILED, FailedType.BEFORE_BARRIER)
        assert run.failed_details["errorCode"] == code
    assert asked.llm.asked == []


# --- forbidden effects


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("hook", Hook)
def test_a_forbidden_effect_is_recorded(asked, hook, required):
    """R41, R48, G21, G22: from a required operation it fails the run; the operation's other effects
    are applied."""
    wrong = {
        Hook.BEFORE: AssistantReplaceText(text="no reply yet"),
        Hook.AFTER: AppendAfterLastUser(role="system", content="too late"),
    }

    @asked.functions.register()
    def act(context, arguments):
        return [wrong[context.hook], ArtifactUpsert(tag="weather", value="rain")]

    when = hook.value.partition("_")[0]
    run, failed = run_of(
        asked,
        run_operation("it", "compute", order=1, function="act", when=when, required=required, tag="weather"),
    )
    (report,) = [one for one in run.reports if "entries" in one]
    assert [one["status"] for one in report["entries"]] == ["error", "applied"]
    assert report["entries"][0]["error"]["code"] == ErrorCode.POLICY
    assert failed is (required and hook is Hook.BEFORE)
    at = FailedType.BEFORE_BARRIER if hook is Hook.BEFORE else FailedType.AFTER_MAIN_LLM
    assert run.failed_type == (at if required else None)
    assert len(asked.llm.asked) == (0 if failed else 1)


# --- stopping


def test_a_run_aborted_before_the_barrier_sends_no_main_request(asked):
    """R32, G26, G27, G28: an operation that finishes after the abort is done, but commits nothing;
    no other operation starts."""
    abort = StopSignal()

    @asked.functions.register()
    def give_up(context, arguments):
        abort.set()
        return "done nevertheless"

    first = run_operation("first", "compute", order=1, function="give_up", tag="left", keep=True)
    run, failed = run_of(
        asked, first, run_operation("next", order=2, text="a", after="first"), run=RunOptions(abort=abort)
    )
    assert failed
    assert (run.status, run.failed_type) == (RunStatus.ABORTED, None)
    assert ended(run) == {"first": ("done", None), "next": ("skipped", "run_aborted")}
    assert run.reports == ()
    assert asked.llm.asked == []


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": 0, "abort": StopSignal()}, {"timeout": 60, "abort": StopSignal(deadline=0)}],
)
def test_a_run_that_exceeds_its_time_sends_no_main_request(asked, options):
    """R32, G28: by the run's timeout, or by the deadline of the caller's signal."""
    run, failed = run_of(asked, run_operation("it", order=1, text="a"), run=RunOptions(**options))
    assert failed
    assert run.status is RunStatus.ABORTED
    assert asked.llm.asked == []


# --- artifacts


def test_artifacts_live_between_runs_or_within_one(asked):
    """R6, R31, R50: `art.<tag>`; persisted artifacts exist in the next run, others do not."""
    notes = [
        run_operation("kept", order=1, text="{{ art.kept.value }}+", tag="kept", keep=True),
        run_operation("once", order=1, text="{{ art.once.value }}+", tag="once"),
        run_operation(
            "read",
            order=2,
            text="{{ art.kept.value }} {{ art.once.value }}",
            after=["kept", "once"],
            into="tail",
        ),
    ]
    run_of(asked, *notes)
    run, _ = run_of(asked, *notes, trigger="regenerate")
    assert run.prompt[-1].content == "++ +"


# --- codes


def test_every_code_is_in_lower_snake_case(asked):
    """G31, R39, R55: codes, reasons and types of failures have the same spelling, also in kinds of
    other packages."""
    given = [one.value for words in (ErrorCode, SkippedReason, FailedType) for one in words]
    assert [one for one in given if not SNAKE.fullmatch(one)] == []

    @asked.functions.register()
    def shout(context, arguments):
        raise OperationFailed("NO Weather!", "none today")

    operations = [
        run_operation("a", "compute", order=1, function="fail"),
        run_operation("b", "compute", order=1, function="nobody_has_it"),
        run_operation("c", order=1, text="{{ missing }}", strict_variables=True),
        run_operation("d", "guard", order=1, text="no JSON", engine="liquid", outputs=["is_it"]),
        run_operation("e", "llm", order=1, text="Is it?", output_mode="json"),
        run_operation("f", "tool", order=1, tool="nobody_has_it"),
        run_operation("g", order=2, text="a", after="a"),
        run_operation("h", "astrology", order=1),
        run_operation("i", "compute", order=3, function="shout"),
    ]
    run, _ = run_of(asked, *operations)
    told = {name: how for name, (status, how) in ended(run).items() if status != "done"}
    assert told.keys() == set("abcdefghi")
    assert {name: how for name, how in told.items() if not SNAKE.fullmatch(how)} == {}
