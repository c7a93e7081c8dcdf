"""`tools.stub_source()`: the arguments and results of tools as text. Foreign text never becomes code."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.schema_strategies import JUNK, argument_schemas
from tract_jupyter.exceptions import SpecError, ToolExecutionError
from tract_jupyter.models.schema import stub_source
from tract_jupyter.toolkit import ToolDefinition, python_name

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "schemas.json").read_text())["usable"]


def echo(**arguments):
    return arguments


def tool_of(schema, name="tool", description="", **options):
    return ToolDefinition.from_schema(name, description, schema, echo, **options)


def text_of(schema, name="tool", **options):
    return stub_source({python_name(name): tool_of(schema, name, **options)})


def properties(**made):
    return {"type": "object", "properties": made}


class Row(TypedDict):
    """A row of a table."""

    name: str
    size: NotRequired[int]
    parts: list[Row]


@dataclass
class Point:
    """A type without JSON form."""

    x: int


# --- contents


def test_the_whole_of_a_small_one():
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "from": {"type": "integer", "default": 0},
            "filters": {
                "type": "object",
                "properties": {"lang": {"type": "string", "description": "ISO code."}, "year": {"type": "integer"}},
                "required": ["lang"],
            },
        },
        "required": ["query"],
    }  # fmt: skip
    result = {
        "type": "array",
        "items": {"type": "object", "properties": {"x-url": {"type": "string"}}, "required": ["x-url"]},
    }
    assert text_of(schema, "web-search", description="Search the web.", output_schema=result) == dedent('''\
        from typing import NotRequired, TypedDict

        WebSearchResult = TypedDict('WebSearchResult', {
            'x-url': str,
        })

        class WebSearchFilters(TypedDict):
            lang: str  # ISO code.
            year: NotRequired[int]

        def web_search(query: str, *, from_: int = 0, filters: WebSearchFilters | None = None) -> list[WebSearchResult]:
            """Search the web.

            Args:
                query: What to look for.
            """
        ''')
    assert stub_source({"web_search": tool_of(schema, "web-search", "Search.")}, docs=False).count("#") == 0


def test_tools_of_python_functions():
    def look(
        row: Row,
        at: Annotated[int, "Where."],
        kind: Literal["a", "b"] = "a",
        point: Any = 0.5,
        *,
        deep: bool = False,
    ) -> list[Row] | None:
        """Look at a row.

        More about it.
        """

    assert stub_source({"look": ToolDefinition.from_function(look)}) == dedent('''\
        from typing import Any, Literal, NotRequired, TypedDict

        class Row(TypedDict):
            name: str
            size: NotRequired[int]
            parts: list[Row]

        def look(row: Row, at: int, kind: Literal['a', 'b'] = 'a', point: Any = 0.5, deep: bool = False) -> list[Row] | None:
            """Look at a row.

            Args:
                at: Where.
            """
        ''')


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (int, "int"), (None, "None"), (list[str], "list[str]"), (dict[str, int | None], "dict[str, int | None]"), (Any, "Any"),
        (tuple[int, ...], "tuple[int, ...]"), (Point, "Any"), (list[Point], "list[Any]"), (Literal["a"], "Literal['a']"), (Annotated[int, "x"], "int"),
        ({"type": "string"}, "str"), ({"type": "object", "properties": {}}, "dict[str, Any]"), ({"type": "nonsense"}, "Any"), ({"$ref": "http://x/y"}, "Any"),
    ],
)  # fmt: skip
def test_return_types_are_shown_in_the_stub(returned, text):
    tool = ToolDefinition("f", "", tool_of({}).parameters, echo, returns=returned)
    assert f"-> {text}: ..." in stub_source({"f": tool})


def test_a_return_annotation_is_taken_over():
    def f() -> list[int]:
        return []

    assert ToolDefinition.from_function(f).returns == list[int]
    assert "def f() -> list[int]: ..." in stub_source({"f": ToolDefinition.from_function(f)})


def test_objects_that_are_the_same_are_written_once():
    person = {"type": "object", "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/$defs/P"}}}
    schema = {
        **properties(a={"$ref": "#/$defs/P"}, b={"type": "array", "items": {"$ref": "#/$defs/P"}}),
        "$defs": {"P": person},
    }
    text = stub_source({"one": tool_of(schema, "one"), "two": tool_of(schema, "two")})
    assert text.count("TypedDict)") == 1
    assert "def two(*, a: OneA | None = None, b: list[OneA] | None = None)" in text


def test_names_of_classes_collide_with_nothing():
    nested = {"type": "object", "properties": {"x": {"type": "integer"}}}
    other = {"type": "object", "properties": {"AB": {"type": "string"}, "A_B": nested}}
    text = stub_source(
        {
            name: tool_of(properties(b=schema), name)
            for name, schema in (("A", other), ("AB", nested), ("a", nested))
        }
    )
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert len(names) == len(set(names))


def test_stub_source_does_not_depend_on_the_order_of_tools():
    tools = {name: tool_of(properties(a=properties(b={"type": "integer"})), name) for name in "cab"}
    assert stub_source(tools) == stub_source(dict(sorted(tools.items())))


def test_a_huge_type_is_cut():
    defined = {
        f"d{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/$defs/d{m}"} for m in range(20)}}
        for n in range(20)
    }
    text = text_of({**properties(a={"$ref": "#/$defs/d0"}), "$defs": defined})
    assert len(text) < 50_000
    long = [
        {
            "anyOf": [
                {"type": "array", "items": {"$ref": f"#/$defs/e{n + 1}"}},
                {"type": "object", "additionalProperties": {"$ref": f"#/$defs/e{n + 1}"}},
            ]
        }
        for n in range(15)
    ]
    text = text_of(
        {
            **properties(a={"$ref": "#/$defs/e0"}),
            "$defs": {f"e{n}": schema for n, schema in enumerate([*long, {}])},
        }
    )
    assert len(text) < 50_000


# --- from `tools`


def test_tools_tell_their_own_source(tract, search):
    text = tract.tools.stub_source()
    defined = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert defined == sorted(tract.executor.tools())
    assert (
        "def web_search(query: str, limit: int = 10, sites: list[str] | None = None) -> list[dict[str, Any]]:"
        in text
    )
    only = tract.tools.stub_source(["web_search"], docs=False)
    assert [node.name for node in ast.parse(only).body if isinstance(node, ast.FunctionDef)] == ["web_search"]
    assert '"""' not in only


