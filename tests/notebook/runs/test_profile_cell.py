"""`%%tract_profile`: a profile in a cell, checked by its lines, completed, saved and shown."""

import pytest

GUIDE = """\
%%tract_profile guide
description: short answers
operations:
  question:
    kind: guard
    engine: liquid
    text: '{"is_question": true}'
    outputs: [is_question]
  style:
    text: " Be brief."
    into: system
    required: true
  praise:
    text: Say thanks.
    into: user
    only_if: {question.is_question: false}
"""


def test_a_profile_is_saved_and_shown(shell, model):
    result = shell.run(GUIDE)
    assert result.ok, result.error
    assert "Saved. %tract profile guide --activate uses it." in result.text
    assert "tract-profile-operations" in result.html
    profile = shell.namespace["tract"].profiles.get("guide")
    assert [one.id for one in profile.operations] == ["question", "style", "praise"]
    assert [one.config.order for one in profile.operations] == [10, 20, 30]
    assert profile.operations[1].config.required
    assert profile.description == "short answers"
    assert shell.namespace["tract"].profiles.active is None


def test_an_activated_profile_is_used(shell, model):
    result = shell.run(GUIDE.replace("guide\n", "guide --activate\n", 1))
    assert "Saved and active" in result.text
    assert shell.namespace["tract"].profiles.active.name == "guide"
    assert "Be brief." in shell.run("%%tract_run\nWell?").html


def test_the_check_option_saves_nothing(shell, model):
    result = shell.run(GUIDE.replace("guide\n", "guide --check\n", 1))
    assert "Nothing was saved." in result.text
    assert "guide" not in [one.name for one in shell.namespace["tract"].profiles.list()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("required:", "requird:", "line 12: there is no field 'requird'. Did you mean 'required'?"),
        ("description:", "descripton:", "line 2: there is no field 'descripton'. Did you mean 'description'?"),
        ("kind: guard", "kind: gaurd", "line 5: there is no kind 'gaurd'. Did you mean 'guard'?"),
        ("kind: guard", "kind: 7", "line 5: there is no kind 7. There are compute,"),
        ("into: system", "into: sistem", "line 11: operation 'style', into: Unknown place 'sistem'"),
        ("required: true", "required: maybe", "line 12: "),
        ("question.is_question", "questoin.is_question", "line 16: "),
        ("question.is_question", "question", "line 16: operation 'praise', only_if: 'question' names no output"),
        ('text: " Be brief."', "kind: compute\n    function: contu", "line 11: no function 'contu' is registered."),
        ('text: " Be brief."', "kind: llm\n    text: Hm?\n    provider_ref: nosuch", "line 12: operation 'style'"),
        ('text: " Be brief."', "text: ' {{ broken'", "line 10: operation 'style'"),
        ("operations:\n", "operations: [1]\nmore:\n", "line 3: operations must be a mapping of names"),
        ("  style:\n", "  style: 1\n  other:\n", "line 9: operation 'style' has fields"),
        ("  style:\n", "  question:\n", "named twice"),
        ("  style:\n", "  style\n", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line_and_nothing_is_saved(shell, model, was, now, told):
    shell.namespace["tract"].functions.register("count")(lambda context, arguments: 1)
    assert was in GUIDE
    result = shell.run(GUIDE.replace(was, now, 1))
    assert not result.ok
    assert told in result.error
    assert "guide" not in [one.name for one in shell.namespace["tract"].profiles.list()]


def test_all_mistakes_are_reported_at_once(shell, model):
    result = shell.run(GUIDE.replace("required:", "requird:").replace("kind: guard", "kind: gaurd"))
    assert [line.partition(":")[0] for line in result.error.splitlines()] == ["line 5", "line 12"]


def test_an_empty_cell_is_refused(shell, model):
    assert (
        "the YAML body must be an object with description and operations"
        in shell.run("%%tract_profile guide\n\n").error
    )
    assert not shell.run("%%tract_profile\noperations: {}\n").ok


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("%%tract_profile guide --", {"--activate", "--check"}),
        ("%%tract_profile guide\nde", {"description: "}),
        ("%%tract_profile guide\ndescription: x\n", {"operations: ", "execution_mode: "}),
        ("%%tract_profile guide\nexecution_mode: se", {"sequential"}),
        ("%%tract_profile guide\noperations:\n  one:\n    ki", {"kind: "}),
        ("%%tract_profile guide\noperations:\n  one:\n    kind: gu", {"guard"}),
        ("%%tract_profile guide\noperations:\n  one:\n    kind: guard\n    en", {"engine: ", "enabled: "}),
        ("%%tract_profile guide\noperations:\n  one:\n    kind: compute\n    function: co", {"count"}),
        ("%%tract_profile guide\noperations:\n  one:\n    into: ", {"system", "user", "tail"}),
        ("%%tract_profile guide\noperations:\n  one:\n    required: t", {"true"}),
        ("%%tract_profile guide\noperations:\n  one:\n    text: x\n  two:\n    after: o", {"one"}),
        ("%%tract_profile guide\noperations:\n  one:\n    kind: tool\n    tool: comm", {"commit"}),
    ],
)
def test_fields_kinds_and_names_are_completed(shell, model, typed, offered):
    shell.namespace["tract"].functions.register("count")(lambda context, arguments: 1)
    assert offered <= set(shell.complete(typed))


def test_completion_does_not_offer_existing_fields(shell, model):
    typed = "%%tract_profile guide\noperations:\n  one:\n    kind: guard\n    "
    assert "kind: " not in shell.complete(typed)
