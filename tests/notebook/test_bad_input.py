"""A mistake in a magic gives one sentence. Nothing is sent, run or stored."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient

OPERATION = """%%tract_operation note --activate
'''Note a number.'''
number: int

def keep(pending):
    '''Keep it.'''
    pending.approve()
"""


@pytest.fixture
def refused(shell):
    """Run an invalid cell, and return its one-sentence error."""
    tract = shell.namespace["tract"]
    client = ScriptedClient()
    assert shell.run(OPERATION).ok

    def kept():
        return tract.head, tract.status().operations, len(tract.profiles.list()), len(tract.runs.roots())

    def run(cell, *, model=True):
        if model:
            tract.configure_llm(client)
        before = kept()
        result = shell.run(cell)
        assert not result.ok, result.text
        assert result.error
        assert "\n" not in result.error
        assert "Traceback" not in result.text
        assert (client.asked, kept(), tract.review.inbox()) == ([], before, [])
        return result.error

    run.shell = shell
    return run


MAGICS = [
    "%%tract_chat", "%%tract_operation", "%%tract_script", "%%tract_profile", "%%tract_run", "%%tract_check",
    "%%tract_propose", "%%tract_orchestrate", "%tract_propose", "%tract_orchestrate", "%tract_check", "%tract fork",
    "%tract_fire note",
]  # fmt: skip


@pytest.mark.parametrize("value", ["", "=1"])
@pytest.mark.parametrize("magic", MAGICS)
def test_an_option_that_there_is_not(refused, magic, value):
    told = refused(f"{magic} --bogus{value}" + ("\nx = 1" if magic.startswith("%%") else ""))
    assert "no option '--bogus" in told


@pytest.mark.parametrize("model", ["nope/x", "nope/", "/x", "opnai/gpt"])
def test_a_model_of_an_unknown_provider(refused, model):
    cells = ("%%tract_chat --model {}\nhi", "%%tract_run --model {}\nhi", "%tract_orchestrate --model {}")
    chat, *others = [refused(cell.format(model)) for cell in cells]
    assert f"'{model}' does not name a model, so no request was sent: write PROVIDER/NAME" in chat
    assert others == [chat, chat]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%tract_chat\n", "Write a message below %%tract_chat"),
        ("%%tract_chat\n  \n\n", "Write a message below %%tract_chat"),
        ("%%tract_run\n", "Write a message below %%tract_run"),
        ("%%tract_run\n \n", "Write a message below %%tract_run"),
        ("%%tract_script\n", "the cell body is empty"),  # the message of IPython
        ("%%tract_script\n \n", "Write the script below %%tract_script"),
        ("%%tract_script --sandbox\n \n", "no code"),
        ("%%tract_operation\n", "the cell body is empty"),
        ("%%tract_operation\n \n", "name the operation: %%tract_operation citation_check"),
        ("%%tract_operation empty\n \n", "the cell defines nothing"),
        ("%%tract_operation --json\n \n", "JSON"),
        ("%%tract_operation --yaml\n \n", "YAML"),
        ("%%tract_profile guide\n", "the cell body is empty"),
        ("%%tract_profile guide\n \n", "an object with description and operations"),
        ("%%tract_profile\n \n", "give the name: %%tract_profile NAME. Nothing was saved"),
        ("%%tract_check\n", "the cell body is empty"),
        ("%%tract_check\n \n", "needs code"),
        ("%tract_check", "needs code"),
        ("%tract_fire", "name the operation"),
        ("%tract_propose", "describe the operation"),
        ("%%tract_propose\n \n", "describe the operation"),
    ],
)
def test_nothing_is_in_the_cell(refused, cell, told):
    assert told in refused(cell)


@pytest.mark.parametrize(
    "cell",
    [
        "%%tract_chat\nhi", "%%tract_chat --plan\nhi", "%%tract_run\nhi", "%%tract_run\n", "%tract_propose count birds",
        "%%tract_propose\ncount birds", "%tract_orchestrate it is long", "%%tract_orchestrate\nit is long",
        "%tract fork", "%tract fork HEAD --name other",
    ],
)  # fmt: skip
def test_each_command_fails_if_no_model_is_configured(refused, cell):
    refused.shell.run("tract.user('Hello.')")
    if cell == "%tract fork":
        cell = "%tract fork HEAD"
    assert "no language model is configured; type %tract model" in refused(cell, model=False)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "%%tract_chat --vars numbre\nhi",
            "there is no variable 'numbre'. Did you mean 'number'? Nothing was sent",
        ),
        ("%%tract_chat --cells [99]\nhi", "there is no cell [99]"),
        ("%tract_fire note number=$numbre", "no variable 'numbre'. Did you mean 'number'?"),
        ("%tract_fire note --fields $numbre", "no variable 'numbre'"),
        ("%%tract_run --profile guide\nhi", "There is no profile 'guide'"),
        ("%%tract_run --out class\nhi", "--out takes the name of a variable, not 'class'"),
        ("%tract_propose --out tools count", "--out cannot replace 'tools'"),
        ("%tract_orchestrate --out tools", "--out cannot replace 'tools'"),
    ],
)
def test_a_variable_that_there_is_not(refused, cell, told):
    refused.shell.run("number = 3")
    assert told in refused(cell)


@pytest.mark.parametrize("name", ["../outside.txt", "{outside}", "link.txt", "/etc/passwd"])
def test_a_file_that_is_outside(refused, tmp_path, tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("elsewhere") / "outside.txt"
    outside.write_text("secret")
    (tmp_path / "link.txt").symlink_to(outside)
    told = refused(f"%%tract_chat --files {name.format(outside=outside)}\nhi")
    assert "othing was sent" in told
    assert "secret" not in told


BIG = (
    "import pandas\nbig = pandas.DataFrame({'name': ['Parus major ' * 10] * 80_000})\nlong = 'x' * 10_000_000"
)


@pytest.mark.parametrize("name", ["big", "long"])
def test_a_value_of_ten_megabytes_is_refused_as_a_field(refused, name):
    refused.shell.run(BIG)
    assert len(refused(f"%tract_fire note number=${name}")) < 200


@pytest.mark.parametrize("name", ["big", "long"])
def test_the_model_gets_only_the_beginning_of_ten_megabytes(shell, name):
    client = ScriptedClient("Many.")
    shell.namespace["tract"].configure_llm(client)
    shell.run(BIG)
    assert shell.run(f"%%tract_chat --vars {name}\nHow many?").ok
    assert len(client.last_messages[-1]["content"]) < 10_000


def test_ten_megabytes_are_not_shown_by_a_script(shell):
    shell.run(BIG)
    assert len(shell.run("%%tract_script\nprint(long)").text) < 200_000
