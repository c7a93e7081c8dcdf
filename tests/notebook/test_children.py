"""Children of the notebook's tract, from its first cell on."""

from __future__ import annotations

import sys

MODULES = "import sys; print('tract_jupyter.session' in sys.modules)"


def test_the_notebooks_tract_spawns_from_the_first_cell(shell):
    result = shell.run(
        "tract.user('hello')\nchild = tract.session.spawn(tract, purpose='look')\nprint(child.executor.agent)"
    )
    assert result.ok, result.text
    assert "agent:" in result.text
    assert shell.run(
        "tract.session.collapse(child, tract, content='found'); print(tract.log()[0].message)"
    ).ok
    assert "SessionError" in shell.run("tract.session.spawn(3, purpose='look')").text
    # a request of the child is in the notebook's inbox
    shell.run(
        "child.executor.execute('commit', {'content': {'content_type': 'output', 'text': 'z'}}, actor='agent')"
    )
    assert "Call tool commit" in shell.run("%tract inbox").text


def test_children_share_the_notebooks_tools(shell):
    shell.run("tract.user('hello')\n@tract.tool\ndef send(text: str) -> str:\n    'Send.'\n    return text")
    shell.run("child = tract.session.spawn(tract, purpose='look', granted='self')")
    assert "'x'" in shell.run("print(repr(child.tools.send('x')))").text
    shell.run("tract.executor.lock_tool('send', 'no')")
    assert "is locked: no" in shell.run("child.tools.send('x')").text


def test_loading_imports_no_session(bare_shell):
    loaded = "tract_jupyter.session" in sys.modules
    bare_shell.run("%load_ext tract_jupyter")
    assert ("tract_jupyter.session" in sys.modules) == loaded
