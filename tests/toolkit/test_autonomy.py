"""Autonomy: levels and their permissions, the ceiling, the right to raise it, and stored settings."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import CodeDecisionError, ContentError, FingerprintError
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.toolkit import Permission, Toolset, get_profile

MANUAL, COLLABORATIVE, AUTONOMOUS = AutonomyLevel
ALLOW, ASK, DENY = Permission.ALLOW, Permission.ASK, Permission.DENY
SANDBOXED = {"go": {"code": "pending.approve()", "isolation": "sandbox"}}


@pytest.fixture
def t(tract):
    """A tract with tools that read, write and destroy, and with the highest ceiling."""

    @tract.tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    @tract.tool
    def note(text: str) -> str:
        """Note."""
        return f"noted {text}"

    @tract.tool(destructive=True)
    def burn() -> str:
        """Burn."""
        return "burnt"

    tract.autonomy.ceiling = "autonomous"
    return tract


@pytest.fixture
def level():
    """The level of `acting`. A test can change it."""
    return [AUTONOMOUS]


@pytest.fixture
def acting(t, level):
    """A toolset that acts at a level."""
    permission = t.autonomy.at(lambda: level[0])
    return Toolset(t.executor, get_profile("self"), actor="orchestrator", permission=permission)


def permitted(t, level):
    return [t.autonomy.permission(t.executor.get(name), level, "me") for name in ("look", "note", "burn")]


def test_each_level_has_its_permissions(t):
    assert permitted(t, MANUAL) == [ALLOW, DENY, DENY]
    assert permitted(t, COLLABORATIVE) == [ALLOW, ASK, ASK]
    assert permitted(t, AUTONOMOUS) == [ALLOW, ALLOW, ASK]
    t.autonomy.allows_destructive = True
    assert permitted(t, AUTONOMOUS) == [ALLOW, ALLOW, ALLOW]
    assert permitted(t, COLLABORATIVE) == [ALLOW, ASK, ASK]


def test_a_ceiling_below_the_level_limits_it(t):
    for ceiling in AutonomyLevel:
        t.autonomy.ceiling = ceiling
        assert t.autonomy.effective("autonomous") is ceiling
        assert permitted(t, AUTONOMOUS) == permitted(t, ceiling)
    t.autonomy.ceiling = AUTONOMOUS
    assert t.autonomy.effective(AUTONOMOUS, COLLABORATIVE, AUTONOMOUS) is COLLABORATIVE


@pytest.mark.parametrize("said", list(Permission))
def test_autonomy_does_not_widen_a_custom_permission(t, said):
    t.executor.permission = lambda *_: said
    t.autonomy.allows_destructive = True
    assert permitted(t, AUTONOMOUS) == [said] * 3
    assert permitted(t, MANUAL) == [said, DENY, DENY]


def test_a_tool_that_makes_its_own_request_is_allowed_above_manual(t):
    asks = t.executor.get("propose_operation")
    assert [t.autonomy.permission(asks, level, "me") for level in AutonomyLevel] == [DENY, ALLOW, ALLOW]


def test_lowering_it_counts_at_the_next_call(t, acting, level):
    assert acting.execute("note", {"text": "a"}).output == "noted a"
    t.autonomy.ceiling = "manual"
    told = acting.execute("note", {"text": "b"})
    assert (told.success, told.denied) == (False, True)
    assert told.error.startswith("reported, not run: autonomy is manual")
    assert acting.execute("look", {}).output == "seen"
    t.autonomy.ceiling, level[0] = "autonomous", MANUAL
    assert "reported, not run" in acting.execute("note", {"text": "b"}).error
    level[0] = COLLABORATIVE
    t.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
    assert "no" in acting.execute("note", {"text": "b"}).error


def test_an_approval_is_refused_if_the_level_changed_to_manual(t, acting, level):
    level[0] = COLLABORATIVE
    prepared = acting.prepare("note", {"text": "a"})
    level[0] = MANUAL
    with pytest.raises(FingerprintError, match="reported, not run"):
        prepared.question.approve()


def test_a_locked_tool_stays_locked(t, acting):
    t.executor.lock_tool("note", "not today")
    assert "not today" in acting.execute("note", {"text": "a"}).error


def test_the_error_of_a_denied_permission_does_not_mention_the_level(t, acting):
    t.executor.permission = lambda *_: DENY
    assert acting.execute("note", {"text": "a"}).error == "orchestrator has no permission to call 'note'"


def test_by_default_a_person_is_asked(tract):
    assert (tract.autonomy.ceiling, tract.autonomy.allows_destructive) == ("collaborative", False)


@pytest.mark.parametrize("level", ["total", None, 3, ""])
def test_an_unknown_level_is_refused(t, level):
    with pytest.raises(
        ContentError, match="is not a level of autonomy; use one of manual, collaborative, autonomous"
    ):
        t.autonomy.ceiling = level
    with pytest.raises(ContentError, match="is not a level"):
        t.autonomy.effective(level)
    with pytest.raises(ContentError, match="must be True or False, not 'yes'"):
        t.autonomy.allows_destructive = "yes"
    assert t.autonomy.ceiling == "autonomous"


# --- stored


def test_autonomy_settings_are_stored_and_logged(own_store):
    with Tract.open(url=own_store) as t:
        t.autonomy.ceiling = "autonomous"
        t.autonomy.allows_destructive = True
        assert [event.data["ceiling"] for event in t.events("settings.saved")] == ["autonomous"] * 2
        with Tract.open(url=own_store) as other:
            assert (other.autonomy.ceiling, other.autonomy.allows_destructive) == ("autonomous", True)
            other.autonomy.ceiling = "manual"
        assert t.autonomy.ceiling == "manual"


@pytest.mark.parametrize(
    ("ceiling", "counts"), [("autonomous", "collaborative"), ("manual", "manual"), ("sky", "collaborative")]
)
def test_settings_with_an_invalid_signature_allow_no_more_than_the_defaults(tmp_path, ceiling, counts):
    path = tmp_path / "t.db"
    with Tract.open(path) as t:
        t.autonomy.ceiling = "collaborative"
        t.autonomy.allows_destructive = True
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE settings SET settings_json = replace(settings_json, 'collaborative', ?)", [ceiling]
        )
        connection.commit()
    with Tract.open(path) as t:
        is_own = ceiling == "collaborative"
        assert (t.autonomy.ceiling, t.autonomy.allows_destructive) == (counts, is_own)


# --- raising the ceiling


def test_a_tool_call_cannot_raise_it_and_may_lower_it(tract):
    @tract.tool(read_only=True)
    def escape() -> str:
        """Raise it."""
        tract.autonomy.ceiling = "manual"
        for name, value in (("ceiling", "autonomous"), ("allows_destructive", True)):
            with pytest.raises(CodeDecisionError, match="only the user can raise autonomy"):
                setattr(tract.autonomy, name, value)
        return "tried"

    script = tract.scripts.run("print(tools.escape())")
    assert "tried" in script.text
    assert tract.autonomy.ceiling == "manual"


# --- definitions by a model


@pytest.mark.parametrize(("ceiling", "reviewed"), [("collaborative", True), ("autonomous", False)])
def test_a_models_sandboxed_operation_needs_approval_below_autonomous(tract, ceiling, reviewed):
    tract.autonomy.ceiling = ceiling
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    result = tract.toolset("full", actor="agent:7").execute(
        "propose_operation", {"name": "fresh", "actions": SANDBOXED}
    )
    assert result.output["reviewed"] is reviewed
    assert bool(tract.reviewer.channel.shown) is reviewed


def test_a_models_operation_also_depends_on_the_level_of_the_model(t, acting, level):
    level[0] = COLLABORATIVE
    supervising = acting.with_profile(get_profile("supervisor"))
    result = supervising.execute("propose_operation", {"name": "fresh", "actions": SANDBOXED})
    assert "waits in the inbox" in result.error
    assert t.status().operations == ()