def test_the_error_for_an_unknown_tool_suggests_a_name(tract, search):
    with pytest.raises(ToolExecutionError, match="no tool 'web_serch'. Did you mean 'web_search'"):
        tract.tools.stub_source(["web_serch"])


# --- hostile text


HOSTILE = (
    st.text(
        st.sampled_from(
            [
                '"',
                "'",
                "\\",
                "\n",
                "\r",
                "\t",
                "#",
                " ",
                "a",
                "\x00",
                "\x0c",
                "\x85",
                "\u2028",
                "\u202e",
                "{",
                "}",
            ]
        )
    )
    | st.text()
)


def names_in(text):
    """Return the names of the functions in the text. Check that it contains only definitions."""
    tree = ast.parse(text)
    allowed = ast.FunctionDef | ast.ClassDef | ast.ImportFrom | ast.Assign
    assert all(isinstance(node, allowed) for node in tree.body)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        (only,) = function.body
        assert isinstance(only, ast.Expr)
        assert isinstance(only.value, ast.Constant)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert all(node.func.id.startswith("TypedDict") for node in calls)
    return [function.name for function in functions]


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_hostile_text_can_end_its_string_or_comment(description, about, key, choice):
    nested = {
        "type": "object",
        "properties": {key: {"type": "string", "description": about}, "b": {"enum": [choice, 1]}},
    }
    schema = {
        "type": "object",
        "properties": {key: {"description": about, "type": "string", "default": choice}, "o": nested},
    }
    try:
        tool = tool_of(schema, description=description)
    except SpecError:  # a lone surrogate
        return
    for docs in (True, False):
        assert names_in(stub_source({"tool": tool}, docs=docs)) == ["tool"]


