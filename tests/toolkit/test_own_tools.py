"""The user's functions as tools: `@tract.tool`."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from tract_jupyter.exceptions import OperationExistsError, SpecError, ToolExecutionError, UnknownToolError
from tract_jupyter.toolkit import ToolDefinition, Traits


class Point(TypedDict):
    x: Annotated[int, Field(ge=0)]
    within: NotRequired[list[Point]]


Row = TypeAliasType("Row", dict[str, int])


class Model(BaseModel):
    x: int


class Color(Enum):
    RED = "red"


def properties(tract, name):
    return tract.executor.get(name).parameters.json_schema["properties"]


def test_type_hints_and_docstring_suffice(tract):
    @tract.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers,
        whatever they are.

        It takes no time.

        Args:
            a: the first
                one, which is needed
            b (int, optional): the second: one more.

        Returns:
            the sum: a number.
        """
        return a + b

    assert add(1) == 3
    assert tract.tools.add(1, b=5) == 6
    tool = tract.executor.get("add")
    assert (tool.description, tool.owner, tool.traits) == (
        "Add two numbers,\nwhatever they are.",
        "user",
        Traits(),
    )
    assert properties(tract, "add") == {
        "a": {"type": "integer", "description": "the first one, which is needed"},
        "b": {"type": "integer", "description": "the second: one more.", "default": 2},
    }
    assert "add" in dir(tract.tools)
    assert "add" in [tool["name"] for tool in tract.as_tools("self", format="anthropic")]


def test_with_options(tract):
    @tract.tool(name="look-up", description="Look it up.", read_only=True, destructive=True, open_world=True)
    def find(query: Annotated[str, "What to find."]) -> str:
        """Not this.

        Args:
            query: nor this.
        """
        return query

    tool = tract.executor.get("look-up")
    assert (tool.description, tool.traits) == ("Look it up.", Traits(True, True, True))
    assert properties(tract, "look-up")["query"]["description"] == "What to find."
    assert tract.tools.look_up("x") == find("x") == "x"


@pytest.mark.parametrize(
    ("docstring", "described"),
    [
        (None, {}),
        ("Do.", {}),
        ("Do.\n\nArgs:\n  x: one\n  y: two\n", {"x": "one", "y": "two"}),
        (
            "Do.\n\n    Args:\n        x:\n            one\n\n            more\n        y: a: b\n",
            {"x": "one more", "y": "a: b"},
        ),
        ("Do.\n\nArgs:\n    x (dict[str, int]): one\n    *args: all\n    z: none\n", {"x": "one"}),
        ("Do.\n\nArguments:\n    x: one\nMore about it: y: no\n", {"x": "one"}),
        ("Do.\n\nArgs: x: not so\n", {}),
        ("Do.\n\nReturns:\n    y: not this\n", {}),
        ("Do.\nArgs:\n    x: one\n", {"x": "one"}),
        (
            "Do.\n\nParameters\n----------\nx : int\n    first\n    one\ny : int, optional\n    a: b\n\nReturns\n-------\nint\n",
            {"x": "first one", "y": "a: b"},
        ),
        ("Do.\nParameters\n----------\nx, y : int\n    both\n*args\n    all\n", {"x": "both", "y": "both"}),
        (
            "Do.\n\n:param x: the first\n    one\n:param int y: a: b\n:type x: int\n:returns: a sum\n",
            {"x": "the first one", "y": "a: b"},
        ),
        ("Do.\n\n:param x without an end\n", {}),
    ],
)
def test_docstrings(tract, docstring, described):
    def f(x: int, y: int):
        pass

    f.__doc__ = docstring
    tract.tool(f)
    found = {
        name: about["description"] for name, about in properties(tract, "f").items() if "description" in about
    }
    assert found == described


@pytest.mark.parametrize(
    "parameters",
    ["Args:\n    x: one", "Parameters\n----------\nx : int\n    one", ":param x: one\n:type x: int"],
)
@pytest.mark.parametrize("told", ["", "Do it\nnow.", "Do it.\n\nIn peace."])
def test_a_description_is_the_first_paragraph_in_every_style(tract, told, parameters):
    def f(x: int):
        pass

    f.__doc__ = f"{told}\n\n{parameters}\n"
    tract.tool(f)
    assert tract.executor.get("f").description == told.split("\n\n")[0]
    assert properties(tract, "f")["x"]["description"] == "one"


@given(
    st.lists(
        st.sampled_from(
            ["Do.", "", "Args:", "    x: one", "        more", "Parameters", "----------", "x : int", ":param x: one",
             ":param", ":type x:", "Returns:", "Raises", "    ", "@param x: one", "\t", "Example::", "x"]
        )
        | st.text(max_size=9),
        max_size=12,
    )
)  # fmt: skip
def test_every_docstring_makes_a_tool(lines):
    def f(x: int):
        pass

    f.__doc__ = "\n".join(lines)
    assert ToolDefinition.from_function(f).parameters.names == ("x",)


def test_a_cell_that_is_run_again_replaces_its_tool(tract):
    @tract.tool
    def f(x: int) -> int:
        return x

    old, stub = tract.executor.get("f"), tract.tools.f

    @tract.tool(read_only=True)
    def f(x: int, y: int) -> int:  # noqa: F811 # the redefinition is intended
        return x + y

    new = tract.executor.get("f")
    assert tract.tools.f(1, 2) == stub(x=1, y=2) == 3
    assert new.definition_hash != old.definition_hash
    assert list(tract.executor.tools()).count("f") == 1


