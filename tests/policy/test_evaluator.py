"""Evaluation of policies: the moments, the outcomes, and commits that are always kept."""

from __future__ import annotations

import threading

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError, StoreError
from tract_jupyter.policy import PolicyAction, PolicyWarning


class Notes:
    """A policy that returns the given actions and records its evaluations."""

    def __init__(self, *wanted, name="notes", **more):
        self.name = name
        self.wanted = list(wanted)
        self.looked = []
        for key, value in more.items():
            setattr(self, key, value)

    def evaluate(self, view):
        self.looked.append(view.moment)
        return self.wanted.pop(0) if self.wanted else None


def tagging(text="done", **more):
    return PolicyAction("register_tag", {"name": text, "description": ""}, "because", **more)


def outcomes(tract):
    return [event.event_type.removeprefix("policy.") for event in tract.policies.log()][::-1]


def tags(tract):
    return [tag.name for tag in tract.tags.list()]


def test_policies_are_evaluated_after_each_commit_in_order_of_priority(t):
    order = []

    class Noting:
        def __init__(self, name, priority):
            self.name, self.priority = name, priority

        def evaluate(self, view):
            order.append((self.name, view.new[-1].message if view.new else None))

    t.policies.add(Noting("later", 200))
    t.policies.add(Noting("earlier", 50))
    t.user("one")
    t.user("two")
    assert order == [("earlier", None), ("later", None), ("earlier", "two"), ("later", "two")]


def test_moments(t):
    policies = {one: Notes(name=one, fires_on=one) for one in ("commit", "compile", "turn")}
    for one in policies.values():
        t.policies.add(one)
    t.user("one")
    t.compile()
    assert [one.looked for one in policies.values()] == [["commit"], ["compile"], []]
    t.compile(at_commit="HEAD")  # not the current context
    t.configure_llm(ScriptedClient("hello"))
    t.chat("hi")
    assert [one.looked for one in policies.values()] == [["commit"] * 2, ["compile"] * 2, ["turn"]]


def test_within_a_batch_nothing_is_looked_at_and_once_after_it(t):
    notes = Notes()
    t.policies.add(notes)
    with t.batch():
        for number in range(5):
            t.user(str(number))
        with t.batch():
            t.user("inner")
        assert notes.looked == []
    assert notes.looked == ["commit"]


def test_a_batch_that_fails_fires_nothing(t):
    notes = Notes()
    t.policies.add(notes)
    with pytest.raises(ZeroDivisionError), t.batch():
        t.user(str(1 / len(t.user("lost").tags)))
    assert notes.looked == []


def test_each_level_tells_proposes_or_executes_the_action(t):
    told = []
    t.policies.evaluator.tell = told.append
    for level, outcome in (("manual", "told"), ("collaborative", "proposed"), ("autonomous", "executed")):
        t.autonomy.ceiling = level
        t.policies.add(Notes(tagging(level, autonomy="autonomous"), name=level))
        t.user("go")
        assert outcomes(t)[-1] == outcome
        assert (level in tags(t)) is (outcome == "executed")
    assert told == ["Policy manual would register_tag: because (Autonomy is manual: nothing was done.)"]
    assert t.status().waiting == 1


def test_the_lower_of_ceiling_and_policy_counts(t):
    t.policies.add(Notes(tagging(), name="asks"))  # collaborative by itself
    t.user("go")
    assert outcomes(t) == ["proposed"]
    (stored,) = t.review.inbox()
    assert (stored.actor, stored.triggered_by) == ("policy:asks", "policy asks")


@pytest.mark.parametrize(("ceiling", "action", "outcome"), [
    (None, PolicyAction("gc", autonomy="autonomous"), "proposed"),
    ("collaborative", PolicyAction("status"), "executed"),
])  # fmt: skip
def test_destructive_actions_are_proposed_at_every_level_and_read_only_ones_run(t, ceiling, action, outcome):
    t.autonomy.ceiling = ceiling or t.autonomy.ceiling
    t.policies.add(Notes(action))
    t.user("go")
    assert outcomes(t) == [outcome]


def test_a_proposal_is_made_once_while_it_is_open(t):
    t.policies.add(Notes(*[tagging(str(number)) for number in range(5)]))
    for _ in range(5):
        t.user("go")
    assert outcomes(t) == ["proposed"]
    assert t.status().waiting == 1


