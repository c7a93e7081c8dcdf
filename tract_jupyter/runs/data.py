"""What all data of runs has in common: frozen, checked, the JSON of the documents (`operationId`, `dependsOn`, ...)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Iterable


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

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # a line that a person can read: without defaults, and words for enums
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.get_default(call_default_factory=True, validated_data={}):
                yield name, value.value if isinstance(value, StrEnum) else value

    def __str__(self) -> str:
        return repr(self)

    def __dir__(self) -> list[str]:
        # completion offers what is ours
        return [name for name in super().__dir__() if name.startswith("__") or name not in _PYDANTIC]


_PYDANTIC = frozenset(dir(BaseModel))


class Tagged(Data):
    """One of a union, told apart by its `type`, which its JSON form always has."""

    @model_serializer(mode="wrap")
    def _with_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"type": self.type, **handler(self)}  # type: ignore[attr-defined]
