"""Context that is sent with a message: variables, files and cells that the user names.

Each context has a limit, appears in the output before it is sent, and precedes the text between marks. For a variable,
only methods of pandas, polars and numpy tables run, and the `repr` of other values.
"""

from __future__ import annotations

import contextvars
import re
import sys
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AttachmentError, OperationError, nearest
from tract_jupyter.llm import find_secrets, why_not_sent
from tract_jupyter.models import SentContext, counted, left_out, printable, safe_repr, shortened, size_text
from tract_jupyter.notebook.views.streams import without_codes
from tract_jupyter.storage import raise_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.models import AttachedFile
    from tract_jupyter.toolkit import Workspace

_LONGEST: Final = 6_000  # characters of one variable, or of one cell's output
_MOST_CELLS: Final = 50
_MOST_SECONDS: Final = 10.0
_HEAD: Final = 5
_MOST_COLUMNS: Final = 40
_CELL: Final = 80
_FEW: Final = 20
_CONTAINERS: Final = frozenset({list, tuple, set, frozenset, dict})
_FIRST: Final = "the first"
"""The beginning of the line before the values of a table or an array."""
_LONGEST_SECRET: Final = 8_000
_LONGEST_NAME: Final = 100  # of a secret, with its separator


def _checked(context: SentContext, *, send_anyway: bool) -> SentContext:
    if why := why_not_sent(context.text):
        is_certain = bool(why_not_sent(context.text, send_anyway=True))
        if is_certain or not send_anyway:
            remedy = "" if is_certain else ". Check the line. If it holds no secret, add --send-anyway"
            raise OperationError(f"{context.name} {why} of the request, so nothing was sent{remedy}")
    return context


def _end_of(text: str, limit: int) -> int:
    """Return an index near `limit` that does not split a secret, so `_checked` can find it."""
    secrets = find_secrets(text[: limit + _LONGEST_SECRET])
    return next((secret.end for secret in secrets if secret.start < limit < secret.end), limit)