def test_a_rejected_one_is_made_again_only_when_its_condition_has_changed(t):
    level = Notes()
    level.evaluate = lambda _: level.now and tagging(condition=level.now)

    def reject():
        t.reviewer.asked_here(t.review.inbox()[0].pending_id).reject("not now")

    level.now = "80 %"
    t.policies.add(level)
    t.user("go")
    reject()
    for _ in range(3):
        t.user("go")
    assert (outcomes(t), t.status().waiting) == (["proposed"], 0)
    level.now = "90 %"
    t.user("more")
    assert (outcomes(t), t.status().waiting) == (["proposed"] * 2, 1)
    reject()
    level.now = None
    t.user("less")  # wants nothing, so the same action counts as new later
    level.now = "90 %"
    t.user("as before")
    assert outcomes(t) == ["proposed"] * 3


def test_an_executed_action_is_not_repeated_until_something_changes(t):
    t.policies.add(Notes(*[tagging(autonomy="autonomous")] * 5))
    for _ in range(5):
        t.user("go")
    assert outcomes(t) == ["executed"]


def test_a_commit_by_a_policy_fires_no_policy(t):
    class Committing:
        name = "committing"

        def evaluate(self, view):
            content = {"content_type": "dialogue", "role": "user", "text": f"by policy at {view.generation}"}
            return PolicyAction("commit", {"content": content}, autonomy="autonomous")

    t.policies.add(Committing())
    before = t.status().commit_count
    t.user("one")
    assert t.status().commit_count == before + 2


def test_a_commit_in_another_thread_fires_no_policy_during_an_action(t):
    ran = []

    class Threads:
        name = "threads"

        def evaluate(self, view):
            ran.append(view.moment)
            if len(ran) > 1:
                return None
            return PolicyAction("in_thread", autonomy="autonomous")

    @t.tool(open_world=True)
    def in_thread() -> str:
        """Commit in another thread."""
        thread = threading.Thread(target=lambda: t.user("from a thread"))
        thread.start()
        thread.join()
        return "done"

    t.policies.add(Threads())
    t.user("go")
    assert ran == ["commit"]
    assert outcomes(t) == ["began", "executed"]


@pytest.mark.parametrize(
    "wrong", [ZeroDivisionError("boom"), SystemExit("bye"), "no action", [tagging()] * 1_001]
)
def test_a_failed_policy_is_reported_once_and_the_commit_is_kept(t, wrong):
    class Failing:
        name = "failing"
        looked = 0

        def evaluate(self, view):
            self.looked += 1
            if isinstance(wrong, BaseException):
                raise wrong
            return wrong

    failing = Failing()
    t.policies.add(failing)
    with pytest.warns(PolicyWarning, match="policy 'failing': its evaluation failed"):
        t.user("one")
    t.user("two")  # reported once: here, warnings are errors
    assert (t.log()[0].message, failing.looked) == ("two", 2)
    assert outcomes(t) == ["failed"]


def test_however_many_things_it_wants_each_is_done_once(t):
    actions = [tagging(f"tag-{number}", about=f"{number}", autonomy="autonomous") for number in range(250)]

    class Many:
        name = "many"

        def evaluate(self, view):
            return actions

    t.policies.add(Many())
    for text in ("one", "two", "three"):
        t.user(text)
    assert len(t.policies.log(limit=1_000)) == 250


def test_an_action_that_fails_is_failed_and_never_executed(t):
    t.policies.add(Notes(PolicyAction("merge", {"source_branch": "nowhere"}, autonomy="autonomous")))
    with pytest.warns(PolicyWarning, match="'merge' failed.*nowhere"):
        t.user("one")
    assert outcomes(t) == ["failed"]
    assert "nowhere" in t.policies.log()[0].data["error"]
    assert t.policies.list()[0].last_outcome == "failed"


def test_the_commit_is_kept_if_warnings_are_errors(t):
    t.policies.add(Notes(PolicyAction("no_such_tool", autonomy="autonomous")))
    t.user("one")
    assert t.log()[0].message == "one"
    assert outcomes(t) == ["failed"]


def test_a_custom_policy_cannot_write_during_evaluation(t):
    caught = []

    class Writing:
        name = "writing"

        def evaluate(self, view):
            try:
                view.tract.user("by evaluate")
            except StoreError as error:
                caught.append(str(error))

    t.policies.add(Writing())
    t.user("one")
    assert [one.message for one in t.log()] == ["one", "first"]
    assert "a write cannot begin" in caught[0]


def test_pause_suspended_and_off(t):
    notes = Notes()
    t.policies.add(notes)
    t.policies.pause()
    t.user("one")
    t.policies.resume()
    with t.policies.suspended():
        t.user("two")
        t.compile()
    t.policies.off("notes")
    t.user("three")
    assert notes.looked == []
    t.policies.on("notes")
    t.user("four")
    assert notes.looked == ["commit"]


