"""The repr of an object whose constructor failed: a traceback may show it."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

import tract_jupyter
from tests.test_structure import PARTS
from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm import AnthropicClient, OpenAIClient, ResponsesClient

CLASSES = sorted(
    {
        one
        for package in (tract_jupyter, *(import_module(f"tract_jupyter.{name}") for name in sorted(PARTS)))
        for name in dir(package)
        if inspect.isclass(one := getattr(package, name)) and one.__module__.startswith("tract_jupyter")
    },
    key=lambda one: (one.__module__, one.__qualname__),
)


@pytest.mark.parametrize("client", [OpenAIClient, ResponsesClient, AnthropicClient])
def test_a_client_that_was_refused_has_a_repr(client):
    made = client.__new__(client)
    with pytest.raises(LLMConfigError):
        made.__init__("m", timeout="soon", api_key="sk-secret")
    assert repr(made) == f"<{client.__name__}, not completely constructed>"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__qualname__}")
def test_every_public_repr_works_before_the_constructor(cls):
    if "__init__" not in vars(cls) or hasattr(cls, "__dataclass_fields__") or issubclass(cls, BaseException):
        return  # its fields are all there before anything is checked
    try:
        made = cls.__new__(cls)
    except TypeError:  # an abstract class, or one with arguments
        return
    assert cls.__name__ in repr(made)
