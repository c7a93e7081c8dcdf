"""`%tract profiles` and `%tract profile` with stored profiles of this user and other users."""

import re

import pytest

from tract_jupyter.models import digest
from tract_jupyter.runs.profile import OperationBlock, OperationProfile, run_operation

pytestmark = pytest.mark.usefixtures("model")


def test_profiles_are_listed_and_shown(shell):
    listed = shell.run("%tract profiles").text
    assert re.search(r"research +4\b", listed)
    assert re.search(r"my diary +0 +what happened", listed)
    result = shell.run("%tract profile research")
    assert (
        "Profile research: not active (runs concurrent, version 1, session default, fingerprint"
        in result.text
    )
    assert 'data-testid="tract-profile-operations"' in result.html
    assert "It has no operations." in shell.run("%tract profile my diary").text


def test_blocks_are_shown_with_their_descriptions(shell):
    tract = shell.namespace["tract"]
    block = OperationBlock.of(
        "weather",
        [run_operation("w", order=1, text="x")],
        name="Skies",
        description="what it is like",
        version=3,
    )
    tract.profiles.save(OperationProfile.of("blocky", blocks=[block], description="an example"))
    text = shell.run("%tract profile blocky").text
    assert "for an example" in text
    assert "block weather (Skies), version 3: what it is like" in text


def test_a_profile_is_activated_and_put_aside(shell):
    assert "Profile my diary: active" in shell.run("%tract profile my diary --activate").text
    assert re.search(r"→ +my diary", shell.run("%tract profiles").text)
    assert "Profile my diary: active" in shell.run("%tract profile").text
    assert "No profile is active" in shell.run("%tract profile --off").text
    assert "→" not in shell.run("%tract profiles").text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("profiles all", "takes no arguments"),
        ("profile nothing", "there is no profile 'nothing'"),
        ("profile reserch --activate", "there is no profile 'reserch'"),
        ("profile", "no profile is active"),
        ("profile --activate", "usage: %tract "),
        ("profile --adopt", "usage: %tract "),
        ("profile --adopt 12345678", "usage: %tract "),
        ("profile research --adopt 12345678 now", "usage: %tract "),
        ("profile research --off", "usage: %tract "),
        ("profile research --activate --off", "usage: %tract "),
        ("profile --of", "Did you mean '--off'? Usage: %tract "),
    ],
)
def test_a_users_mistake_is_one_line(shell, line, told):
    result = shell.run(f"%tract {line}")
    assert not result.ok
    assert told in result.error


def test_a_profile_of_another_user_is_shown_but_not_used(shell, foreign):
    assert re.search(r"theirs +1 +not used: you have not saved it here", shell.run("%tract profiles").text)
    result = shell.run("%tract profile theirs")
    assert "Profile theirs: not used" in result.text
    assert f"--adopt {foreign.fingerprint[:8]} adopts exactly this version" in result.text
    assert re.search(r"hint +template", result.text)
    assert "Name the year." in result.text
    assert "Name the year." in result.html
    assert "adopt it" in shell.run("%tract profile theirs --activate").error
    assert "adopt it" in shell.run("%%tract_run --profile theirs\nWhich?").error


def test_a_profile_of_another_user_is_adopted_by_its_fingerprint(shell, foreign):
    shown = shell.run("%tract profile theirs --adopt").text  # shows the profile, but does not adopt it
    assert "not used" in shown
    assert "has another fingerprint" in shell.run("%tract profile theirs --adopt 12345678").error
    assert (
        "has another fingerprint"
        in shell.run(f"%tract profile theirs --adopt {foreign.fingerprint[:7]}").error
    )
    assert "not used" in shell.run("%tract profiles").text
    result = shell.run(f"%tract profile theirs --adopt {digest(foreign.to_dict())[:8]}")
    assert "It is now yours, and runs may use it." in result.text
    assert "not used" not in shell.run("%tract profiles").text
    assert shell.run("%tract profile theirs --activate").ok
    assert "Nothing was changed" in shell.run("%tract profile theirs --adopt").text


def test_an_active_profile_of_another_user_stops_runs(shell, foreign, others, model):
    others.profiles.activate("theirs")
    assert re.search(r"→ +theirs", shell.run("%tract profiles").text)
    assert "Profile theirs: not used" in shell.run("%tract profile").text
    assert "adopt it" in shell.run("%%tract_run\nWhich?").error
    assert model.asked == []
