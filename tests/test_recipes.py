"""The recipes of CONTRIBUTING.md: each test adds one extension in a temporary module, as a contributor would."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from tests.notebook.conftest import bare_shell, shell  # noqa: F401 # fixtures
from tests.review.scripted import ScriptedClient
from tract_jupyter import OperationProfile, Tract, run_operation

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.notebook.conftest import Shell


def add_module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    """Write a module where Python finds it."""
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(folder)


def test_a_new_tract_command(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811 # the fixture
    """One module with `COMMANDS` in the folder: it runs, completes and is listed."""
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
    add_module(tmp_path, monkeypatch, "greet", source)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])

    assert "Hello Ada, you are on main" in shell.run("%tract greet Ada").text
    assert "%tract greet NAME  " in shell.run("%tract help").text
    assert "greet somebody" in shell.run("%tract help").text
    assert "usage: %tract greet NAME; got nothing" in shell.run("%tract greet").error
    assert "greet" in shell.complete("%tract gr")
    assert {"Ada", "Alan"} == set(shell.complete("%tract greet A"))
    assert "--loud" in shell.complete("%tract greet --")
    assert "Grace" not in shell.complete("%tract greet Ada ")


def test_a_new_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One module with a decorated function, once it is imported."""
    from tract_jupyter.toolkit import CONTEXT_TOOLS

    source = '''
        """A context tool that counts words."""

        from typing import Annotated

        from tract_jupyter import Tract
        from tract_jupyter.toolkit import context_tool


        @context_tool(read_only=True)
        def count_words(tract: Tract, role: Annotated[str, "Whose messages."] = "user") -> dict[str, int]:
            """Count the words of one role's messages.

            Words are what spaces separate.
            """
            said = [message.content for message in tract.compile().messages if message.role == role]
            return {"words": sum(len(text.split()) for text in said)}
    '''
    monkeypatch.setattr("tract_jupyter.toolkit.built_in.CONTEXT_TOOLS", dict(CONTEXT_TOOLS))
    add_module(tmp_path, monkeypatch, "count_words_tool", source)
    importlib.import_module("count_words_tool")

    with Tract.open() as t:
        t.user("three more words")
        tool = t.executor.tools()["count_words"]
        assert tool.description == "Count the words of one role's messages. Words are what spaces separate."
        assert tool.parameters.json_schema["properties"]["role"]["description"] == "Whose messages."
        assert t.tools.count_words() == {"words": 3}
        assert t.toolset("full", actor="agent:1").execute("count_words", {"role": "assistant"}).output == {
            "words": 0
        }
        assert "count_words" not in t.toolset("self").tools(), (
            "its profile names what an agent may do to itself"
        )
        assert "def count_words(role: str = 'user')" in t.tools.stub_source()
        assert t.scripts.run("tools.count_words()['words']", backend="sandbox").value == 3


def test_a_new_run_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One module, and an entry point in its package's `pyproject.toml`."""
    source = '''
        """A run kind that writes a word backwards."""

        from tract_jupyter.runs.kinds import OperationOutput


        class Backwards:
            """Write `word` backwards."""

            name = "backwards"

            def check(self, operation):
                return [] if "word" in operation.config.params else [("word_required", "word: is missing")]

            def prepare(self, operation, services):
                word = operation.config.params["word"]
                return lambda context: OperationOutput(word[::-1])
    '''
    add_module(tmp_path, monkeypatch, "backwards_kind", source)
    info = tmp_path / "backwards-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: backwards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tract_jupyter.run_kinds]\nbackwards = backwards_kind:Backwards\n"
    )

    with Tract.open() as t:
        client = ScriptedClient("Yes.")
        t.configure_llm(client)
        t.user("Well?")
        said = run_operation("said", "backwards", order=1, word="dnim", into="system", required=True)
        assert t.generate(profile=OperationProfile.of("p", [said])).run.status == "done"
        assert any("mind" in message["content"] for message in client.last_messages)


