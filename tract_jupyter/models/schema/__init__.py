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

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

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
else:
    __getattr__ = door(
        __name__,
        {
            "JSON_TYPES": "tract_jupyter.models.schema.types",
            "JsonSchema": "tract_jupyter.models.schema.json_schema",
            "Parameter": "tract_jupyter.models.schema.parameters",
            "ParameterSet": "tract_jupyter.models.schema.parameters",
            "Parameters": "tract_jupyter.models.schema.parameters",
            "REQUIRED": "tract_jupyter.models.schema.parameters",
            "Record": "tract_jupyter.models.schema.types",
            "SchemaParameters": "tract_jupyter.models.schema.schema_parameters",
            "TypeReader": "tract_jupyter.models.schema.types",
            "count_parts": "tract_jupyter.models.schema.json_schema",
            "hints_of": "tract_jupyter.models.schema.parameters",
            "object_schema": "tract_jupyter.models.schema.providers",
            "parse_type": "tract_jupyter.models.schema.types",
            "strict_schema": "tract_jupyter.models.schema.providers",
            "stub_source": "tract_jupyter.models.schema.stub_text",
            "type_text": "tract_jupyter.models.schema.types",
            "without_json_form": "tract_jupyter.models.schema.types",
            "without_nulls": "tract_jupyter.models.schema.providers",
        },
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
