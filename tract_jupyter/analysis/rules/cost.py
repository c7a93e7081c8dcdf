"""Code that does not end or uses too many resources (TJ701 to TJ704), and the size estimates of these rules.

Sizes are powers of ten: 11.0 means ``10**11``. So a power of a power is as cheap to estimate as a literal.
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.source import arguments_of, last_name
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import CodeView

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.While, ast.For, ast.AsyncFor)
_LEAVES = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
_ENDS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort", "builtins.next"})
_ENDLESS = frozenset({"itertools.count()", "itertools.cycle()"})
_CONSUMES = words("list tuple set sum max min sorted dict frozenset", "builtins.").union(
    ("collections.deque", "collections.Counter")
)
_NEVER_EQUAL = words("int float str list dict object bool", "builtins.")


@register
class NeverEnds(Rule):
    """Loops forever.

    ## Description
    Reports `while True` without an exit, loops over endless iterators, and functions that collect one. The level is
    high if each iteration writes, keeps or starts something without waiting. It is also high if a function starts
    itself in new threads or processes.

    ## Why it matters
    The kernel is busy until the user interrupts it, and the loop repeats its work without limit.

    ## Example
    ```python
    while True:
        pass
    ```

    ## What to do instead
    Count the iterations, `for _ in range(100)`, or leave the loop with `break`.
    """

    code = "TJ702"
    name = "never-ends"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "never ends"
    remedy = "Count the iterations, or leave the loop with break."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check loops, and functions that consume iterators."""
        for loop in view.of(ast.While):
            if _always(loop.test) and not has_exit(loop, view):
                yield self._endless(loop, loop.test, view)
        for each in view.of(ast.For):
            if (_is_endless(each.iter, view) or _grows(each)) and not has_exit(each, view):
                yield self._endless(each, each.iter, view)
        for call, reason in _starts_itself(view):
            yield self.finding(view, call, reason, HIGH, LIKELY)
        for iterable in view.collected():
            if _is_endless(iterable, view):
                yield self.finding(view, iterable, "Collecting this never ends.")
        for call in view.calls_to(_CONSUMES):
            if call.args and _is_endless(call.args[0], view):
                yield self.finding(view, call, "Collecting this never ends.", confidence=LIKELY)

    def _endless(self, loop: ast.While | ast.For, place: ast.expr, view: CodeView) -> Finding:
        if _piles_up(loop, view):
            return self.finding(
                view, place, "This loop never ends, and each round takes more of the machine.", HIGH
            )
        return self.finding(view, place, "This loop never ends.")


_WAITS = words("sleep wait recv receive get readline read accept poll join input")
_PILES_UP = words(
    "write writelines write_text write_bytes append extend makedirs mkdir touch submit Thread Process Popen fork dump"
)


def _piles_up(loop: ast.While | ast.For, view: CodeView) -> bool:
    """Return True if each iteration writes, keeps or starts something, and none waits."""
    piles = False
    for node in view.deadline.watched(part for statement in loop.body for part in ast.walk(statement)):
        if isinstance(node, ast.AugAssign):
            same = isinstance(node.value, ast.Name) and ast.unparse(node.target) == node.value.id
            piles |= (
                same
                or isinstance(node.value, (ast.List, ast.Tuple))
                or bool(view.resolver.value(node.value).texts)
            )
        elif isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in _WAITS:
                return False
            piles |= name in _PILES_UP
    return piles


_STARTERS = words(
    "Process Thread Timer submit apply_async map_async run_in_executor start_new_thread create_task spawn start_soon"
)


