"""Kernel scripts that are rehearsed first: kept, run, changed, or sent to the model without a request."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rehearsed import CLEANING, FAILED, LOOK, REFUSED
from tests.scripts.rehearsals import FakeChange, rehearse_in
from tract_jupyter.exceptions import AdminLimitError, GrantError, PendingStateError, RehearsalError
from tract_jupyter.models import PendingStatus
from tract_jupyter.rehearsal import Effects, Output, VariableEffect
from tract_jupyter.review import CHAT, KEEP, deciding
from tract_jupyter.scripts import LOOKS, MOST_LOOKED, PendingScript, looking
from tract_jupyter.toolkit import changed_context


@pytest.fixture
def user(tract):
    """The user's variables."""
    tract.scripts.notebooks.user_namespace = {"n": [1, 2, 3]}
    return tract.scripts.notebooks.user_namespace


@pytest.fixture
def rehearser(tract, user, monkeypatch):
    monkeypatch.setattr("tract_jupyter.scripts.rehearsing.Watch", lambda *_: Watched())
    return rehearse_in(tract)


class Watched:
    """The watch of a run that changed `n`."""

    def finish(self, expected):
        databases = [name for name in expected if name == "con"]
        return FakeChange("change-2", variables=("n", *databases), certainty="named only")


@pytest.fixture
def call(tract):
    def execute(code, actor=CHAT):
        arguments = {"code": code, "backend": "kernel", "notebook_id": "user"}
        return tract.executor.execute("notebook_execute", arguments, actor=actor)

    return execute


def answers(tract, *steps):
    tract.reviewer.channel = FakeChannel(
        *[
            lambda ticket, step=step: click(ticket, *step[:1], **dict(step[1:]))
            for step in [(s,) if isinstance(s, str) else s for s in steps]
        ]
    )
    return tract.reviewer.channel


def test_keep_adopts_the_effects_and_runs_nothing(tract, user, rehearser, call):
    rehearser.values["k = boom()"] = {"k": 5}
    channel = answers(tract, "keep")
    result = call("k = boom()").output
    assert (result["status"], user["k"]) == ("completed", 5)
    request, _ = channel.shown[0]
    assert request.effects == rehearser.made[0].effects
    assert [action.label for action in request.actions] == ["Keep", "Run in the kernel", "Reject"]
    assert request.main_action.name == "keep"
    (script,) = tract.scripts.results
    assert (script.is_kept, script.change.change_id) == (True, "change-1")


def test_a_request_waits_for_the_user_from_the_end_of_its_rehearsal_on(tract, rehearser, call, monkeypatch):
    rehearse, ended = rehearser.rehearse, []

    def slow(*args, **options):
        done = rehearse(*args, **options)
        ended.append(datetime.now(UTC))
        return done

    monkeypatch.setattr(rehearser, "rehearse", slow)
    answers(tract, "keep")
    call("k = 1")
    (decision,) = tract.review.decisions()
    assert tract.reviewer.ledger.get(decision.pending_id).created_at >= ended[0]


def test_the_model_gets_the_output_of_the_rehearsal(tract, rehearser, call):
    table = Output("result", "2 rows", {"text/html": "<table></table>"})
    rehearser.effects["look()"] = replace(LOOK, outputs=(Output("text", "12 spellings\n"), table))
    answers(tract, "keep")
    result = call("look()").output
    assert (result["output"], result["result"]) == ("12 spellings\n", "2 rows")


def test_run_in_the_kernel_runs_the_code_and_says_a_difference(tract, user, rehearser, call):
    rehearser.values["n.append(4)"] = {"k": 5}
    answers(tract, "approve")
    result = call("n.append(4)").output
    assert user == {"n": [1, 2, 3, 4], **{name: user[name] for name in user if name != "n"}}
    assert result["notes"] == ["The run differs from the rehearsal: it also changed n; it did not change k."]
    assert rehearser.made[0].is_discarded
    assert tract.scripts.results[-1].change.certainty == "named only"


def test_a_changed_database_is_no_difference(tract, user, rehearser, call):
    problem = "a DuckDBPyConnection has no safe form"
    effect = VariableEffect("con", "changed", "DuckDBPyConnection", "DuckDBPyConnection", problem=problem)
    user["con"] = object()
    rehearser.effects["n.append(4)"] = replace(LOOK, variables=(effect,))
    answers(tract, "approve")
    result = call("n.append(4)").output
    assert result["notes"] == ["The run differs from the rehearsal: it also changed n."]
    assert tract.scripts.results[-1].change.variables == ("n", "con")


