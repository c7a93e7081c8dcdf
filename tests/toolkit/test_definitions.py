"""The hash that an approval of a tool binds to: one for each code, and the same as long as the process runs it."""

from __future__ import annotations

import importlib.util
from functools import partial, wraps

import pytest

from tract_jupyter.models.schema import Parameters
from tract_jupyter.toolkit import ToolDefinition


def add(x: int = 1, y: int = 2) -> int:
    return x + y


def same_but_handler(handler):
    return ToolDefinition("add", "Adds.", Parameters.of(add), handler)


def hash_of(handler):
    return same_but_handler(handler).definition_hash


def adder(number):
    def plus(x: int) -> int:
        return x + number

    return plus


def later():
    def plus(x: int) -> int:
        return x + number

    before = hash_of(plus)
    number = 1
    return before, hash_of(plus)


class Adder:
    def __call__(self, x: int) -> int:
        return x + 1


def another():
    class Adder:  # only its code tells it from the other one
        def __call__(self, x: int) -> int:
            return x - 1

    return Adder


def logged(function):
    @wraps(function)
    def call(*args):
        return function(*args)

    return call


def from_text(text):
    """A function whose source is nowhere."""
    names = {}
    exec(text, names)
    return names["f"]


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (add, add, hash_of),
        (adder(1), adder(1), adder(2)),
        (adder([1]), adder([1]), adder([2])),
        (adder({1}), adder({1}), adder({2})),
        (partial(add, 1), partial(add, 1), partial(add, 2)),
        (partial(add, y=1, x=2), partial(add, x=2, y=1), partial(add, x=1, y=2)),
        (partial(add), partial(add), partial(hash_of)),
        (partial(adder(1)), partial(adder(1)), partial(adder(2))),
        (Adder(), Adder(), another()()),
        (Adder().__call__, Adder().__call__, another()().__call__),
        (Adder, Adder, another()),
        (logged(add), logged(add), logged(hash_of)),
        (len, len, max),
        (from_text("f = lambda x: x.a"), from_text("f = lambda x: x.a"), from_text("f = lambda x: x.b")),
    ],
)
def test_each_code_has_its_own(one, same, other):
    assert hash_of(one) == hash_of(same) != hash_of(other)
    assert len(hash_of(one)) == 64


def test_a_closure_that_is_not_filled_yet():
    before, after = later()
    assert before != after


def test_a_file_that_is_edited_later_changes_no_tool_of_this_process(tract, tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("def shout(text: str) -> str:\n    return text.upper()\n")
    spec = importlib.util.spec_from_file_location("edited", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tract.executor.add(ToolDefinition.from_function(module.shout))
    pending = tract.policies.propose("loud", "shout", {"text": "a"})
    path.write_text("def shout(text: str) -> str:\n    return text.upper() + '!'\n")
    assert pending.approve() == "A"