def test_a_new_built_in_run_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One module in the folder of kinds. Its name is the kind's."""
    from tract_jupyter.runs import kinds

    source = """
        from tract_jupyter.runs.kinds import OperationOutput

        class Shout:
            name = "shout"

            def check(self, operation):
                return []

            def prepare(self, operation, services):
                return lambda context: OperationOutput(operation.config.params["text"].upper())
    """
    (tmp_path / "shout.py").write_text(textwrap.dedent(source))
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    registry = kinds.KindRegistry()
    assert registry["shout"].name == "shout"
    assert {registry[name].name for name in registry} == set(registry), "each other module is a kind"


def test_a_new_built_in_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One module in the folder of policies."""
    from tract_jupyter.policy import builtin, policy_types

    source = """
        from dataclasses import dataclass
        from typing import ClassVar

        from tract_jupyter.policy import BuiltinPolicy

        @dataclass(frozen=True, kw_only=True)
        class QuietPolicy(BuiltinPolicy):
            type_name: ClassVar[str] = "quiet"

            def evaluate(self, view):
                return None
    """
    (tmp_path / "quiet.py").write_text(textwrap.dedent(source))
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path)])
    policy_types.cache_clear()
    try:
        with Tract.open() as t:
            assert t.policies.add("quiet") == "auto-quiet"
    finally:
        policy_types.cache_clear()


RULE = '''
from tract_jupyter.analysis import Category, RiskLevel
from tract_jupyter.analysis.rules import Rule, register


@register
class OpensZip(Rule):
    """Opens a zip archive.

    ## Why it matters

    Our archives are tar files.
    """

    code = "CODE"
    name = "opens-zip"
    category = Category.FILESYSTEM_READ
    level = RiskLevel.MEDIUM
    effect = "is not used here"
    remedy = "Use tarfile."
    symbols = {"zipfile.ZipFile": RiskLevel.MEDIUM}
'''
ANALYZE = """
import json
from tract_jupyter.analysis import CodeAnalyzer, pages
found = CodeAnalyzer().analyze("import zipfile as z\\nz.ZipFile('a.zip').namelist()").findings
print(json.dumps([[[f.code, f.level, f.span.line, f.reason, f.remedy] for f in found], pages.page("opens-zip")]))
"""


def analyzed(folder: Path, before: str = "") -> tuple[list[list[object]], str]:
    """Analyse a cell that opens a zip archive, in a process that finds packages in `folder`."""
    ran = subprocess.run(
        [sys.executable, "-c", before + ANALYZE],
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    findings, page = json.loads(ran.stdout)
    return findings, page


def test_a_new_analyzer_rule(tmp_path: Path) -> None:
    """A built-in one is one file in the folder of rules."""
    (tmp_path / "zips.py").write_text(RULE.replace("CODE", "TJ299"))
    in_the_folder = f"from tract_jupyter.analysis import rules; rules.__path__.append({str(tmp_path)!r}); "
    found, page = analyzed(tmp_path, in_the_folder + "rules.import_rules()")
    assert ["TJ299", "medium", 2, "zipfile.ZipFile is not used here.", "Use tarfile."] in found
    assert page.startswith("# TJ299 opens-zip\n")
    assert "Our archives are tar files." in page


def test_a_new_analyzer_rule_of_another_package(tmp_path: Path) -> None:
    """One of another package is one file, and a line that names it as an entry point."""
    (tmp_path / "team.py").write_text(RULE.replace("CODE", "TEAM001").replace("@register\n", ""))
    info = tmp_path / "team-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tract_jupyter.rules]\nzips = team:OpensZip\n")
    found, page = analyzed(tmp_path)
    assert ["TEAM001", "medium", 2, "zipfile.ZipFile is not used here.", "Use tarfile."] in found
    assert page.startswith("# TEAM001 opens-zip\n")
