"""What is given to a run, and refused in words before there is a run."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError, UnknownProfileError
from tract_jupyter.runs import RunOptions, ThreadWorkers
from tract_jupyter.runs.profile import OperationProfile, run_operation


@pytest.fixture
def asked(tract):
    """A tract with a question, and a model that answers."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.user("Where is it?")
    return tract


@pytest.mark.parametrize("given", [[run_operation("a", order=1, text="x")], {"name": "p"}, 3])
def test_a_profile_is_a_name_or_a_profile(asked, given):
    """A list of operations is made a profile of first."""
    with pytest.raises(ContentError, match=r"Profile\.of\(name, operations\), not "):
        asked.generate(profile=given)
    assert asked.runs() == []


def test_run_options_are_run_options(asked):
    """With and without a profile, and not only once something is taken out of them."""
    for profile in (None, OperationProfile.of("p")):
        with pytest.raises(ContentError, match=r"must be RunOptions\(timeout=60, \.\.\.\), not "):
            asked.generate(profile=profile, run={"timeout": 3})
        with pytest.raises(ContentError, match="on_event must be a function"):
            asked.generate(profile=profile, on_event="print")
    assert asked.runs() == []


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("workers", 2), ("workers", ThreadWorkers), ("limits", {}), ("limits", 3), ("abort", True),
        ("timeout", "5"), ("timeout", True), ("timeout", float("nan")), ("variables", ["user"]),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_used_is_refused_at_once(option, given):
    """Its name, what it is, and what was given."""
    with pytest.raises(ContentError, match=rf"^{option} must be .*, not "):
        RunOptions(**{option: given})


def test_a_profiles_name_is_a_text(tract):
    """The database is not asked."""
    profile = OperationProfile.of("guide")
    tract.profiles.save(profile)
    for use in (tract.profiles.get, tract.profiles.activate, tract.profiles.remove):
        with pytest.raises(
            UnknownProfileError,
            match="a profile's name must be a string, not <OperationProfile 'guide': no operations>",
        ):
            use(profile)