def test_a_docstring_keeps_the_text_of_the_description():
    text = 'Say "hi" or ""hi"" or """hi""", \\n, C:\\new\\, and {this}. "'
    (function,) = ast.parse(text_of({}, description=text)).body[-1:]
    assert ast.get_docstring(function) == text.strip()


@settings(suppress_health_check=list(HealthCheck))
@given(argument_schemas() | JUNK)
def test_any_schema_gives_text_that_parses(schema):
    try:
        tool = tool_of(schema, output_schema=schema)
    except SpecError:
        return
    assert sorted(names_in(stub_source({"tool": tool, "list": tool}))) == ["list", "tool"]


# --- type checkers


SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "kind": {"enum": ["a", "b"]},
        "filters": {"$ref": "#/$defs/filters"},
    },
    "required": ["query"],
    "$defs": {
        "filters": {
            "type": "object",
            "properties": {
                "lang": {"type": "string"},
                "or": {"type": "array", "items": {"$ref": "#/$defs/filters"}},
            },
            "required": ["lang"],
        }
    },
}
FOUND = {
    "type": "array",
    "items": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
}
RIGHT = [
    'tools.search("x", limit=3)[0]["url"].upper()',
    'tools.search("x", filters={"lang": "de", "or": [{"lang": "en"}]}, kind="a")',
    'tools.search("x", filters=None)',
]
WRONG = [
    "tools.search(3)",
    "tools.search()",
    'tools.search("x", 3)',
    'tools.search("x", limt=3)',
    'tools.search("x", kind="c")',
    'tools.search("x", filters={"lang": 1})',
    'tools.search("x", filters={"lang": "de", "or": [{"lang": 1}]})',
    'tools.serch("x")',
    'tools.search("x")[0]["uri"]',
]
TYPES = ("list", "str", "Any", "dict", "TypedDict", "Literal", "int", "NotRequired")


@pytest.fixture(scope="module")
def searching():
    return stub_source({"search": tool_of(SEARCH, "search", output_schema=FOUND)})


def like_a_type(name):
    """A tool with a name that its own stub needs."""
    schema = properties(
        a={"enum": ["x"]},
        b={"type": "array", "items": {"type": "string"}},
        c=properties(d={"type": "integer"}),
        d={},
        e={"type": "object"},
    )
    return stub_source({name: tool_of(schema, name)})


def every_vector():
    tools = {
        f"t{n}": tool_of(case["schema"], f"t{n}", case["name"], output_schema=case["schema"])
        for n, case in enumerate(VECTORS)
    }
    return stub_source(tools)


@pytest.mark.slow
def test_mypy_accepts_the_text_and_finds_wrong_calls(tract, searching, tmp_path):
    calls = [*RIGHT, *WRONG]
    files = {
        "tools.pyi": searching, "own.pyi": tract.tools.stub_source(), "every.pyi": every_vector(),
        **{f"like_{name}.pyi": like_a_type(name) for name in TYPES}, "use.py": "\n".join(["import tools", *calls]),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "."]
    told = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False
    ).stdout.splitlines()
    errors = [line for line in told if ": error:" in line]
    assert {line.split(": error:")[0] for line in errors} == {
        f"use.py:{calls.index(call) + 2}" for call in WRONG
    }, told


def test_the_sandbox_accepts_the_text_and_finds_wrong_calls(tract, searching):
    import pydantic_monty

    def checked(text, code):
        module = pydantic_monty.ExternalModule({"search": lambda *_, **__: [{"url": "x"}]}, stubs=text)
        with pool.checkout(external_modules={"tools": module}, type_check=True) as session:
            return session.feed_run(f"import tools\n{code}")

    with pydantic_monty.Monty() as pool:
        assert checked(searching, RIGHT[0]) == "X"
        for call in RIGHT:
            checked(searching, call)
        for call in WRONG:
            with pytest.raises(pydantic_monty.MontyTypingError):
                checked(searching, call)
        for text in (tract.tools.stub_source(), every_vector(), *map(like_a_type, TYPES)):
            checked(f"{text}\n{searching}", "1")
