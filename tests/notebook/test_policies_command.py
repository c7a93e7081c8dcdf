"""`%tract policies`: list, add, turn on and off, and mistakes."""

from __future__ import annotations

import pytest
from IPython.core.completer import CompletionContext


def test_they_are_seen_added_and_removed(shell):
    assert "None yet. '%tract policies add compress' adds one." in shell.run("%tract policies").text
    added = shell.run("%tract policies add compress threshold=0.8 name=tidy").text
    assert "Added tidy." in added
    assert "compile" in added
    shell.run('%tract policies add pin patterns=["KEEP"]')
    assert shell.run("print(tract.policies.list()[0].config['patterns'])").text == "['KEEP']\n"
    off = shell.run("%tract policies off tidy").text
    assert ["off" in line for line in off.splitlines() if line.startswith("tidy")] == [True]
    shell.run("%tract policies on tidy")
    assert shell.run("print(tract.policies)").text.startswith("<Policies: 2 on of 2>")
    assert "Removed tidy." in shell.run("%tract policies remove tidy").text


def test_the_commands_now_and_log_show_proposed_actions(shell):
    shell.run('%tract policies add pin patterns=["KEEP"]')
    assert "nothing" in shell.run("%tract policies now").text
    assert "No policy has fired yet." in shell.run("%tract policies log").text
    shell.run("tract.user('KEEP this');")
    log = shell.run("%tract policies log").text
    assert "proposed" in log
    assert "annotate" in log
    assert "just now" in log
    assert "proposed" in shell.run("%tract policies").text


def test_a_forbidden_action_of_a_policy_gives_a_warning_and_a_log_entry(shell):
    shell.run("%tract autonomy manual")
    shell.run('%tract policies add pin patterns=["KEEP"]')
    with pytest.warns(UserWarning, match=r"Policy auto-pin would annotate: .*nothing was done"):
        shell.run("tract.user('KEEP this');")
    assert "told" in shell.run("%tract policies log").text


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("onn tidy", "%tract policies has no 'onn'. Did you mean 'on'?"),
        ("on", "usage: %tract policies on NAME"),
        ("on nothing", "there is no policy 'nothing'. There are none"),
        ("add", "the types are pin, compress"),
        ("add compres", "unknown policy type 'compres'. Did you mean 'compress'?"),
        ("add compress threshold", "Invalid setting 'threshold'. Use KEY=VALUE"),
        ("add compress threshold=2", "compress.threshold must be at most 1, not 2"),
        ("add compress on=false", "Invalid setting 'on=false'"),
        ("add compress name=3", "Invalid policy name"),
        ("add orchestrate", "the orchestrator has no trigger"),
        ("log 3", "takes no arguments"),
        ("--all", "%tract policies has no option '--all'"),
    ],
)
def test_invalid_input_gives_an_error_and_adds_no_policy(shell, typed, told):
    result = shell.run(f"%tract policies {typed}")
    assert not result.ok
    assert told in result.text
    assert shell.run("print(len(tract.policies.list()))").text == "0\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("", ["on", "off", "add", "remove", "log", "now"]),
        ("off ", ["auto-gc"]),
        (
            "add gc ",
            ["name=", "priority=", "autonomy=", "cooldown=", "max_dead_commits=", "orphan_retention_days="],
        ),
    ],
)
def test_subcommands_names_and_settings_complete(shell, line, offered):
    shell.run("%tract policies add gc")
    text = f"%tract policies {line}"
    found = shell.ip.Completer.custom_matchers[-1](CompletionContext("", text, len(text), 0, None))[
        "completions"
    ]
    assert [one.text for one in found] == offered
