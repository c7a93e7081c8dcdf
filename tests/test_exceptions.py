from __future__ import annotations

import inspect
import pickle
import re

import pytest

from tract_jupyter import exceptions
from tract_jupyter.exceptions import SpecError, ToolExecutionError, TractError, nearest

CLASSES = {
    name: kind
    for name, kind in vars(exceptions).items()
    if inspect.isclass(kind) and issubclass(kind, BaseException)
}


def drawn():
    """(class, parent) for each class in the tree at the top of the module."""
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


def test_the_tree_is_drawn_as_it_is():
    ours = {name: next((base.__name__ for base in kind.__bases__ if issubclass(base, TractError)), None)
            for name, kind in CLASSES.items()}  # fmt: skip
    assert drawn() == ours
    assert len(ours) > 20


def test_every_class_says_what_it_is_for():
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
def test_a_spec_error_says_where(options, text):
    assert str(SpecError("wrong", **options)) == text


def test_a_tool_error_shows_its_call_in_short():
    error = ToolExecutionError("f", {"text": "x" * 10**6, "n": 1, "rest": list(range(50))}, "it broke")
    assert len(str(error)) < 200
    assert str(error).startswith("f(text='xxx")
    assert str(error).endswith("failed: it broke")
    assert (error.tool, error.reason, error.arguments["n"]) == ("f", "it broke", 1)


def test_a_tool_error_shows_what_has_no_repr():
    assert str(ToolExecutionError("f", {"n": 10**5000}, "it broke")).startswith(
        "f(n=<int that cannot be shown>)"
    )


@pytest.mark.parametrize(("name", "hint"), [("topci", " Did you mean 'topic'?"), ("zzz", ""), ("", "")])
def test_the_nearest_name_is_offered(name, hint):
    assert nearest(name, ["main", "topic"]) == hint


@pytest.mark.parametrize("name", [name for name, kind in CLASSES.items() if "__init__" not in vars(kind)
                                  and all("__init__" not in vars(base) for base in kind.__mro__ if base.__module__ == kind.__module__)])  # fmt: skip
def test_plain_errors_travel_between_processes(name):
    assert str(pickle.loads(pickle.dumps(CLASSES[name]("what happened")))) == "what happened"