def test_reject_changes_nothing(tract, user, rehearser, call):
    rehearser.values["k = 1"] = {"k": 1}
    answers(tract, "reject")
    assert call("k = 1").denied
    assert "k" not in user
    assert rehearser.made[0].is_discarded


def test_a_script_that_failed_sends_its_error_and_keeps_nothing(tract, user, rehearser, call):
    rehearser.effects["df['mont']"] = replace(
        FAILED, variables=(VariableEffect("half", "created", "", "int"),)
    )
    channel = answers(tract, "keep")
    result = call("df['mont']").output
    assert (result["status"], "half" in user) == ("failed", False)
    assert result["output"].endswith("KeyError: 'mont'\n")
    assert "Nothing was changed" in result["notes"][0]
    assert channel.shown[0][0].main_action.label == "Send the error"


@pytest.mark.parametrize(
    "effects",
    [
        REFUSED,
        replace(LOOK, ending="limit"),
        replace(LOOK, variables=(VariableEffect("m", "created", "", "Model", problem="no safe form"),)),
    ],
    ids=["refused", "limit", "no safe form"],
)
def test_effects_that_cannot_be_kept_leave_only_the_run(tract, rehearser, call, effects):
    rehearser.effects["x"] = effects
    channel = answers(tract, "reject")
    call("x")
    request, _ = channel.shown[0]
    assert [action.name for action in request.actions] == ["approve", "reject"]
    assert request.main_action.label == "Run in the kernel"
    pending = tract.scripts.rehearse("x")
    with pytest.raises(PendingStateError, match="cannot be kept"):
        pending.keep()


def test_changed_code_is_rehearsed_and_asked_again(tract, user, rehearser, call):
    rehearser.values |= {"k = 1": {"k": 1}, "k = 2": {"k": 2}}
    channel = answers(tract, ("approve", ("edits", {"code": "k = 2"})), "keep")
    result = call("k = 1").output
    assert user["k"] == 2
    assert result["changed_by_the_person"] == "k = 2"
    (first, _), (second, _) = [shown for shown in channel.shown if shown[1] == "pending"]
    assert second.note == "The changed code was rehearsed. These are its effects."
    assert first.fingerprint != second.fingerprint
    assert second.effects == rehearser.made[1].effects
    assert rehearser.made[0].is_discarded


def test_a_change_since_the_rehearsal_is_rehearsed_and_asked_again(tract, user, rehearser, call):
    rehearser.values["k = 1"] = {"k": 1}

    def changed(ticket):
        rehearser.made[0].changed = ("n", "data.csv")
        click(ticket, "keep")

    tract.reviewer.channel = channel = FakeChannel(changed, lambda ticket: click(ticket, "keep"))
    assert call("k = 1").success
    notes = [request.note for request, status in channel.shown if status == "pending"]
    assert notes[1].startswith("Changed since the rehearsal: n, data.csv. The code was rehearsed again")
    assert (user["k"], len(rehearser.made)) == (1, 2)


def test_an_approval_counts_for_exactly_these_effects(tract, rehearser):
    first = tract.scripts.rehearse("k = 1")
    rehearser.effects["k = 1"] = LOOK
    second = tract.scripts.rehearse("k = 1")
    assert first.fingerprint != second.fingerprint


def test_a_script_that_cannot_be_rehearsed_is_reviewed_as_usual_with_the_reason(tract, user, rehearser, call):
    rehearser.why_not = "This machine has no user namespaces."
    channel = answers(tract, "approve")
    assert call("n.append(4)").success
    request, _ = channel.shown[0]
    assert request.effects is None
    assert [action.label for action in request.actions] == ["Run", "Reject"]
    assert request.why.startswith("Not rehearsed: ")
    with pytest.raises(RehearsalError, match="was not rehearsed"):
        tract.scripts.rehearse("1")


def test_switched_off_nothing_is_rehearsed(tract, user, rehearser, call):
    tract.scripts.rehearsing.is_on = False
    channel = answers(tract, "approve")
    assert call("n.append(4)").success
    assert rehearser.made == []
    assert channel.shown[0][0].why.startswith("The model wrote this code.")


