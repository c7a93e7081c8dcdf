"""Operations written in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile import (
    OperationBlock,
    OperationProfile,
    read_profile,
    run_operation,
)


def wrong(*args, **fields):
    with pytest.raises(ProfileError) as caught:
        run_operation(*args, **{"order": 1, **fields})
    return caught.value.problems[0]


def config(*args, **fields):
    return run_operation(*args, **{"order": 1, "text": "x", **fields}).config.to_dict()


def test_a_line_makes_an_operation():
    """R16, R24, X04: id, kind, order, text, and target of the value."""
    one = run_operation("summary", kind="template", order=10, text="{{a}}", tag="sum", into="system")
    assert (one.id, one.definition.name, one.definition.kind) == ("summary", "summary", "template")
    assert one.config.to_dict() == {
        "order": 10,
        "params": {"template": "{{a}}"},
        "artifact": {"tag": "sum", "exposures": [{"type": "prompt_part"}]},
    }


def test_order_is_mandatory_here_too():
    """R24: no operation gets a position by accident."""
    with pytest.raises(TypeError, match="order"):
        run_operation("a", text="x")


@pytest.mark.parametrize(("into", "exposure"), [
    ("user", {"type": "prompt_message"}), ("tail", {"type": "prompt_message", "anchor": "depth_from_end"}),
    ("message", {"type": "turn_rewrite", "target": "current_user_main"}),
    ({"type": "prompt_part", "mode": "replace"}, {"type": "prompt_part", "mode": "replace"}),
])  # fmt: skip
def test_places_are_exposures(into, exposure):
    """X04, R42, R44, R49: keywords for the usual exposures; JSON for all."""
    assert config("a", into=into)["artifact"]["exposures"] == [exposure]
    assert config("a", into=[into, "system"])["artifact"]["exposures"] == [exposure, {"type": "prompt_part"}]


def test_the_rest_finds_its_place():
    """R18, R22, R27, R50: known keywords set fields of the configuration and the artifact; all
    others are parameters."""
    found = config("a", "llm", required=True, when="after", into="reply", keep=True, history={"maxItems": 3}, model="m",
                   strict_variables=True, timeout_ms=5, name="A b")  # fmt: skip
    assert found == {
        "order": 1, "required": True, "hooks": ["after_main_llm"], "timeoutMs": 5,
        "params": {"model": "m", "strictVariables": True, "prompt": "x"},
        "artifact": {"tag": "a_b", "persistence": "persisted", "history": {"maxItems": 3},
                     "exposures": [{"type": "turn_rewrite", "target": "assistant_output_main"}]},
    }  # fmt: skip
    assert "artifact" not in config("a")


def test_guards_and_conditions():
    """R40, E22, E23: the guard in a condition becomes a dependency; ids may contain dots."""
    guard = run_operation("is.it", "guard", order=1, outputs=["night"], text="Is it night?")
    asked = run_operation("a", order=2, text="x", after="b", only_if={"is.it.night": False})
    assert guard.config.params["engine"] == "aux_llm"
    assert asked.config.depends_on == ("b", "is.it")
    assert asked.config.run_conditions[0].to_dict() == {"source": "is.it", "output": "night", "is": False}
    liquid = run_operation("g", "guard", order=1, engine="liquid", outputs=["k"], text='{"k": true}')
    assert liquid.config.params["template"] == '{"k": true}'


def test_errors_suggest_a_correction():
    """R54: immediately, in the line of the mistake."""
    assert wrong("a", text="x", into="sytem")[2].endswith("Did you mean 'system'?")
    assert "guard.g" in wrong("a", text="x", only_if={"g": True})[2]
    assert "{'guard.output': True}" in wrong("a", text="x", only_if="guard.g")[2]
    rule, _, message = wrong("a", text="x", when="befor")
    assert rule == "hooks_invalid"
    assert message.endswith("Did you mean 'before'?")
    assert wrong("a", text="x", when=["before"])[0] == "hooks_invalid"
    assert config("a", when="after_main_llm") == config("a", when="after")
    assert wrong("a", text="x", order="first")[0] == "order_invalid"
    assert wrong("a")[0] == "template_required"
    assert wrong("a", "llm", text="x", temprature=1)[0] == "unknown_field"
    assert wrong("a", text="x", after="a")[0] == "self_dependency"


names = st.text("abcXYZ é1_.", min_size=1, max_size=8).filter(str.strip)
operations = st.builds(
    lambda name, order, into, required, when, keep: run_operation(
        name, "mine", order=order, text="x", into=into, required=required, when=when, keep=keep, tag=None
    ),
    names, st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([(), "message"]), st.booleans(),
    st.sampled_from(["before", "after", "both"]), st.booleans(),
)  # fmt: skip


@given(
    st.lists(operations, max_size=4, unique_by=lambda one: one.id),
    st.sampled_from(["concurrent", "sequential"]),
)
def test_a_profile_survives_its_json(these, mode):
    """E19, R8: reading written data gives the same profile, and a second validation changes nothing."""
    for one in these:
        assert type(one).from_dict(one.to_dict()) == one
    unique = [one for one in these if not one.config.artifact]
    profile = OperationProfile.of("p", unique, [OperationBlock.of("b", these[:1])], execution_mode=mode)
    assert OperationProfile.from_dict(profile.to_dict()) == profile
    assert read_profile(profile) == read_profile(profile.to_dict()) == profile


def test_a_trigger_may_stand_alone():
    """As for `after`."""
    assert config("a", triggers="regenerate")["triggers"] == ["regenerate"]


@pytest.mark.parametrize("given", [run_operation("a", order=1, text="x"), {"operationId": "a"}, "a", None, 3])
def test_operations_come_as_a_list(given):
    """The error names the given value, not its items."""
    for make in (OperationProfile.of, OperationBlock.of):
        with pytest.raises(ProfileError, match="give a list of operations, not "):
            make("p", given)
    with pytest.raises(ProfileError, match="give a list of blocks, not "):
        OperationProfile.of("p", [], given)


def test_json_that_is_not_a_profile_has_a_readable_error():
    """Without messages of the validation library."""
    with pytest.raises(ProfileError, match="profileId is missing"):
        OperationProfile.from_dict({"name": "p"})


def test_profiles_and_blocks_are_shown_in_a_line():
    """With the ids of their operations, shortened."""
    many = [run_operation(f"o{place}", order=place, text="x") for place in range(10)]
    block = OperationBlock.of("weather", many)
    assert repr(block) == "<OperationBlock 'weather': o0, o1, o2, o3, o4, o5, o6, o7, and 2 more>"
    profile = OperationProfile.of("guide", many[:1], [OperationBlock.of("weather", many[1:3])])
    assert repr(profile) == str(profile) == "<OperationProfile 'guide': o0, weather:o1, weather:o2>"
    assert repr(OperationProfile.of("empty")) == "<OperationProfile 'empty': no operations>"


def test_a_word_may_stand_alone():
    """A single output is not split into letters; None means no outputs."""
    guard = run_operation("g", "guard", order=1, text="?", outputs="night")
    assert guard.config.params["outputContract"] == [{"key": "night"}]
    assert config("a", after=None, into=None) == config("a")


@pytest.mark.parametrize("what", ["after", "outputs", "into"])
def test_a_number_in_place_of_a_word_is_refused(what):
    """The value is not iterated either."""
    assert wrong("a", text="x", **{what: 3})[2] == f"{what} must be a word or a list of words, not 3"


def test_a_dependency_is_named_by_its_id():
    """An operation object in its place is an error with a hint."""
    other = run_operation("other", order=1, text="x")
    assert wrong("a", text="x", after=other)[2] == "after takes ids: write after='other'"


@pytest.mark.parametrize(("kind", "meant"), [("templat", "template"), ("gaurd", "guard"), ("ragg", "rag")])
def test_a_misspelt_kind_is_refused_with_the_nearest_name(kind, meant):
    with pytest.raises(ProfileError, match=f"there is no kind '{kind}'. Did you mean '{meant}'") as caught:
        run_operation("a", kind, order=1)
    assert [(code, where) for code, where, _ in caught.value.problems] == [
        ("unsupported_kind", "operation 'a', kind")
    ]


@pytest.mark.parametrize("kind", [None, 3, ["llm"], ""])
def test_an_invalid_kind_name_is_refused(kind):
    with pytest.raises(ProfileError):
        run_operation("a", kind, order=1)


def test_text_is_a_parameter_of_other_kinds():
    """R16: a kind of another package may have a parameter `text`."""
    assert run_operation("a", "shout", order=1, text="x").config.params == {"text": "x"}