def _starts_itself(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls by which a function hands itself to a new thread or process, if no condition prevents it."""
    for call in view.of(ast.Call):
        if last_name(call.func) in _STARTERS:
            function = _function_around(call, view)
            if function and any(
                isinstance(each, ast.Name) and each.id == function for each in arguments_of(call)
            ):
                yield call, f"{function} starts itself again and again."


def _function_around(node: ast.AST, view: CodeView) -> str:
    """Return the name of the function that always reaches this node; empty if there is none."""
    around = view.parent(node)
    while around is not None and not isinstance(
        around, (ast.If, ast.Try, ast.IfExp, ast.Lambda, ast.ClassDef)
    ):
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return around.name
        around = view.parent(around)
    return ""


def _grows(loop: ast.For) -> bool:
    """Return True if each iteration appends to the list that the loop iterates over."""
    if not isinstance(loop.iter, ast.Name):
        return False
    calls = [statement.value for statement in loop.body if isinstance(statement, ast.Expr)]
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"append", "insert"}
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == loop.iter.id
        for call in calls
    )


def _always(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _is_endless(node: ast.expr, view: CodeView) -> bool:
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Name) and not view.resolver.value(node).names.isdisjoint(_ENDLESS)
    names = view.resolver.value(node.func).names
    if "builtins.iter" in names:
        two = len(node.args) == 2  # noqa: PLR2004 - a function and a sentinel
        return two and not view.resolver.value(node.args[0]).names.isdisjoint(_NEVER_EQUAL)
    if "itertools.repeat" in names:
        return len(node.args) == 1 and not node.keywords
    if "builtins.map" in names:  # ends with its shortest iterable
        return len(node.args) > 1 and all(_is_endless(argument, view) for argument in node.args[1:])
    if names & {"builtins.enumerate", "builtins.filter"}:
        return any(_is_endless(argument, view) for argument in node.args)
    return not {f"{name}()" for name in names}.isdisjoint(_ENDLESS)


def has_exit(loop: ast.While | ast.For, view: CodeView) -> bool:
    """Return True if the body has a way out of this loop: ``break``, ``return``, an exception, ``yield``."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False) for statement in loop.body]
    steps = 0
    while stack:
        node, nested = stack.pop()
        steps += 1
        if not steps % _CHECKED:
            view.deadline.check()
        if isinstance(node, _LEAVES) or (isinstance(node, ast.Break) and not nested) or _ends_all(node, view):
            return True
        if not isinstance(node, _FUNCTIONS):
            inner = nested or isinstance(node, _LOOPS)
            stack.extend((child, inner) for child in ast.iter_child_nodes(node))
    return False


_CHECKED = 1024


def _ends_all(node: ast.AST, view: CodeView) -> bool:
    return isinstance(node, ast.Call) and not view.resolver.value(node.func).names.isdisjoint(_ENDS)


_LONG_SLEEP = 3.5  # log10 of seconds: about an hour


@register
class WaitsForever(Rule):
    """Waits forever.

    ## Description
    Reports a lock that is acquired twice in a row, sleeping for an hour or more, and waiting for an event or queue
    that no code sets or fills.

    ## Why it matters
    The kernel hangs until the user interrupts it. On some systems, waiting for a lock cannot be
    interrupted.

    ## Example
    ```python
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    ```

    ## What to do instead
    Use `with lock:` and a `timeout=`.
    """

    code = "TJ703"
    name = "waits-forever"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "waits forever"
    remedy = "Hold the lock in a with statement, and set a timeout."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check locks, sleeps and waits."""
        yield from self._locks(view)
        for call in view.calls_to(("time.sleep", "asyncio.sleep")):
            if call.args and (magnitude(call.args[0], view) or 0) >= _LONG_SLEEP:
                yield self.finding(view, call, "Sleeps for an hour or more.")
        for call in _waits_in_vain(view):
            yield self.finding(
                view, call, "Waits for something that nothing in this code provides.", confidence=LIKELY
            )

    def _locks(self, view: CodeView) -> Iterator[Finding]:
        held: set[str] = set()
        for node in view.of(ast.Expr):
            call = node.value
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr not in {"release", "acquire"}:
                continue
            lock = (
                ast.unparse(call.func.value) if isinstance(call.func.value, (ast.Name, ast.Attribute)) else ""
            )
            is_lock = "threading.Lock()" in view.resolver.value(call.func.value).names
            if call.func.attr == "release":
                held.discard(lock)
            elif call.func.attr == "acquire" and is_lock and not call.args and not call.keywords:
                if lock in held:
                    yield self.finding(view, call, f"{lock} is already acquired, so this waits forever.")
                held.add(lock)


_RELEASED_BY = {
    ("threading.Event()", "wait"): ("set",),
    ("threading.Barrier()", "wait"): ("start", "submit"),
    ("threading.Condition()", "wait"): ("notify", "notify_all"),
    ("queue.Queue()", "get"): ("put", "put_nowait"),
    ("queue.SimpleQueue()", "get"): ("put",),
    ("queue.LifoQueue()", "get"): ("put", "put_nowait"),
}


def _waits_in_vain(view: CodeView) -> Iterator[ast.Call]:
    """Yield the calls that wait for an own object that no code sets, fills or passes on."""
    waiting = [call for call in view.method_calls(("wait", "get", "join")) if _waits(call, view)]
    passed_on = _passed_on(view) if waiting else set()
    return (call for call in waiting if ast.unparse(call.func).partition(".")[0] not in passed_on)


def _waits(call: ast.Call, view: CodeView) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    if call.args or call.keywords:
        return False
    names = view.resolver.value(function.value).names
    givers = [_RELEASED_BY[name, function.attr] for name in names if (name, function.attr) in _RELEASED_BY]
    return any(not any(view.method_calls(each)) for each in givers)


def _passed_on(view: CodeView) -> set[str]:
    """Return the names that the code passes on. Other code may set such an object."""
    loaded = (node for node in view.of(ast.Name) if isinstance(node.ctx, ast.Load))
    return {node.id for node in loaded if not isinstance(view.parent(node), ast.Attribute)}


_MOST = 1e300


_DEEPEST = 40


_SHAPED = words("zeros ones empty full rand randn random random_sample normal uniform eye identity")


_ARRAYS = ("numpy", "numpy.random", "numpy.random.default_rng()", "torch", "jax.numpy", "cupy")


_SHAPING = frozenset(f"{module}.{name}" for module in _ARRAYS for name in _SHAPED)


_SEQUENCES = (ast.Constant, ast.List, ast.Tuple, ast.JoinedStr)


def magnitude(node: ast.expr | None, view: CodeView, depth: int = 0) -> float | None:
    """Return the power of ten of the number that an expression evaluates to; None if it is unknown."""
    if depth > _DEEPEST or node is None:
        return None
    estimate = _ESTIMATES.get(type(node), _of_known)
    return estimate(node, view, depth + 1)


def _of_known(node: ast.expr, view: CodeView, _depth: int) -> float | None:
    known = [_log(const) for const in view.resolver.value(node).consts if isinstance(const, int)]
    return max(known, default=None)


def _of_constant(node: ast.Constant, _view: CodeView, _depth: int) -> float | None:
    if isinstance(node.value, float):
        return math.inf if math.isinf(node.value) else _log(node.value)
    return _log(node.value) if isinstance(node.value, int) else None


def _of_name(node: ast.Name, view: CodeView, depth: int) -> float | None:
    known = _of_known(node, view, depth)
    return magnitude(view.program.sole_value(node), view, depth) if known is None else known


def _of_number(node: ast.Call, view: CodeView, depth: int) -> float | None:
    """Estimate ``int(1e12)``."""
    is_integer = node.args and view.resolver.value(node.func).names & {"builtins.int", "builtins.round"}
    return magnitude(node.args[0], view, depth) if is_integer else _of_known(node, view, depth)


def _log(number: float) -> float:
    return math.log10(abs(number)) if number else 0.0


def _of_operation(node: ast.BinOp, view: CodeView, depth: int) -> float | None:
    left, right = magnitude(node.left, view, depth), magnitude(node.right, view, depth)
    combine = _OPERATIONS.get(type(node.op))
    if left is None or right is None or combine is None:
        return None
    return combine(left, right)


def _power(base: float, exponent: float) -> float:
    return base * 10**exponent if exponent < math.log10(_MOST) else math.inf if base else 0.0


_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Pow: _power,
    ast.Mult: lambda left, right: left + right,
    ast.Add: max,
    ast.Sub: max,
    ast.LShift: lambda left, right: left + math.log10(2) * 10 ** min(right, 300),
    ast.FloorDiv: lambda left, right: max(left - right, 0.0),
    ast.Div: lambda left, right: left - right,
}


_ESTIMATES: dict[type[ast.expr], Callable[..., float | None]] = {
    ast.BinOp: _of_operation,
    ast.UnaryOp: lambda node, view, depth: magnitude(node.operand, view, depth),
    ast.Constant: _of_constant,
    ast.Name: _of_name,
    ast.Call: _of_number,
}


def length(node: ast.expr, view: CodeView) -> float | None:
    """Estimate the number of members of an iterable, as a power of ten."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for sequence, count in ((node.left, node.right), (node.right, node.left)):
            if _is_sequence(sequence):
                times = magnitude(count, view)
                return None if times is None else times + _own_length(sequence)
    if isinstance(node, ast.Call):
        return _of_call(node, view)
    return None


def _is_sequence(node: ast.expr) -> bool:
    return isinstance(node, _SEQUENCES) and not (
        isinstance(node, ast.Constant) and not isinstance(node.value, (str, bytes))
    )


def _own_length(node: ast.expr) -> float:
    members: Sequence[object] = ()
    if isinstance(node, (ast.List, ast.Tuple)):
        members = node.elts
    elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        members = node.value
    return _log(len(members))


def _of_call(node: ast.Call, view: CodeView) -> float | None:
    names = view.resolver.value(node.func).names
    if "builtins.range" in names and node.args:
        return magnitude(node.args[1] if len(node.args) > 1 else node.args[0], view)
    if names & {"builtins.bytes", "builtins.bytearray"} and node.args:
        return magnitude(node.args[0], view)
    if "numpy.arange" in names and node.args:
        return magnitude(node.args[min(1, len(node.args) - 1)], view)
    if "itertools.product" in names:
        repeat = magnitude(view.argument(node, -1, "repeat"), view)
        return None if repeat is None else 10**repeat * math.log10(2)
    if not names.isdisjoint(_SHAPING):
        return _of_shape(node, view)
    return None


def _of_shape(node: ast.Call, view: CodeView) -> float | None:
    shape = view.argument(node, 0, "shape", "size")
    sizes: Sequence[ast.expr | None] = (
        shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else node.args or [shape]
    )
    known = [magnitude(size, view) for size in sizes]
    return sum(each for each in known if each is not None) if any(known) else None


_TOO_MANY = 9.0
_TOO_MANY_STEPS = 10.0
_TOO_MANY_DIGITS = 6.0
_COLLECTS = words("list tuple set sorted sum max min dict frozenset print bytes", "builtins.")
_GROWS_FAST = frozenset({"math.factorial", "math.perm", "math.comb"})
_SIZED = (
    _COLLECTS
    | _SHAPING
    | _GROWS_FAST
    | {"builtins.range", "builtins.bytes", "builtins.bytearray", "numpy.arange", "itertools.product"}
)
"""Functions whose arguments determine the size of the result."""


@register
class TakesMemory(Rule):
    """Makes something too large for the machine.

    ## Description
    Estimates numbers, ranges and sequences without computing them. Reports sequences with a billion members or more,
    and numbers with a million digits or more.

    ## Why it matters
    The kernel runs out of memory, or hangs in an operation that cannot be interrupted. Then the notebook loses its
    variables.

    ## Example
    ```python
    x = list(range(10**11))
    ```

    ## What to do instead
    Work in chunks, or iterate over a `range` up to a limit.
    """

    code = "TJ701"
    name = "takes-memory"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "takes more memory or time than the machine has"
    remedy = "Work in chunks, or up to a limit."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check powers, repetitions, collected ranges and loops over them."""
        for node in view.of(ast.BinOp):
            if isinstance(node.op, (ast.Pow, ast.LShift)) and _has_many_digits(node, view):
                yield self.finding(view, node, f"This number {self.effect}.", confidence=LIKELY)
            elif isinstance(node.op, ast.Mult) and (length(node, view) or 0) >= _TOO_MANY:
                yield self.finding(view, node, f"This sequence {self.effect}.", confidence=LIKELY)
        for call in view.calls_to(_SIZED):
            if _makes_much(call, view):
                yield self.finding(view, call, f"This call {self.effect}.", confidence=LIKELY)
        for iterable, loop in _iterated(view):
            if (length(iterable, view) or 0) >= _TOO_MANY_STEPS and (
                loop is None or not has_exit(loop, view)
            ):
                yield self.finding(
                    view, iterable, "Looping over this takes longer than a day.", confidence=LIKELY
                )


def _has_many_digits(node: ast.BinOp, view: CodeView) -> bool:
    # 2.0**1e9 overflows at once, and a name on the left may be an array.
    outer = view.parent(node)
    size = magnitude(node, view)
    inner = isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Pow)
    return not inner and size is not None and size >= 10**_TOO_MANY_DIGITS


def _makes_much(call: ast.Call, view: CodeView) -> bool:
    names = view.resolver.value(call.func).names
    if names & _COLLECTS and call.args and (length(call.args[0], view) or 0) >= _TOO_MANY:
        return True
    if names & _GROWS_FAST and call.args:
        return (magnitude(call.args[0], view) or 0) >= _TOO_MANY_DIGITS
    return "builtins.range" not in names and (length(call, view) or 0) >= _TOO_MANY


def _iterated(view: CodeView) -> Iterator[tuple[ast.expr, ast.For | None]]:
    yield from ((loop.iter, loop) for loop in view.of(ast.For))
    yield from ((iterable, None) for iterable in view.collected())


_ATOM = r"(?:\\.|\[[^\]]{0,99}\]|[^()\\\[\]?*+{}|^$])"
_NESTED_REPEAT = re.compile(
    rf"\((?:\?:)?(?:{_ATOM}[?*]){{0,9}}{_ATOM}[+*](?:{_ATOM}[?*]){{0,9}}\)(?:[+*]|\{{\d{{0,9}},\d{{0,9}}\}})"
)
_ALTERNATIVE_REPEAT = re.compile(r"\((?:\?:)?(\\?.)\|\1+\)[+*]")
_LONGEST_PATTERN = 10_000


def _is_slow(pattern: str) -> bool:
    return bool(_NESTED_REPEAT.search(pattern) or _ALTERNATIVE_REPEAT.search(pattern))


_PATTERN_CALLS = words("match fullmatch search compile sub subn findall finditer split", "re.")


@register
class MatchesForever(Rule):
    """Uses a regular expression that can take exponential time.

    ## Description
    Reports patterns with nested repetitions, such as `(a+)+$`.

    ## Why it matters
    If a text almost matches, the search tries every way to split it. It cannot be interrupted.

    ## Example
    ```python
    import re
    re.match(r"(a+)+$", text)
    ```

    ## What to do instead
    Use one repetition, `a+$`, or a possessive repetition, `(?:a++)+$` (Python 3.11).
    """

    code = "TJ704"
    name = "matches-forever"
    category = Category.RESOURCES
    level = MEDIUM
    effect = "can take exponential time"
    remedy = "Write the pattern without nested repetitions."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the patterns in calls of ``re``."""
        for call in view.calls_to(_PATTERN_CALLS):
            for text in view.resolver.value(call.args[0]).texts if call.args else ():
                if view.look(_is_slow, text[:_LONGEST_PATTERN]):
                    yield self.finding(view, call, f"This pattern {self.effect}.", confidence=LIKELY)