def test_code_can_rehearse_keep_and_run(tract, user, rehearser):
    rehearser.values["k = 1"] = {"k": 1}
    pending = tract.scripts.rehearse("k = 1")
    assert isinstance(pending, PendingScript)
    assert [effect.name for effect in pending.effects.variables] == ["k"]
    assert pending.keep().is_kept
    assert (user["k"], pending.status) == (1, PendingStatus.APPROVED)
    assert tract.scripts.rehearse("n.append(9)").approve().succeeded
    assert user["n"][-1] == 9


def test_the_model_is_told_which_drawings_are_left_out(tract, rehearser, call):
    drawn = tuple(VariableEffect(name, "created", "", "Figure", is_left_out=True) for name in ("fig", "ax"))
    rehearser.effects["plot()"] = Effects(variables=drawn)
    answers(tract, "keep")
    (note,) = call("plot()").output["notes"]
    assert note.startswith("Figures and axes cannot be kept, so fig, ax did not change.")


def test_reading_tools_are_answered_and_others_end_the_rehearsal(tract, rehearser):
    written = []
    tract.tool(lambda: 7, name="look", description="Look.", read_only=True)
    tract.tool(lambda: written.append(1), name="write", description="Write.")
    rehearser.calls = [("look", {}), ("write", {}), ("nothing", {})]
    pending = tract.scripts.rehearse("tools.look()")
    look, write, nothing = rehearser.replies
    assert (look.value, look.error, look.needs_approval) == (7, "", False)
    assert (write.value, write.needs_approval) == (None, True)
    assert "no tool" in nothing.error
    assert written == []
    assert pending.keep().call_count == 1


def test_code_that_uses_objects_of_this_package_is_not_rehearsed(tract, user, rehearser, call):
    user["t"] = tract
    channel = answers(tract, "reject")
    call("t.user('x')")
    assert channel.shown[0][0].why.startswith("Not rehearsed: the code uses `t`")
    assert rehearser.made == []
    assert tract.scripts.hidden_names == {"t"}


def test_imports_of_tools_are_assignments_in_the_copy(tract, rehearser):
    assert tract.scripts.rehearse("from tools import status\nimport json").effects
    assert rehearser.made[0].code == "status = tools.status\nimport json"


# --- read-only scripts without a request


@pytest.fixture
def on(tract, rehearser):
    """The user allows the model to look without asking."""
    tract.reviewer.channel = FakeChannel()
    tract.review.grants.begin_rule(looking(), KEEP)
    rehearser.effects |= {"look()": LOOK, "fail()": FAILED}
    return tract


def asked(tract):
    return [request.code[0].code for request, _ in tract.reviewer.channel.shown]


def test_looking_without_asking_is_off_by_default_and_offered_in_the_request(tract, rehearser, call):
    rehearser.effects["look()"] = LOOK
    channel = answers(tract, "keep")
    call("look()")
    request, _ = channel.shown[0]
    assert request.subject.rule == LOOKS == "Let the model look without asking, in this session"
    assert request.main_action.label == "Send the output"


@pytest.mark.parametrize("code", ["look()", "fail()"])
def test_a_look_goes_to_the_model_without_a_request(on, call, code):
    result = call(code)
    assert result.success
    assert asked(on) == []
    (decision,) = on.review.decisions()
    assert (decision.channel, decision.action) == ("grant", "keep")
    (grant,) = on.review.grants.all()
    assert (grant.covers, grant.uses, grant.action) == (LOOKS, 1, "keep")


@pytest.mark.parametrize("effects", [CLEANING, REFUSED, replace(LOOK, ending="limit")])
def test_a_script_with_effects_needs_approval(on, rehearser, call, effects):
    rehearser.effects["x"] = effects
    answers(on, "reject")
    assert call("x").denied
    assert asked(on)[0] == "x"


@pytest.mark.parametrize("actor", ["agent:1", "agent:chat/x", "orchestrator", "mcp"])
def test_only_the_model_of_the_conversation_may_look(on, call, actor):
    answers(on, "reject")
    assert call("look()", actor).denied


