"""One description of values in four forms: parameters, JSON Schema, Python types, and the text of stubs.

* Parameters: from a function with `Parameters.of`, from Python types with `Parameters`, from a JSON Schema with
  `SchemaParameters`. Both kinds are a `ParameterSet`, and nobody else asks which.
* JSON Schema: of parameters `.json_schema`, for providers of models `.object_schema` and `strict_schema`.
* Python types: from text with `parse_type`, from a function with `hints_of`, from a JSON Schema with `TypeReader`, from
  parameters with `.types()`; `without_json_form` finds what JSON cannot express.
* Text: of a type `type_text`, of a signature `.signature_text()`, of whole functions `stub_source`.

`JSON_TYPES` is the one table between JSON's types and Python's. `JsonSchema` checks a schema that somebody else wrote
and bounds what validating costs. `without_nulls` reads an answer that was written for a strict schema.

Each name is imported when it is first used: pydantic and jsonschema take long.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tract_jupyter.models.schema.json_schema import JsonSchema, count_parts
    from tract_jupyter.models.schema.parameters import REQUIRED, Parameter, Parameters, ParameterSet, hints_of
    from tract_jupyter.models.schema.providers import object_schema, strict_schema, without_nulls
    from tract_jupyter.models.schema.schema_parameters import SchemaParameters
    from tract_jupyter.models.schema.stub_text import stub_source
    from tract_jupyter.models.schema.types import (
        JSON_TYPES,
        Record,
        TypeReader,
        parse_type,
        type_text,
        without_json_form,
    )

__all__ = [
    "JSON_TYPES",
    "REQUIRED",
    "JsonSchema",
    "Parameter",
    "ParameterSet",
    "Parameters",
    "Record",
    "SchemaParameters",
    "TypeReader",
    "count_parts",
    "hints_of",
    "object_schema",
    "parse_type",
    "strict_schema",
    "stub_source",
    "type_text",
    "without_json_form",
    "without_nulls",
]

_MODULES = {
    "json_schema": ("JsonSchema", "count_parts"),
    "parameters": ("REQUIRED", "Parameter", "ParameterSet", "Parameters", "hints_of"),
    "providers": ("object_schema", "strict_schema", "without_nulls"),
    "schema_parameters": ("SchemaParameters",),
    "stub_text": ("stub_source",),
    "types": ("JSON_TYPES", "Record", "TypeReader", "parse_type", "type_text", "without_json_form"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
