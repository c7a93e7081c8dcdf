"""One description of values in four forms: parameters, JSON Schema, Python types, and the text of stubs.

* Parameters: from a function with `Parameters.of`, from Python types with `Parameters`, from a JSON Schema with
  `SchemaParameters`. Both kinds are a `ParameterSet`, and nobody else asks which. In `parameters` and
  `schema_parameters`.
* JSON Schema: of parameters `.json_schema`, for providers of models `.object_schema` and `strict_schema`
  (`providers`, which reads the answers too).
* Python types: from text with `parse_type`, from a function with `hints_of`, from a JSON Schema with `TypeReader`,
  from parameters with `.types()`; `without_json_form` finds what JSON cannot express. In `types`.
* Text: of a type `type_text`, of a signature `.signature_text()`, of whole functions `stub_source` (`stub_text`).

Values drawn from types, for trying code, are in `drawn`. `JSON_TYPES` is the one table between JSON's types and
Python's. `JsonSchema` checks a schema that somebody else wrote and bounds what validating costs (`json_schema`).
`without_nulls` reads an answer that was written for a strict schema.

Each name is imported when it is first used: pydantic and jsonschema take long.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