@pytest.mark.parametrize("name", ["commit", "fire_citation_check", "fire_x", "get_data"])
def test_a_new_tool_cannot_replace_other_tools_or_take_similar_names(tract, spec, name):
    tract.register_operation(spec())

    @tract.tool(name="get-data")
    def f():
        pass

    before = tract.executor.tools()
    with pytest.raises(OperationExistsError):
        tract.tool(name=name)(f)
    assert tract.executor.tools() == before


def test_an_approval_does_not_apply_to_a_redefined_tool(tract):
    @tract.tool
    def f() -> int:
        return 1

    pending = tract.policies.propose("p", "f", {})

    @tract.tool
    def f() -> int:  # noqa: F811 # the redefinition is intended
        return 2

    with pytest.raises(Exception, match="changed"):
        pending.approve()


def test_removing(tract):
    @tract.tool
    def f():
        return 1

    stub = tract.tools.f
    tract.executor.remove_tool("f")
    assert not hasattr(tract.tools, "f")
    with pytest.raises(ToolExecutionError, match="no tool 'f'"):
        stub()
    with pytest.raises(UnknownToolError, match="no tool 'f'"):
        tract.executor.remove_tool("f")
    tract.tool(f)
    assert tract.tools.f() == 1


def test_only_tools_of_the_user_can_be_removed(tract, spec):
    tract.register_operation(spec())
    with pytest.raises(OperationExistsError, match="'commit' is not your own tool"):
        tract.executor.remove_tool("commit")
    with pytest.raises(OperationExistsError, match="owner: operation:citation_check"):
        tract.executor.remove_tool("fire_citation_check")


# --- valid tools


def test_types_that_json_has_a_form_for(tract):
    @tract.tool
    def f(
        a: str | None,
        b: Literal["x", 1] | None,
        c: dict[str, list[float | bool]],
        d: Point,
        e: Annotated[int, "A number.", Field(ge=3)] = 4,
        f: list | dict | None = None,
        g: Row | None = None,
        h: Any = None,
    ) -> Any:
        return [a, b, c, d, e]

    about = properties(tract, "f")
    assert about["e"] == {"type": "integer", "minimum": 3, "description": "A number.", "default": 4}
    assert tract.tools.f("a", 1, {"k": [1.5, True]}, {"x": 1, "within": [{"x": 2}]}) == [
        "a", 1, {"k": [1.5, True]}, {"x": 1, "within": [{"x": 2}]}, 4,
    ]  # fmt: skip
    for wrong in ({"d": {"x": -1}}, {"d": {"x": 1, "y": 1}}, {"e": 2}, {"b": "y"}):
        arguments = {"a": None, "b": None, "c": {}, "d": {"x": 1}, **wrong}
        assert not tract.executor.execute("f", arguments).success
    assert "e (int): A number. Default: 4." in tract.tools.f.__doc__


@pytest.mark.parametrize(
    ("hint", "word"),
    [
        (dt.date, "date"), (bytes, "bytes"), (Model, "Model"), (Color, "Color"), (set[str], "set"),
        (tuple[int, ...], "tuple"), (Sequence[str], "Sequence"), (dict[int, str], "dict"), (list[dt.date], "date"),
        (str | Color, "Color"), (Annotated[bytes, "Data."], "bytes"), (type, "type"), ([], "\\[\\]"),
    ],
)  # fmt: skip
def test_types_that_a_model_cannot_send(tract, hint, word):
    def f(x):
        pass

    f.__annotations__["x"] = hint
    with pytest.raises(SpecError, match=f"f: .*{word}"):
        tract.tool(f)


def test_a_type_hint_that_means_nothing(tract):
    def f(x: Nowhere) -> None:  # noqa: F821
        pass

    with pytest.raises(SpecError, match="f: a type hint cannot be resolved .*'Nowhere'"):
        tract.tool(f)


def test_a_default_that_does_not_fit(tract):
    with pytest.raises(SpecError, match="the default 'x' of 'limit' is not of type int"):

        @tract.tool
        def f(limit: int = "x"):
            pass


async def later():
    pass


async def many():
    yield 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (3, "a tool needs a function, not 3"),
        (Model, "a tool needs a function"),
        (functools.partial(print, 1), "a tool needs a function"),
        (min, "does not know the parameters of min"),
        (len, "every parameter needs a name"),
        (later, "later is asynchronous"),
        (many, "many is asynchronous"),
        (lambda: 1, "'<lambda>' is not a name for a tool; pass one"),
        (lambda *args: 1, "every parameter needs a name"),
    ],
)
def test_an_invalid_function_is_refused_as_a_tool(tract, function, told):
    before = tract.executor.tools()
    with pytest.raises(SpecError, match=told):
        tract.tool(function)
    assert tract.executor.tools() == before


@pytest.mark.parametrize("name", ["", " ", 3])
def test_a_name_is_a_text(tract, name):
    with pytest.raises(SpecError, match="is not a name for a tool"):
        tract.tool(name=name)(lambda: 1)


@pytest.mark.parametrize("name", ["a\ud800", "pay\u202e", "a\0"])
def test_a_name_can_be_shown(tract, name):
    with pytest.raises(SpecError, match="has unprintable characters"):
        tract.tool(name=name)(lambda: 1)


def test_a_lambda_and_a_method_with_a_name(tract):
    class Counter:
        number = 0

        def count(self, by: int = 1) -> int:
            """Count."""
            self.number += by
            return self.number

    tract.tool(Counter().count)
    tract.tool(name="one")(lambda: 1)
    assert (tract.tools.count(), tract.tools.count(by=2), tract.tools.one()) == (1, 3, 1)
