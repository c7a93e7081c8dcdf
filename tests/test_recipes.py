"""The recipes of CONTRIBUTING.md: each test adds one extension in a temporary module, as a contributor would."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tests.notebook.conftest import bare_shell, shell  # noqa: F401 # fixtures

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.notebook.conftest import Shell


def add_module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    """Write a module where Python finds it."""
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(folder)


def test_a_new_tract_command(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811 # the fixture
    """One module with `COMMANDS`, and its name in `MODULES`: it runs, completes and is listed."""
    from tract_jupyter.notebook import commands

    source = '''
        """`%tract greet`: greet somebody by name."""

        from tract_jupyter.notebook.commands.command import Command, arguments
        from tract_jupyter.notebook.views.html import GridView

        def greet(notebook, words):
            (name,) = arguments("greet NAME", words, 1, 1)
            return GridView(f"Hello {name}, you are on {notebook.tract.current_branch}")

        def names(notebook, given):
            return [] if given else [("Ada", "name"), ("Alan", "name"), ("Grace", "name")]

        COMMANDS = (Command("greet NAME", "greet somebody", greet, ("--loud", names)),)
    '''
    add_module(tmp_path, monkeypatch, "greet_command", source)
    monkeypatch.setattr(commands, "MODULES", (*commands.MODULES, "greet_command"))

    assert "Hello Ada, you are on main" in shell.run("%tract greet Ada").text
    assert "%tract greet NAME  " in shell.run("%tract help").text
    assert "greet somebody" in shell.run("%tract help").text
    assert "%tract greet NAME is how it is used; got nothing" in shell.run("%tract greet").error
    assert "greet" in shell.complete("%tract gr")
    assert {"Ada", "Alan"} == set(shell.complete("%tract greet A"))
    assert "--loud" in shell.complete("%tract greet --")
    assert "Grace" not in shell.complete("%tract greet Ada ")
