"""A shell whose tract has a model made of a script, and a profile."""

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.review import Trust
from tract_jupyter.runs.profile import OperationProfile, run_operation

RESEARCH = OperationProfile.of("research", [
    run_operation("question", "guard", order=1, engine="liquid", text='{"is_question": true}', outputs=["is_question"],
              required=True),
    run_operation("style", order=2, text=" Be brief.", into="system"),
    run_operation("praise", order=3, text="Say thanks.", into="user", only_if={"question.is_question": False}),
    run_operation("shout", order=4, text="{{ lastAssistantMessage | upcase }}", into="reply", when="after"),
])  # fmt: skip


@pytest.fixture
def model(shell):
    """The model of the shell's tract; two profiles are saved, and none is active."""
    client = ScriptedClient("The survey.", "The census.")
    tract = shell.namespace["tract"]
    tract.configure_llm(client)
    tract.system("Be careful.")
    tract.profiles.save(RESEARCH)
    tract.profiles.save(OperationProfile.of("my diary", description="what happened"))
    return client


@pytest.fixture
def others(shell, model, tmp_path):
    """The same tract, opened by another user."""
    tract = shell.namespace["tract"]
    with Tract.open(tract.location, tract_id=tract.tract_id, trust=Trust(tmp_path / "others")) as theirs:
        yield theirs


@pytest.fixture
def foreign(others):
    """A profile that another user has put into the store."""
    profile = OperationProfile.of(
        "theirs", [run_operation("hint", order=1, text="Name the year.", into="user")]
    )
    others.profiles.save(profile)
    return profile