def _cut(text: str) -> str:
    """Return the beginning and the end of a text that is too long, without cutting a secret."""
    if len(text) <= _LONGEST:
        return text
    end, start = _end_of(text, _LONGEST // 2), len(text) - _LONGEST // 2
    before = max(0, start - _LONGEST_SECRET)
    for secret in find_secrets(text[before:]):
        named = before + secret.start - _LONGEST_NAME
        if named < start < before + secret.end:
            start = max(0, named)
    return text if end >= start else text[:end] + left_out(start - end) + text[start:]


def _shortened(text: str) -> str:
    """Return the beginning of a text that is too long for a cell, without cutting a secret."""
    if len(text) <= _CELL:
        return printable(text)
    return printable(text, _end_of(text, _CELL - 1)).rstrip() + "…"


# --- variables


def variable_context(
    namespace: dict[str, Any], names: Sequence[str], *, send_anyway: bool = False, schema_only: bool = False
) -> list[SentContext]:
    """Return descriptions of variables.

    Args:
        namespace: the variables by name.
        names: the variables to describe.
        send_anyway: send texts that may hold a secret.
        schema_only: describe only types, shapes, columns and gaps.
    """
    contexts = []
    for name in dict.fromkeys(names):
        if name not in namespace:
            known = [variable for variable in namespace if not variable.startswith("_")]
            raise OperationError(
                f"there is no variable {shortened(name, 60)!r}.{nearest(name, known)} Nothing was sent"
            )
        try:
            what, text = _describe_in_time(namespace[name], schema_only=schema_only)
        except (KeyboardInterrupt, OperationError):
            raise
        except TimeoutError:
            raise OperationError(
                f"{name} cannot be described within {_MOST_SECONDS:g} s, so nothing was sent. Send a part of it"
            ) from None
        except BaseException as error:  # noqa: BLE001 # its own code describes it, and may raise anything
            raise OperationError(
                f"{name} cannot be described: its code raised {type(error).__name__}. Nothing was sent"
            ) from None
        contexts.append(_checked(SentContext(name, what, text), send_anyway=send_anyway))
    return contexts


def _describe_in_time(value: Any, *, schema_only: bool) -> tuple[str, str]:
    """Describe a value in a thread: its code runs, and may never end.

    Raises:
        TimeoutError: it takes too long.
    """
    result: list[tuple[str, str] | BaseException] = []

    def describe() -> None:
        try:
            result.append(_describe_known(value, schema_only=schema_only))
        except BaseException as error:  # noqa: BLE001 # the waiting cell raises it
            result.append(error)

    context = contextvars.copy_context()  # with the print options of numpy, among others
    thread = threading.Thread(target=context.run, args=(describe,), name="tract-describe", daemon=True)
    thread.start()
    try:
        thread.join(_MOST_SECONDS)
    finally:
        if thread.is_alive() and thread.ident is not None:
            raise_in(thread.ident, SystemExit)
    if not result:
        raise TimeoutError
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _describe_known(value: Any, *, schema_only: bool) -> tuple[str, str]:
    for library, kind, describe in (
        ("pandas", "DataFrame", _pandas_table),
        ("pandas", "Series", _pandas_series),
        ("polars", "DataFrame", _polars_table),
        ("numpy", "ndarray", _numpy_array),
    ):
        library_type = getattr(sys.modules.get(library), kind, None)
        if library_type is not None and type(value) is library_type:
            what, text = describe(value)
            if schema_only:
                what, text = what.partition(";")[0], text.partition(f"\n{_FIRST}")[0]
            return what, _cut(text)
    what, text = _plain(value)
    return what, what if schema_only else text


def _pandas_table(value: Any) -> tuple[str, str]:
    rows, columns = value.shape
    columns_sent = list(value.columns[:_MOST_COLUMNS])
    missing = value.iloc[:, :_MOST_COLUMNS].isna().sum().tolist()
    lines = [f"pandas DataFrame, {_shape(rows, columns)}", "columns:"]
    lines += [
        f"- {_cell(name)}: {dtype}{f', {count:,} of {rows:,} missing' if count else ''}"
        for name, dtype, count in zip(columns_sent, value.dtypes[:_MOST_COLUMNS], missing, strict=False)
    ]
    lines += [f"- and {columns - len(columns_sent):,} more"] if columns > len(columns_sent) else []
    head = value.iloc[:_HEAD, :_MOST_COLUMNS]
    lines += [f"{_first_rows(rows)}:", *_rows(columns_sent, head.itertuples(index=False, name=None))]
    size = int(value.memory_usage(index=False).sum())
    return f"DataFrame, {_shape(rows, columns)}; {_sent_text(rows, columns, size)}", "\n".join(lines)


def _pandas_series(value: Any) -> tuple[str, str]:
    size = int(value.shape[0])
    head = [_cell(item) for item in value.iloc[:_FEW].tolist()]
    text = f"pandas Series of {value.dtype}, {counted(size, 'value')}\n{_FIRST}: {', '.join(head)}"
    sent = f"{len(head):,} {'is' if len(head) == 1 else 'are'} sent"
    return f"Series, {counted(size, 'value')}; {sent}", text


def _polars_table(value: Any) -> tuple[str, str]:
    rows, columns = value.shape
    schema = list(islice(value.schema.items(), _MOST_COLUMNS))
    names = [name for name, _ in schema]
    lines = [f"polars DataFrame, {_shape(rows, columns)}", "columns:"]
    lines += [f"- {_cell(name)}: {dtype}" for name, dtype in schema]
    lines += [f"- and {columns - len(schema):,} more"] if columns > len(schema) else []
    lines += [f"{_first_rows(rows)}:", *_rows(names, value.select(names).head(_HEAD).rows())]
    size = int(value.estimated_size())
    return f"DataFrame, {_shape(rows, columns)}; {_sent_text(rows, columns, size)}", "\n".join(lines)


def _numpy_array(value: Any) -> tuple[str, str]:
    shape = " x ".join(f"{item:,}" for item in value.shape) or "a single value"
    head = ", ".join(_cell(item) for item in value.ravel()[:_FEW].tolist())
    return f"array, {shape} of {value.dtype}", f"numpy array, {shape} of {value.dtype}\n{_FIRST}: {head}"


def _plain(value: Any) -> tuple[str, str]:
    kind = type(value).__name__
    if isinstance(value, str | bytes):
        size = counted(len(value), "character" if isinstance(value, str) else "byte")
        start = value[: _LONGEST + _LONGEST_SECRET]
        end = _end_of(start if isinstance(start, str) else start.decode("latin-1"), _LONGEST)
        text = start[:end] if isinstance(start, str) else repr(start[:end])
        rest = "" if len(value) <= _LONGEST else f"\n… cut after {_LONGEST:,} of {size}"
        return f"{kind}, {size}", f"{kind}, {size}:\n{text}{rest}"
    if type(value) not in _CONTAINERS:
        return kind, f"{kind}:\n{_cut(safe_repr(value))}"
    if type(value) is dict:
        items = [f"{_cell(key)}: {_shortened(_bounded(item))}" for key, item in islice(value.items(), _FEW)]
    else:
        items = [_shortened(_bounded(item)) for item in islice(value, _FEW)]
    more = f"\n… and {len(value) - _FEW:,} more" if len(value) > _FEW else ""
    summary = f"{kind}, {counted(len(value), 'key' if type(value) is dict else 'item')}"
    return summary, f"{summary}:\n" + "\n".join(f"- {item}" for item in items) + more


def _bounded(value: Any) -> str:
    """Return the beginning of a value's repr; of a container only its size."""
    if isinstance(value, str | bytes):
        return repr(value[: _CELL + _LONGEST_SECRET])
    if type(value) in _CONTAINERS:
        return f"{type(value).__name__} of {len(value):,}"
    return safe_repr(value)


def _first_rows(rows: int) -> str:
    head = min(rows, _HEAD)
    return f"{_FIRST} row" if head == 1 else f"{_FIRST} {head} rows"


def _sent_text(rows: int, columns: int, size: int) -> str:
    """Return the sent and the omitted part of a table in words; `size` is in bytes."""
    which = "columns" if columns <= _MOST_COLUMNS else f"the first {_MOST_COLUMNS} columns"
    sent = f"{which} and {counted(min(rows, _HEAD), 'row')} are sent"
    if rows <= _HEAD and columns <= _MOST_COLUMNS:
        return sent
    omitted = f"{counted(rows - _HEAD, 'row')}" if rows > _HEAD else "the rest"
    return f"{sent}, {omitted} of {size_text(size)} are not"


def _shape(rows: int, columns: int) -> str:
    return f"{counted(rows, 'row')} x {counted(columns, 'column')}"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else safe_repr(value)
    return " ".join(_shortened(text).split())


def _rows(names: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield " | ".join(map(_cell, names))
    for row in rows:
        yield " | ".join(map(_cell, row))


# --- files


def file_context(
    workspace: Workspace, names: Sequence[str], *, send_anyway: bool = False
) -> tuple[list[SentContext], list[AttachedFile]]:
    """Return texts of files, and the images and PDFs among them, which are attached.

    Args:
        workspace: files outside of it are refused, even through links.
        names: paths, relative to its first root.
        send_anyway: send texts that may hold a secret.
    """
    try:
        files = workspace.read(*dict.fromkeys(names), send_anyway=send_anyway)
    except AttachmentError as error:
        raise OperationError(f"{error}. Nothing was sent") from None
    unique = {file.attachment.name: file for file in files}.values()
    return [_text_of(file) for file in unique if file.text], [file for file in unique if not file.text]


def _text_of(file: AttachedFile) -> SentContext:
    text = file.data.decode("utf-8-sig")
    return SentContext(file.attachment.name, f"file, {counted(text.count(chr(10)) + 1, 'line')}", text)


# --- cells

_ERROR_LINE: Final = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_BY_NUMBER: Final = re.compile(r"\[(\d{1,6})(?:-(\d{1,6}))?\]")


def cell_context(
    shell: InteractiveShell, names: Sequence[str], *, send_anyway: bool = False
) -> list[SentContext]:
    """Return the sources of cells, with their outputs and tracebacks as text.

    Args:
        shell: the shell that ran them.
        names: `3` for the last three, `[4]` for `In [4]`, `[4-6]` for several.
        send_anyway: send texts that may hold a secret.
    """
    sources = _sources(shell)
    current = len(sources) - 1  # the cell that runs is the last one
    numbers = dict.fromkeys(number for name in names for number in _numbers(name, current))
    if len(numbers) > _MOST_CELLS:
        raise OperationError(
            f"--cells takes at most {_MOST_CELLS} cells, but it names {len(numbers):,}. Nothing was sent"
        )
    return [_checked(_cell_of(shell, sources, number), send_anyway=send_anyway) for number in numbers]


def error_context(shell: InteractiveShell, *, send_anyway: bool = False) -> list[SentContext]:
    """Return the last cell that failed, with its output and traceback."""
    sources = _sources(shell)
    failed = [
        number
        for number in getattr(shell.history_manager, "exceptions", None) or {}
        if number < len(sources) and not sources[number].lstrip().startswith("%%tract_chat")
    ]
    if not failed:
        raise OperationError("no cell has failed in this kernel. Nothing was sent")
    return [_checked(_cell_of(shell, sources, max(failed)), send_anyway=send_anyway)]


def _sources(shell: InteractiveShell) -> list[str]:
    manager = shell.history_manager
    return [] if manager is None else list(manager.input_hist_raw)


def _numbers(name: str, current: int) -> Iterable[int]:
    if name.isdecimal() and int(name) > 0:
        if current <= 1:
            raise OperationError("no cell ran before this one. Nothing was sent")
        if int(name) >= current:
            before = current - 1
            raise OperationError(
                f"{counted(before, 'cell')} ran before this one: --cells {before} sends "
                f"{'it' if before == 1 else 'all'}. Nothing was sent"
            )
        return range(current - int(name), current)
    match = _BY_NUMBER.fullmatch(name)
    if match is None:
        raise OperationError(
            f"--cells takes 3 for the last three cells, or [4] for In [4], or [4-6]; not {shortened(name, 40)!r}. "
            "Nothing was sent"
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last < current:
        raise OperationError(f"there is no cell {name} before this one. Nothing was sent")
    return range(first, last + 1)


def _cell_of(shell: InteractiveShell, sources: list[str], number: int) -> SentContext:
    source = sources[number]
    output, error = _output_of(shell, number), _error_of(shell, number)
    text = f"In [{number}]:\n{_cut(source)}"
    if output:
        text += f"\n\nOut [{number}]:\n{_cut(output)}"
    if error:
        text += f"\n\nError in [{number}]:\n{_cut(error)}"
    lines = counted(source.count("\n") + 1, "line")
    parts = filter(None, [lines, output and "its output", error and f"its {_error_name(error)}"])
    return SentContext(f"cell [{number}]", " and ".join(parts), text)


def _error_of(shell: InteractiveShell, number: int) -> str:
    """Return the traceback of a cell as text; empty if the cell did not fail, or IPython does not keep it."""
    stored = (getattr(shell.history_manager, "exceptions", None) or {}).get(number) or {}
    return without_codes("\n".join(map(str, stored.get("traceback", ()))))


def _error_name(traceback: str) -> str:
    names = _ERROR_LINE.findall(traceback)
    return names[-1] if names else "error"


def _output_of(shell: InteractiveShell, number: int) -> str:
    """Return the stored output of a cell as text: printed, displayed and returned."""
    manager = shell.history_manager
    outputs = getattr(manager, "outputs", None) or {}
    texts = []
    for output in outputs.get(number, ()):
        bundle = getattr(output, "bundle", None) or {}
        for kind in ("stream", "text/plain"):
            content = bundle.get(kind)
            if content:
                texts.append("".join(content) if isinstance(content, list) else str(content))
                break
    if texts:
        return "\n".join(text.rstrip("\n") for text in texts)
    returned = getattr(manager, "output_hist_reprs", None) or {}
    return str(returned.get(number, ""))
