"""JSON Schemas for property tests: some that make sense, some that only look like it."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "class", "x-y", "x_y", '"""', "list", "\n", "__a"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -0.0, "", "a", "b", "ab", "x-y"])
)
VALUES = st.recursive(
    LEAVES,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
KEYWORDS = st.sampled_from([
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
    "$ref", "$defs", "definitions", "$id", "$anchor", "$schema", "$dynamicRef", "$dynamicAnchor", "enum", "const",
    "default", "description", "title", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "contains", "minimum",
    "multipleOf", "maxLength", "pattern", "uniqueItems", "format",
])  # fmt: skip
WORDS = st.sampled_from(["#", "#/$defs/d", "#/properties/a", "object", "string", "(a+)+$", "[", '"""\n'])


def objects(values, most=3):
    return st.dictionaries(NAMES, values, max_size=most)


def some(values, most=3):
    return st.lists(values, min_size=1, max_size=most)


def _extended(schemas):
    sizes = dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties"), st.integers(0, 2)
    )
    return st.fixed_dictionaries({}, optional={
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
        "properties": objects(schemas), "required": st.lists(NAMES, max_size=2, unique=True),
        "items": schemas, "prefixItems": some(schemas, 2), "contains": schemas, "uniqueItems": st.booleans(),
        "anyOf": some(schemas), "oneOf": some(schemas), "allOf": some(schemas, 2), "not": schemas,
        "if": schemas, "then": schemas, "else": schemas,
        "additionalProperties": schemas, "propertyNames": schemas,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^x", "."]), schemas, max_size=2),
        "enum": some(VALUES), "const": VALUES, "default": VALUES, "description": st.text(max_size=5),
        "minimum": st.integers(-2, 2), "maximum": st.integers(-2, 2), "multipleOf": st.sampled_from([1, 2, 0.5]),
        "pattern": st.sampled_from(["a", "^b$", "", "[xy]"]), **sizes,
        "$ref": st.sampled_from(["#/$defs/d", "#/$defs/e", "#"]),
    })  # fmt: skip


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({"type": KINDS}), _extended, max_leaves=10)
JUNK = st.recursive(
    LEAVES | WORDS,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(KEYWORDS | NAMES, parts, max_size=4),
    max_leaves=12,
).filter(lambda made: isinstance(made, dict))


@st.composite
def argument_schemas(draw):
    """The schema of a tool's arguments."""
    top = draw(SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
    made = {
        **top,
        "properties": {**top.get("properties", {}), **draw(objects(SCHEMAS, 4))},
        "$defs": {"d": draw(SCHEMAS), "e": draw(SCHEMAS)},
    }
    return {**made, "type": "object"} if draw(st.booleans()) else made