def test_cooldown(t, clock):
    actions = [tagging(str(number), autonomy="autonomous") for number in range(3)]
    notes = Notes(*actions, cooldown=60)
    t.policies.add(notes)
    t.user("one")
    t.user("two")
    assert len(notes.looked) == 1
    clock.forward(seconds=61)
    t.user("three")
    assert outcomes(t) == ["executed"] * 2


def test_a_handler_can_reject_the_action_of_a_policy(t):
    t.on("policy", lambda pending: pending.reject("not like this"))
    t.policies.add(Notes(tagging(autonomy="autonomous")))
    t.user("one")
    assert outcomes(t) == ["began", "rejected"]
    assert tags(t) == []


@pytest.mark.parametrize("level", ["manual", "collaborative", "autonomous"])
@pytest.mark.parametrize("operation", ["policy", "*"])
@pytest.mark.parametrize(
    ("decide", "came"),
    [
        (lambda pending: pending.approve(), (["began", "executed"], True)),
        (lambda pending: pending.reject("not like this"), (["began", "rejected"], False)),
    ],
)
def test_handlers_decide_first_at_every_level(t, level, operation, decide, came):
    t.autonomy.ceiling = level
    seen = []

    def handler(pending):
        if pending.operation == "policy":
            seen.append(pending.action_type)
            decide(pending)

    t.on(operation, handler)
    t.policies.add(Notes(tagging(autonomy=level)))
    t.user("one")
    assert seen == ["register_tag"]
    assert (outcomes(t), "done" in tags(t)) == came
    assert t.review.inbox() == []


@pytest.mark.parametrize(
    ("level", "last", "waits"),
    [("manual", "told", 0), ("collaborative", "proposed", 1), ("autonomous", "executed", 0)],
)
def test_a_call_that_no_handler_takes_goes_its_usual_way(t, level, last, waits):
    t.autonomy.ceiling = level
    seen = []

    def handler(pending):
        seen.append(pending)
        pending.pass_through()

    t.on("policy", handler)
    t.policies.add(Notes(tagging(autonomy=level)))
    t.user("one")
    t.user("two")
    assert outcomes(t) == ["began", last]
    assert len(t.review.inbox()) == waits
    if waits:
        seen[0].approve()
        assert tags(t) == ["done"]


def test_a_handler_that_leaves_a_call_open_leaves_one_proposal(t):
    t.on("policy", lambda pending: None)
    t.policies.add(Notes(tagging(autonomy="collaborative")))
    t.user("one")
    t.user("two")
    assert outcomes(t) == ["began", "proposed"]
    assert [stored.title for stored in t.review.inbox()] == ["Policy notes: register_tag"]


def test_the_journal_and_the_effect_are_one_transaction(t, monkeypatch):
    append = t._repository.events.append

    def failing(connection, event_type, *rest):
        append(connection, event_type, *rest)
        if event_type == "policy.executed":
            raise StoreError("full")

    t.policies.add(Notes(tagging(autonomy="autonomous")))
    monkeypatch.setattr(t._repository.events, "append", failing)
    with pytest.warns(PolicyWarning, match="full"):
        t.user("one")
    assert (tags(t), outcomes(t)) == ([], ["failed"])


def test_several_reasons_for_the_same_are_one_firing(t):
    one = PolicyAction("register_tag", {"name": "x", "description": ""}, "one.", "autonomous", "a", "1")
    two = PolicyAction("register_tag", {"name": "x", "description": ""}, "two.", "autonomous", "b", "1")
    t.policies.add(Notes([one, two]))
    t.user("go")
    assert [event.data["reason"] for event in t.policies.log()] == ["one. two."]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (object(), "a policy must be an object with a name"),
        (Notes(name=""), "use 1 to"),
        (Notes(fires_on="sometimes"), "fires_on"),
        (Notes(priority="high"), "the priority of a policy must be a whole number"),
        ("compres", "unknown policy type 'compres'.*compress"),
    ],
)
def test_an_invalid_policy_is_refused(t, policy, words):
    with pytest.raises(ContentError, match=words):
        t.policies.add(policy)
    assert t.policies.list() == []


def test_wrong_actions_are_refused():
    for wrong in (
        {"action_type": ""},
        {"action_type": "x", "params": 3},
        {"action_type": "x", "autonomy": "some"},
    ):
        with pytest.raises(ContentError):
            PolicyAction(**wrong)
