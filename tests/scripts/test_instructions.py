"""What a model is told about scripts: right, and within its bound."""

from __future__ import annotations

import ast

import pytest

from tract_jupyter.context.tokens import default_counter
from tract_jupyter.exceptions import ContentError
from tract_jupyter.prompts.tool_calls import SCRIPTS


def signatures(text):
    return ast.parse(text.partition("```python\n")[2].partition("```")[0])


def names(text):
    return {node.name for node in signatures(text).body if isinstance(node, ast.FunctionDef)}


def test_it_has_the_signatures_of_all_tools(tract, search):
    text = tract.get_system_instructions(max_tokens=20_000)
    assert text.startswith(SCRIPTS)
    assert names(text) == set(tract.executor.tools())


def test_a_profile_leaves_tools_out(tract):
    text = tract.get_system_instructions(profile="self", max_tokens=20_000)
    assert "gc" not in names(text)
    assert "compress" in names(text)


@pytest.mark.parametrize("most", [700, 1_000, 1_500, 2_500, 5_000])
def test_it_is_no_longer_than_it_may(tract, most):
    text = tract.get_system_instructions(max_tokens=most)
    assert default_counter().count_text(text) <= most
    shown = names(text)
    assert shown
    left_out = set(tract.executor.tools()) - shown
    assert all(name in text for name in left_out)  # at least by name


def test_a_bound_that_is_too_narrow(tract):
    with pytest.raises(ContentError, match="at least"):
        tract.get_system_instructions(max_tokens=10)


def test_the_example_runs(tract):
    tract.user("a question")
    rows = SCRIPTS.partition("Python:\n")[2].partition("- A call")[0]
    code = "\n".join(line[4:] for line in rows.splitlines())
    result = tract.run_script(code, backend="sandbox")
    assert result.stdout == "1 ['dialogue']\n"
