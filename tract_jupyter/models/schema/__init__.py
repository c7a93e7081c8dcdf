"""One description of values in four forms: parameters, JSON Schema, Python types, and the text of stubs.

* Parameters: from a function with `Parameters.of`, from Python types with `Parameters`, from a JSON Schema with
  `SchemaParameters`. Both kinds are a `ParameterSet`. In `parameters` and `schema_parameters`.
* JSON Schema: of parameters `.json_schema`, for providers of models `.object_schema` and `strict_schema`
  (`providers`, which also reads the answers).
* Python types: from text with `parse_type`, from a function with `hints_of`, from a JSON Schema with `TypeReader`,
  from parameters with `.types()`; `without_json_form` finds types that JSON cannot express. In `types`.
* Text: of a type `type_text`, of a signature `.signature_text()`, of functions `stub_source` (`stub_text`).

`drawn` draws values from types, to try code. `JSON_TYPES` is the one table between JSON's types and Python's.
`JsonSchema` checks a foreign schema and bounds the cost of validation (`json_schema`). `without_nulls` reads an answer
to a strict schema.

Each name is imported on first use, because pydantic and jsonschema are slow to import.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
