"""Parsing a `%%tract_operation` cell: nothing runs, the code does not change, errors name the line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ParameterError, SpecError
from tract_jupyter.notebook import parse_cell, parse_python
from tract_jupyter.operations import check_spec, spec_to_dict

CELL = '''"""Verify source URLs.

More about it.
"""
urls: Annotated[list[str], "URLs to verify"]
verified: bool = False
limit: "int | None" = None

def verify(pending, strict: bool = False, *, names: list[str] = ["a"]):
    """Check all of them."""
    # why
    pending.approve()

def flag(
    pending,
    reason: Annotated[str, "why"],
):
    pending.reject(reason)
'''


def test_docstring_fields_and_functions_become_the_spec():
    spec = parse_python("citation_check", CELL).spec
    assert spec.description == "Verify source URLs.\n\nMore about it."
    assert spec.fields == {
        "urls": {"type": "list[str]", "description": "URLs to verify", "required": True},
        "verified": {"type": "bool", "default": False},
        "limit": {"type": "int | None", "default": None},
    }
    verify, flag = spec.actions["verify"], spec.actions["flag"]
    assert verify.description == "Check all of them."
    assert verify.params == {"strict": "bool", "names": "list[str]"}
    assert verify.defaults == {"strict": False, "names": ["a"]}
    assert verify.required == []
    assert flag.required == ["reason"]
    check_spec(spec)


def test_a_field_can_be_volatile():
    spec = parse_python("publish", 'note: Annotated[str, "For people", "volatile"] = ""\n').spec
    assert spec.fields == {
        "note": {"type": "str", "description": "For people", "volatile": True, "default": ""}
    }
    assert spec.volatile == {"note"}


def test_code_is_the_body_and_its_lines_are_known():
    parsed = parse_python("citation_check", CELL)
    assert parsed.spec.actions["verify"].code == "# why\npending.approve()\n"
    assert parsed.first_lines == {"verify": 11, "flag": 18}
    lines = CELL.splitlines()
    assert lines[parsed.first_lines["verify"] - 1].strip() == "# why"
    assert lines[parsed.first_lines["flag"] - 1].strip() == "pending.reject(reason)"


def test_strings_over_several_lines_keep_their_text():
    cell = (
        "def act(pending):\n"
        '    text = """one\n'
        "  two\n"
        '        three"""\n'
        '    if text:\n        more = f"""x\n{text}\n    y"""\n'
        "    pending.fields['out'] = text + more\n"
    )
    namespace = {}
    exec(cell, namespace)  # the same function, parsed by Python
    expected, seen = {}, {}
    namespace["act"](type("P", (), {"fields": expected})())
    code = parse_python("x", cell).spec.actions["act"].code
    exec(code, {"pending": type("P", (), {"fields": seen})()})
    assert seen == expected


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x0c", "\x85", "\x1c", "\x0b"])
def test_only_line_ends_of_python_end_a_line(sign):
    text = f"'''A{sign}b.'''\nx: str = 'c{sign}d'\ndef go(pending):\n    # first\n    y = 'e{sign}f'\n    pending.approve()\n"
    parsed = parse_python("x", text)
    assert parsed.spec.actions["go"].code == f"# first\ny = 'e{sign}f'\npending.approve()\n"
    assert parsed.first_lines == {"go": 4}


def test_parsing_does_not_execute_the_cell(tmp_path):
    mark = tmp_path / "mark"
    cell = f'def act(pending):\n    open({str(mark)!r}, "w")\n'
    parse_python("x", cell)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("cell", "line", "words"),
    [
        ("def f(:", 1, "invalid syntax"),
        ("\n\nimport os", 3, "put the import into the action"),
        ("x: int\ny = 1", 2, "give the field a type"),
        ("def f(self):\n    pass", 1, "first parameter"),
        ("def f():\n    pass", 1, "first parameter"),
        ("def f(pending, a, a):\n    pass", 1, "twice"),
        ("def f(pending, *args):\n    pass", 1, "Remove '\\*'"),
        ("def f(pending, **more):\n    pass", 1, "Remove '\\*'"),
        ("def f(pending): pass", 1, "on a new line"),
        ("@d\ndef f(pending):\n    pass", 2, "decorator"),
        ("a: int = f()", 1, "literal"),
        ("def f(pending, a=f()):\n    pass", 1, "literal"),
        ("def f(pending):\n    'doc'\n", 1, "only a docstring"),
        ("a: int\na: str", 2, "defined twice"),
        ("class A:\n    pass", 1, "remove the class"),
        ("async def f(pending):\n    pass", 1, "without 'async'"),
        ("print('x')", 1, "move it into an action"),
    ],
)
def test_an_invalid_definition_is_refused_with_its_line(cell, line, words):
    with pytest.raises(SpecError, match=words) as caught:
        parse_python("x", cell)
    assert caught.value.line == line