def test_more_output_than_a_turn_may_send_is_asked_about(on, rehearser, call):
    rehearser.effects["big()"] = Effects(outputs=(Output("text", "x" * (MOST_LOOKED - 20)),))
    with changed_context(effects=on.effects.recorder(lambda: "a turn")):
        assert call("big()").success
    with changed_context(effects=on.effects.recorder(lambda: "a turn")):  # a resumed turn
        channel = answers(on, "reject")
        assert call("look()").success  # 14 more characters
        assert call("big()").denied
    request, _ = channel.shown[0]
    assert request.why.startswith(
        f"Asked because the model may get {MOST_LOOKED:,} characters per turn without a request."
    )
    assert request.subject is None


def test_output_that_looks_like_a_key_is_asked_about(on, rehearser, call):
    key = "sk-proj-" + "a1B2c3D4" * 6
    rehearser.effects["look()"] = replace(LOOK, outputs=(Output("text", f"api_key = {key}"),))
    channel = answers(on, "reject")
    assert call("look()").denied
    assert channel.shown[0][0].subject is None


def test_a_key_at_the_end_of_long_output_is_asked_about(on, rehearser, call):
    key = "sk-proj-" + "a1B2c3D4" * 6
    text = "x\n" * 30_000 + f"api_key = {key}\n" + "x\n" * 1_000
    rehearser.effects["look()"] = replace(LOOK, outputs=(Output("text", text),))
    answers(on, "reject")
    assert call("look()").denied


def test_all_texts_that_the_code_chooses_count_as_output(on, rehearser, call):
    """A copy chooses the note of its error, also without a traceback."""
    rehearser.effects |= {
        f"fail({n})": Effects(ending="raised", ending_note=f"E{n}: {'x ' * 950}") for n in range(12)
    }
    answers(on, *["reject"] * 12)
    with changed_context(effects=on.effects.recorder(lambda: "a turn")):
        denied = [call(f"fail({n})").denied for n in range(12)]
    assert denied == [False] * 10 + [True] * 2


def test_names_of_drawings_in_a_note_are_cut(on, rehearser, call):
    names = [f"v{n:03}_{'x' * 190}" for n in range(300)]
    drawings = tuple(VariableEffect(name, "created", "", "Figure", is_left_out=True) for name in names)
    rehearser.effects["fail()"] = replace(FAILED, variables=drawings)
    text = str(call("fail()").output)
    assert names[0] in text
    assert names[-1] not in text
    assert len(text) < 2_000


def test_a_click_lets_the_model_look_from_then_on(tract, rehearser, call, monkeypatch):
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})
    rehearser.effects["look()"] = LOOK
    answers(tract, ("keep", ("approval:", {"scope": "session"})))
    assert call("look()").success
    assert tract.review.grants.has_rule()
    answers(tract)
    assert call("look()").success
    assert asked(tract) == []


@pytest.mark.parametrize("terms", [{"scope": "always"}, {"scope": "session", "whom": "anybody"}])
def test_no_more_than_looking_in_this_session_is_given(tract, rehearser, call, monkeypatch, terms):
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})
    rehearser.effects["look()"] = LOOK
    answers(tract, ("keep", ("approval:", terms)), "reject")
    call("look()")
    assert not tract.review.grants.has_rule()


def test_the_permission_to_look_can_be_ended(on, call):
    assert on.review.grants.end_rules() == 1
    assert on.review.grants.end_rules() == 0
    answers(on, "reject")
    assert call("look()").denied


def test_the_permission_to_look_ends_with_the_process(on, call, monkeypatch):
    monkeypatch.setattr("tract_jupyter.review.grants.this_process", lambda: "another")
    answers(on, "reject")
    assert call("look()").denied


@pytest.mark.parametrize("limits", ["looking = false", "looking = 0"])
def test_the_administrator_can_forbid_looking_without_asking(on, call, admin_file, limits):
    assert call("look()").success
    admin_file.write_text(limits)
    channel = answers(on, "reject", "reject")
    assert call("look()").denied
    assert channel.shown[0][0].subject is None  # so the request offers no standing approval
    on.review.grants.end_rules()
    with pytest.raises(AdminLimitError, match="administrator"):
        on.review.grants.begin_rule(looking(), KEEP)
    assert not on.review.grants.has_rule()


def test_a_model_cannot_allow_looking_without_asking(tract):
    with deciding("model", "model:x"), pytest.raises(GrantError, match="only the user"):
        tract.review.grants.begin_rule(looking(), KEEP)
