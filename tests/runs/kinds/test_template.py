"""Kind `template`."""

import pytest

from tests.runs.kinds.support import done, operation_of, told, value
from tract_jupyter.runs.kinds import TemplateKind

KIND = TemplateKind()


def test_its_value_is_the_rendered_text():
    """E21, R50: the text becomes the artifact; no model is needed."""
    params = {"template": "<{{ lastUserMessage }}>"}
    result = done(KIND, operation_of("template", params, debug={"enabled": True}))
    assert value(result) == "<hello>"
    assert result.debug["rendered"] == "<hello>"


def test_a_template_without_an_artifact_has_no_effects():
    assert done(KIND, operation_of("template", {"template": "x"}, artifact=None)).effects == ()


@pytest.mark.parametrize(("params", "code"), [
    ({"template": "{{ nope }}", "strictVariables": True}, "template_render_error"),
    ({"template": "{{ nope"}, "template_render_error"),
    ({"template": "{% for i in (1..999999999) %}{% endfor %}"}, "template_render_error"),
    ({}, "validation_error"),
    ({"template": 3}, "validation_error"),
    ({"template": "x", "shell": "rm"}, "validation_error"),
])  # fmt: skip
def test_each_kind_of_template_error_has_its_code(params, code):
    """E21, R55: a missing variable, a syntax error and wrong parameters have different codes."""
    assert told(done(KIND, operation_of("template", params))) == code


def test_wrong_template_parameters_are_found_before_saving():
    """E21, R27: wrong parameters and syntax errors are found without running anything."""

    def rules(params):
        return [rule for rule, _ in KIND.check(operation_of("template", params))]

    assert rules({"template": "{{ nope }}"}) == []
    assert rules({"template": "{{ nope"}) == ["template_syntax"]
    assert rules({}) == ["template_required"]
    assert rules({"template": "x", "more": 1}) == ["unknown_field"]