@pytest.mark.parametrize(("form", "cell"), [
    ("python", "must: int\nmay: int = None"),
    ("json", '{"fields": {"must": {"type": "int", "required": true}, "may": {"type": "int"}}}'),
    ("yaml", "fields:\n  must: {type: int, required: true}\n  may: {type: int}"),
])  # fmt: skip
def test_required_fields_in_each_form(form, cell):
    """In Python, a field without a default is required. In data, a flag says so."""
    parameters = parse_cell("x", cell, form).spec.parameters()
    assert {p.name: p.required for p in parameters} == {"must": True, "may": False}
    assert parameters.validate({"must": 1}) == {"must": 1, "may": None}
    with pytest.raises(ParameterError, match="'must'"):
        parameters.validate({"may": 1})


@pytest.mark.parametrize("cell", ["\0", "\ud800", "(" * 10_000, "def f(pending):\n    x = '\ud800'"])
def test_an_unparsable_cell_is_refused(cell):
    with pytest.raises(SpecError):
        parse_python("x", cell)


@given(st.text())
def test_any_text_gives_a_spec_or_a_clear_error(text):
    for form in ("python", "json", "yaml"):
        try:
            parse_cell("x", text, form)
        except SpecError as error:
            assert str(error)


def test_an_error_in_an_action_has_the_line_of_the_cell():
    parsed = parse_python("x", "\n\ndef act(pending):\n    a = 1\n    break\n")
    told = parsed.in_cell(SpecError("'break' outside loop", line=2, action="act"))
    assert told.line == 5
    assert "act" in str(told)


SPEC = {
    "name": "word_limit",
    "description": "Keep it short",
    "fields": {"limit": {"type": "int", "default": 100}},
    "actions": {
        "check": {
            "description": "Count",
            "params": {"n": "int"},
            "required": ["n"],
            "code": "pending.approve()",
        }
    },
}


def test_json_and_yaml_give_the_same_spec():
    yaml_text = """
name: word_limit
description: Keep it short
fields:
  limit: {type: int, default: 100}
actions:
  check:
    description: Count
    params: {n: int}
    required: [n]
    code: pending.approve()
"""
    from_json = parse_cell("word_limit", json.dumps(SPEC), "json").spec
    from_yaml = parse_cell("", yaml_text, "yaml").spec
    assert spec_to_dict(from_json) == spec_to_dict(from_yaml)


def test_the_name_may_stand_in_the_first_line_only():
    body = {key: value for key, value in SPEC.items() if key != "name"}
    assert parse_cell("other", json.dumps(body), "json").spec.name == "other"


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("json", '{"name": "a", "name": "b"}', "named twice"),
        ("json", "[1]", "object"),
        ("json", "{", "not valid JSON"),
        ("json", '{"description": "no name"}', "name is missing"),
        ("json", '{"name": "x", "feilds": {}}', "Did you mean 'fields'"),
        ("json", '{"name": "x", "actions": {"a": {"code": 1}}}', "actions.a.code must be text"),
        ("json", '{"name": "x", "actions": {"a": {}}}', "actions.a.code is missing"),
        ("json", '{"name": "x", "fields": {"a": "int"}}', "fields.a must be an object"),
        ("json", "[" * 100_000, "nested too deeply|not valid JSON"),
        ("yaml", "name: a\nname: b", "named twice"),
        ("yaml", "- 1", "object"),
        ("yaml", "a: &x 1\nb: *x", "aliases"),
        ("yaml", "a: !!python/object/apply:os.system ['x']", "not valid YAML"),
        ("yaml", "a: [", "not valid YAML"),
        ("yaml", "a: " + "[" * 32_000, "the YAML has 32,003 characters, but the limit is 32,000"),
    ],
)
def test_a_wrong_dict_form_is_refused(form, text, words):
    with pytest.raises(SpecError, match=words):
        parse_cell("", text, form)


def test_two_names_are_refused():
    with pytest.raises(SpecError, match="use one name"):
        parse_cell("other", json.dumps(SPEC), "json")


def test_a_python_cell_needs_a_name():
    with pytest.raises(SpecError, match="name the operation"):
        parse_cell("", "x: int", "python")


@pytest.mark.parametrize("text", ["", "   \n\n", "# later\n"])
def test_a_cell_that_defines_nothing_is_refused_in_a_sentence(text):
    with pytest.raises(
        SpecError, match=r"^the cell defines nothing: write a docstring, fields .* below its first line$"
    ):
        parse_cell("check", text, "python")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_an_empty_json_or_yaml_cell_is_refused(form):
    with pytest.raises(
        SpecError, match=f"^the cell defines nothing: write the operation as {form.upper()} below"
    ):
        parse_cell("check", " \n", form)
