"""Errors in a script, in both backends: they are reported, and nothing else is affected."""

from __future__ import annotations

import sys

import pytest

from tract_jupyter.scripts import ScriptLimits, ScriptStatus
from tract_jupyter.toolkit import Traits

READS = Traits(read_only=True)


@pytest.fixture(params=["kernel", "sandbox"])
def run(request, tract):
    def run_script(code, **options):
        return tract.scripts.run(code, backend=request.param, notebook_id="main", **options)

    yield run_script
    # the next script works after any error
    result = run_script("tools.status()['branch']", fresh=True)
    assert result.value == "main"


def test_an_unknown_tool_is_named_with_the_nearest(run):
    assert "Did you mean 'log'?" in run("tools.logg()").error.message


def test_all_wrong_arguments_are_reported_together(run):
    told = run("tools.log(limit='x', op_filter=3, foo=1)").text
    for part in ("limit", "op_filter", "foo"):
        assert part in told


def test_a_result_that_is_too_large_ends_the_calls(run, add):
    def page() -> str:
        """Give back much."""
        return "x" * 100_000

    add(page, traits=READS)
    result = run("for n in range(50): tools.page()", limits=ScriptLimits(result_bytes=250_000))
    assert "250,000 bytes of results" in result.error.message
    assert result.call_count == 4


def test_a_result_that_has_no_plain_form(run, add):
    class Odd:
        def __repr__(self):
            raise RuntimeError("no repr")

    def odd() -> object:
        """Give back an object of Python's."""
        return Odd()

    add(odd, traits=READS)
    result = run("x = tools.odd()\n1")
    if result.backend == "kernel":
        assert result.value == 1
    else:
        assert result.error.message.startswith(
            "odd ran, but its result cannot be used: the value has no JSON form"
        )


def test_a_handler_that_says_error(run, add):
    def fetch() -> dict[str, str]:
        """Fail, as data."""
        return {"error": "no such page"}

    add(fetch, traits=READS)
    result = run("try:\n    tools.fetch()\nexcept ToolExecutionError as error:\n    print('caught', error)")
    assert result.stdout.startswith("caught")
    assert "no such page" in result.stdout


def test_a_handler_that_would_end_the_process(run, add):
    def leave() -> None:
        """Try to end the process."""
        sys.exit(3)

    add(leave, traits=READS)
    result = run("try:\n    tools.leave()\nexcept ToolExecutionError as error:\n    print(error)")
    assert result.succeeded
    assert "it tried to end the process (exit code 3)" in result.stdout


def test_a_handler_that_is_interrupted_ends_the_script(run, add):
    def wait() -> None:
        """Behave as if the user pressed Stop during the call."""
        raise KeyboardInterrupt

    add(wait, traits=READS)
    result = run("tools.wait()\nprint('not reached')")
    assert (result.status, result.stdout) == (ScriptStatus.INTERRUPTED, "")


def test_shadowed_builtins_are_the_scripts_own(run):
    result = run("len = list = print = open = 3\nlen", fresh=True)
    assert result.value == 3
    assert run("len([1])", fresh=True).value == 1


def test_shadowed_tools_are_the_scripts_own(run):
    assert run("tools = 3\ntools").value == 3
    assert run("tools.status()['branch']", fresh=True).value == "main"


@pytest.mark.slow
def test_a_gigabyte_of_output_is_bounded(run):
    code = "for n in range(1_000):\n    print('x' * 1_000_000)\nprint('end')"
    result = run(code, limits=ScriptLimits(output_characters=10_000))
    assert result.succeeded
    assert len(result.text) < 11_000
    assert result.stdout.endswith("x\nend\n")
