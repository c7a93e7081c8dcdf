"""Placing a body under a `def` line."""

from __future__ import annotations

import ast

import pytest

from tract_jupyter.operations import as_function


@pytest.mark.parametrize(
    "body",
    [
        "pending.approve()",
        "x = '''a\n  b\nc'''\nreturn x",
        "x = f'''a\n{1 +\n2}b'''",
        "if 1:\n\treturn 2\n",
        "x = (1,\n2)\n# a comment\n\nreturn x",
        "x = 1 + \\\n2",
        "x = ('a'\n'b')",
        "x = 'a\\\nb'",
        "x = 1\r\ny = '''a\r\nb'''",
        "x = 'a\x0cb\u2028c'",
    ],
)
def test_the_body_in_a_function_has_the_same_syntax_tree_and_lines(body):
    function = ast.parse(as_function("go", ["pending", "n"], body)).body[0]
    assert list(map(ast.dump, function.body)) == list(map(ast.dump, ast.parse(body).body))
    assert [node.lineno - 1 for node in function.body] == [node.lineno for node in ast.parse(body).body]
    assert [argument.arg for argument in function.args.args] == ["pending", "n"]


def test_a_body_that_cannot_be_indented_raises_an_error():
    with pytest.raises(ValueError, match="control characters"):
        as_function("go", ["pending"], "x = 1\n\x0cy = 2")
