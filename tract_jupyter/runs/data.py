"""What all data of runs has in common: frozen, checked, the JSON of the documents (`operationId`, `dependsOn`, ...)."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel


class Data(BaseModel):
    """A value with a JSON form. Its fields may be given by either spelling, `depends_on` or `dependsOn`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form, without what is None or empty by default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """Read its JSON form.

        Raises:
            pydantic.ValidationError: it is none; lists every problem.
        """
        return cls.model_validate(value)


class Tagged(Data):
    """One of a union, told apart by its `type`, which its JSON form always has."""

    @model_serializer(mode="wrap")
    def _with_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"type": self.type, **handler(self)}  # type: ignore[attr-defined]
