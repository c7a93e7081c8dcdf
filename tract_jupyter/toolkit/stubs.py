"""`tools`: every tool as a plain Python function.

Each access builds the function from the tool's current schema. New tools therefore appear at once, and removed tools
disappear at once.
"""

from __future__ import annotations

import types
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ParameterError, ToolExecutionError, nearest
from tract_jupyter.models import brief_repr, printable, repr_of_whole
from tract_jupyter.models.schema import stub_source, type_text
from tract_jupyter.toolkit.callers import USER, current_caller
from tract_jupyter.toolkit.names import HELPERS, all_functions, functions
from tract_jupyter.toolkit.results import CallRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.pendings import Approval
    from tract_jupyter.toolkit.savings import Savings


_LOG_LENGTH = 10_000


class ToolBridge:
    """The bridge from code to tools. It logs each call.

    Attributes:
        call_log: the newest 10,000 calls, oldest first.
    """

    def __init__(self, executor: ToolExecutor, *, actor: str = USER) -> None:
        self.executor = executor
        self.actor = actor
        self.call_log: deque[CallRecord] = deque(maxlen=_LOG_LENGTH)

    def call(self, name: str, arguments: Mapping[str, Any], *, approval: Approval | None = None) -> Any:
        """Call a tool and return its output. Within a script, the script makes the call.

        `approval`: the approval of this call, if there is one already.
        """
        __tracebackhide__ = True
        started = perf_counter()
        executor = self.executor
        script = current_caller(executor)
        if script is None:
            result = executor.execute(name, arguments, actor=self.actor, approval=approval)
        else:
            result = script.execute(executor, name, arguments)
        seconds = perf_counter() - started
        if not result.replayed:
            actor = script.actor if script else self.actor
            record = CallRecord(name, arguments, actor, result.success, result.error, seconds)
            self.call_log.append(record)
        return result.output if result.success and result.told is None else result.value(arguments)


class ToolsModule(types.ModuleType):
    """The module object `tools` in a notebook, or one of its namespaces."""

    def __init__(self, bridge: ToolBridge, name: str = "tools", namespace: str = "") -> None:
        super().__init__(
            name, f"Every tool as a function: {name}.list_tools() names them, {name}.<name>? explains one."
        )
        # no tool can have this name
        self.__dict__["__helpers__"] = _Helpers(bridge, name, namespace)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that the module's dict lacks: for all tools.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self.__dict__["__helpers__"].find(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"'tools' has only the registered tools; {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"'tools' has only the registered tools; {name!r} cannot be deleted")

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__["__helpers__"].names(), *HELPERS})

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<{self.__name__}: {', '.join(dir(self))}>"


class _Helpers:
    """The names of `tools`, and its helper functions."""

    def __init__(self, bridge: ToolBridge, module: str, namespace: str) -> None:
        self._bridge = bridge
        self._module = module
        self.executor = bridge.executor
        self.namespace = namespace
        self._stubs: dict[str, tuple[Callable[..., Any], ToolDefinition]] = {}
        self._spaces: dict[str, ToolsModule] = {}

    def find(self, name: str) -> Any:
        """Return the function, namespace or helper with a name."""
        executor = self._bridge.executor
        stub, definition = self._stubs.get(name, (None, None))
        if definition is not None and executor.get(definition.name) is definition:
            return stub
        if not self.namespace and name in executor.namespaces():
            return self._space(name)
        functions = self.functions()
        if name in functions:
            self._stubs[name] = make_stub(name, functions[name], self._bridge.call), functions[name]
            return self._stubs[name][0]
        if name in HELPERS:
            return getattr(self, name)
        near = nearest(name, [*self.names(), *HELPERS])
        raise AttributeError(f"no tool {name!r}.{near} {self._module}.list_tools() names them all")

    def _space(self, name: str) -> ToolsModule:
        return self._spaces.setdefault(name, ToolsModule(self._bridge, f"{self._module}.{name}", name))

    def functions(self) -> dict[str, ToolDefinition]:
        """Return the tools of this namespace by their Python names."""
        return functions(self._bridge.executor.tools(), self.namespace)

    def names(self) -> list[str]:
        """Return the Python names of the tools and namespaces here."""
        return [*self.functions(), *([] if self.namespace else self._bridge.executor.namespaces())]

    def list_tools(self) -> dict[str, str]:
        """Return the first line of every tool's description, by Python name."""
        return {
            short: (tool.description.splitlines() or [""])[0] for short, tool in self._all_functions().items()
        }

    def stub_source(self, names: Iterable[str] | None = None, *, docs: bool = True) -> str:
        """Return the tools as the text of a `.pyi` file, for a prompt or a type checker.

        Args:
            names: the Python names of the tools; all by default.
            docs: include the descriptions of tools and arguments.
        """
        known = self._all_functions()
        selected = list(known) if names is None else list(names)
        for name in selected:
            if name not in known:
                raise ToolExecutionError(
                    "stub_source", {"names": selected}, f"no tool {name!r}.{nearest(name, known)}"
                )
        return stub_source({name: known[name] for name in selected}, docs=docs)

    def _all_functions(self) -> dict[str, ToolDefinition]:
        return self.functions() if self.namespace else all_functions(self._bridge.executor.tools())

    @property
    def call_log(self) -> deque[CallRecord]:
        """The newest calls, with their duration in seconds."""
        return self._bridge.call_log

    def savings(self) -> Savings:
        """Return the savings of scripts. Calls outside of scripts do not count."""
        return self._bridge.executor.savings


def make_stub(
    name: str, tool: ToolDefinition, call: Callable[[str, dict[str, Any]], Any]
) -> Callable[..., Any]:
    """Return the function of a tool: `name(arguments...)`, with signature, annotations and docstring.

    `call` makes the call. It receives the tool's own name and the arguments by name.
    """
    target = tool.name

    def stub(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return call(target, _bind(tool, args, kwargs))

    stub.__name__ = stub.__qualname__ = name
    stub.__module__ = "tools"
    stub.__doc__ = _docstring(tool)
    stub.__signature__ = tool.parameters.signature()  # type: ignore[attr-defined]
    stub.__annotations__ = {name: p.annotation for name, p in tool.parameters.arguments.items()}
    return stub


def _bind(tool: ToolDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    __tracebackhide__ = True
    try:
        return tool.parameters.bind(args, kwargs)
    except ParameterError as error:
        raise ToolExecutionError(tool.name, kwargs, "; ".join(error.problems)) from error


def executor_of(module: ToolsModule) -> tuple[ToolExecutor, str]:
    """Return the executor and the namespace of a module. The namespace of `tools` itself is empty."""
    helpers: _Helpers = module.__dict__["__helpers__"]
    return helpers.executor, helpers.namespace


def _docstring(tool: ToolDefinition) -> str:
    lines = [tool.description]
    if len(tool.parameters):
        lines += ["", "Args:"]
    for name, p in tool.parameters.arguments.items():
        default = "" if p.required or p.optional else f" Default: {brief_repr(p.default)}."
        lines.append(f"    {name} ({type_text(p.annotation)}): {p.description}{default}".rstrip())
    lines += ["", "Raises:", "    ToolExecutionError: the call failed or was denied."]
    return printable("\n".join(lines))
