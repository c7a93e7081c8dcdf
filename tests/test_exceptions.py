from __future__ import annotations

import inspect
import pickle
import re

import pytest

from tract_jupyter import exceptions
from tract_jupyter.analysis import EffectsError, RuleSettingsError
from tract_jupyter.exceptions import (
    ProfileError,
    RejectedError,
    SandboxError,
    ScriptRaisedError,
    SpecError,
    ToolExecutionError,
    TractError,
    in_one_line,
    nearest,
)

CLASSES = {
    name: kind
    for name, kind in vars(exceptions).items()
    if inspect.isclass(kind) and issubclass(kind, BaseException)
}


def drawn():
    """Return (class, parent) for each class in the tree in the module's docstring."""
    stack, found = [], {}
    for line in (exceptions.__doc__ or "").splitlines():
        match = re.match(r"([│ ├└─]*)([A-Z]\w*Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            del stack[depth:]
            assert match[2] not in found, f"{match[2]} is drawn twice"
            found[match[2]] = stack[-1] if stack else None
            stack.append(match[2])
    return found


def test_the_class_tree_in_the_docstring_is_correct():
    ours = {name: next((base.__name__ for base in kind.__bases__ if issubclass(base, TractError)), None)
            for name, kind in CLASSES.items()}  # fmt: skip
    assert drawn() == ours
    assert len(ours) > 20


def test_every_exception_class_has_a_docstring():
    assert all(kind.__doc__ for kind in CLASSES.values())
    assert not any(
        issubclass(kind, BaseException) and not issubclass(kind, TractError) for kind in CLASSES.values()
    )


@pytest.mark.parametrize(("options", "text"), [
    ({}, "wrong"),
    ({"line": 3}, "line 3: wrong"),
    ({"action": "go"}, "action 'go': wrong"),
    ({"line": 3, "action": "go"}, "action 'go', line 3: wrong"),
])  # fmt: skip
def test_a_spec_error_shows_its_action_and_line(options, text):
    assert str(SpecError("wrong", **options)) == text


def test_a_tool_error_shows_its_call_in_short():
    error = ToolExecutionError("f", {"text": "x" * 10**6, "n": 1, "rest": list(range(50))}, "it broke")
    assert len(str(error)) < 200
    assert str(error).startswith("f(text='xxx")
    assert str(error).endswith("failed: it broke")
    assert (error.tool, error.reason, error.arguments["n"]) == ("f", "it broke", 1)


def test_a_tool_error_shows_a_placeholder_for_a_value_without_repr():
    assert str(ToolExecutionError("f", {"n": 10**5000}, "it broke")).startswith(
        "f(n=<int that cannot be shown>)"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("topci", " Did you mean 'topic'?"), ("TOPIC", " Did you mean 'topic'?"), ("zzz", ""), ("", "")],
)
def test_the_nearest_name_is_offered(name, hint):
    assert nearest(name, ["main", "topic"]) == hint


MADE = {
    "SpecError": lambda kind: kind("odd", line=3, action="go"),
    "ParameterError": lambda kind: kind("fields of x", ["a", "b"]),
    "ToolExecutionError": lambda kind: kind("t", {"a": 1}, "r"),
    "ToolDeniedError": lambda kind: kind("t", {"a": 1}, "r"),
    "LLMRequestError": lambda kind: kind("busy", code="rate_limited", status=429, retry_after=2.5),
    "AgentError": lambda kind: kind("limit", "too many", ["a", "b"]),
    "PlanError": lambda kind: kind("cycle", "they wait for each other", ["a", "b"]),
    "ProfileError": lambda kind: kind([("P1", "operations", "none")]),
    "RunFailedError": lambda kind: kind("it failed", {"id": "r"}),
    "ScriptRaisedError": lambda kind: kind("it raised", [1], "line 1"),
    "TemplateError": lambda kind: kind("odd", 3),
}


def shown(error):
    return type(error), str(error), error.args, vars(error)


@pytest.mark.parametrize("kind", [*CLASSES.values(), EffectsError, RuleSettingsError])
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_errors_travel_between_processes(kind, protocol):
    error = MADE.get(kind.__name__, lambda kind: kind("what happened"))(kind)
    error.add_note("more about it")
    assert shown(pickle.loads(pickle.dumps(error, protocol))) == shown(error)


def test_values_that_cannot_be_pickled_become_text(tract):
    error = ToolExecutionError("t", {"by": tract, "n": 1}, "r")
    error.sent_by = lambda: None
    in_one_line(error, "short")  # for the display in the notebook
    arrived = pickle.loads(pickle.dumps(error))
    assert (str(arrived), arrived.tool, arrived.reason) == (str(error), "t", "r")
    assert isinstance(arrived.arguments, str)
    assert arrived.sent_by.startswith("<function")
    assert arrived._render_traceback_()[-1] == f"ToolExecutionError: {error}"


def test_an_error_of_a_refusal_travels_without_its_pending(tract):
    tract.on("gc", lambda pending: pending.reject("not now"))
    with pytest.raises(RejectedError) as caught:
        tract.gc(orphan_retention_days=0)
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert str(arrived) == str(caught.value)
    assert isinstance(arrived.pending, str)


@pytest.mark.parametrize(
    ("typed", "known", "hint"), [("nope", "open", ""), ("ulrs", "urls", " Did you mean 'urls'?")]
)
def test_a_hint_is_near(typed, known, hint):
    assert nearest(typed, [known]) == hint


def test_a_problem_of_a_profile_names_its_field_once():
    told = str(
        ProfileError(
            [("profile_id", "profile, profileId", "profileId is missing"), ("name", "profile, name", "no")]
        )
    )
    assert told == "profile: profileId is missing\nprofile, name: no"


HOSTILE = "a\x1b]8;;https://evil.example\x07b\u202ec"


@pytest.mark.parametrize(
    "kind", [TractError, SandboxError, ScriptRaisedError], ids=lambda kind: kind.__name__
)
def test_foreign_text_in_errors_has_no_control_or_direction_characters(kind):
    more = {ScriptRaisedError: (None, HOSTILE), SandboxError: (HOSTILE,)}.get(kind, ())
    error = kind(HOSTILE, *more)
    error.__cause__ = ValueError(HOSTILE)
    lines = error._render_traceback_()
    in_one_line(error, HOSTILE)
    for line in (*lines, *error._render_traceback_()):
        assert not set(line) & set("\x1b\x07\u202e")
    assert any("evil.example" in line for line in lines)
