"""Constant folding of strings, numbers and paths, without running code.

A fold returns None if the result is unknown. Results stay small (see ``values.MAX_CONST``), because code may contain
``"a" * 10**9``.
"""

from __future__ import annotations

import ast
import base64
import codecs
import contextlib
import operator
import os
import re
import string
from typing import TYPE_CHECKING

from tract_jupyter.analysis.tables.effects import effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import (
    HOLE,
    MAX_ALTERNATIVES,
    MAX_CONST,
    MAX_MEMBERS,
    TOO_LONG,
    Const,
    Value,
    constant,
    is_small,
    lift,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CONSTANTS: Mapping[str, Const] = {
    "os.sep": "/",
    "os.path.sep": "/",
    "os.pardir": "..",
    "os.path.pardir": "..",
    "os.curdir": ".",
    "string.ascii_lowercase": string.ascii_lowercase,
    "string.ascii_uppercase": string.ascii_uppercase,
    "string.ascii_letters": string.ascii_letters,
    "string.printable": string.printable,
    "string.digits": string.digits,
    "os.getcwd()": ".",
    "tempfile.gettempdir()": "/tmp",  # noqa: S108 - stands for the temporary directory
    "pathlib.Path.home()": "~",
    "pathlib.Path.cwd()": ".",
}


def known_value(name: str) -> Const | None:
    """Return the value of an attribute or call that is the same on all machines, or a placeholder for it."""
    value = _CONSTANTS.get(name)
    if value is None:
        value = effects().values.get(name)
    return value if value is not None else effects().values.get(f"*.{name.rpartition('.')[2]}")


_FIELD = re.compile(r"\{[^{}]*\}")
_PERCENT = re.compile(r"%(?:\(\w{0,99}\))?[-#0 +]{0,9}(?:\*|[1-9]\d{0,9})?(?:\.\d{1,9})?[a-zA-Z]")


def binary(operation: ast.operator, left: Value, right: Value) -> Value:
    """Fold ``left op right``. An unknown part of a text becomes a hole."""
    if isinstance(operation, ast.Add):
        return _add(left, right)
    if isinstance(operation, ast.Mult) and (left.items is not None or right.items is not None):
        return _repeated(left, right) if left.items is not None else _repeated(right, left)
    if isinstance(operation, ast.Mod) and left.texts:
        return lift(_percent, left, right if right.consts else constant(HOLE))
    fold = _ARITHMETIC.get(type(operation))
    return lift(fold, left, right) if fold else Value()


def _repeated(sequence: Value, times: Value) -> Value:
    count = times.consts[0] if times.consts else 1
    if not isinstance(count, int):
        return Value()
    return Value(items=((sequence.items or ()) * min(max(count, 0), 16))[:MAX_MEMBERS])


def _add(left: Value, right: Value) -> Value:
    if left.consts and right.consts:
        return lift(_plus, left, right)
    if left.texts:
        return lift(_plus, Value(consts=left.texts), constant(HOLE))
    return lift(_plus, constant(HOLE), Value(consts=right.texts))


def _plus(left: Const, right: Const) -> Const | None:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    return left + right if isinstance(left, int) and isinstance(right, int) else None


def _percent(left: Const, right: Const) -> Const | None:
    if isinstance(left, bytes):
        left = left.decode("utf-8", "replace")
    if not isinstance(left, str):
        return None
    new = str(right)
    return _PERCENT.sub(lambda _: new, left) if left.count("%") * len(new) <= MAX_CONST else TOO_LONG


def _times(left: Const, right: Const) -> Const | None:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if isinstance(right, int) and not isinstance(left, int):
        return left * right if 0 <= right * len(left) <= MAX_CONST else None
    return None


def _of_numbers(operation: Callable[[int, int], int]) -> Callable[[Const, Const], Const | None]:
    return lambda left, right: (
        operation(left, right) if isinstance(left, int) and isinstance(right, int) else None
    )


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Const, Const], Const | None]] = {
    ast.Mult: _times,
    ast.Sub: _of_numbers(operator.sub),
    ast.BitXor: _of_numbers(operator.xor),
}


def item(value: Value, index: Value) -> Value:
    """Fold ``text[index]``."""
    return lift(_item, value, index)


def _item(text: Const, index: Const) -> Const | None:
    if isinstance(text, int) or not isinstance(index, int) or not -len(text) <= index < len(text):
        return None
    return text[index]


def part(value: Value, bounds: tuple[int | None, int | None, int | None]) -> Value:
    """Fold ``text[start:stop:step]``."""
    if bounds[2] == 0:
        return Value()
    return lift(lambda const: None if isinstance(const, int) else const[slice(*bounds)], value)


def join_path(parts: list[Value]) -> Value:
    """Fold ``os.path.join`` and ``Path(a, b)``. An absolute part discards the parts before it."""
    joined = constant("")
    for index, member in enumerate(parts):
        known = member if member.consts else constant(HOLE)
        joined = lift(_join, joined, known) if index else constant(*known.texts)
    return joined


def _join(left: Const, right: Const) -> Const | None:
    if isinstance(right, bytes):
        right = right.decode("utf-8", "replace")
    if not isinstance(left, str) or not isinstance(right, str):
        return None
    return right if right.startswith(("/", "~")) or not left else f"{left.rstrip('/')}/{right}"


def call(name: str, arguments: list[Value]) -> Value:
    """Fold the call of a function with a known name."""
    if name in {"os.path.join", "pathlib.Path"}:
        return join_path(arguments)
    if name in _SAME and arguments:
        return Value(consts=arguments[0].consts)
    return _computed(name, arguments) if arguments else Value()


def _computed(name: str, arguments: list[Value]) -> Value:
    # A long encoded text reveals nothing about the decoded one.
    small = Value(consts=tuple(filter(is_small, arguments[0].consts)))
    if name in {"builtins.bytes", "builtins.bytearray"} and arguments[0].items is not None:
        return _of_codes(arguments[0].items)
    if name == "codecs.decode" and len(arguments) > 1:
        return lift(_decoded, small, arguments[1])
    fold = _FUNCTIONS.get(name)
    return lift(fold, arguments[0] if name == "builtins.str" else small) if fold else Value()


def _of_codes(items: tuple[Value, ...]) -> Value:
    codes = [item.consts[0] if item.consts else None for item in items]
    if not all(isinstance(code, int) and 0 <= code < 256 for code in codes):  # noqa: PLR2004 - bytes
        return Value()
    return constant(bytes(code for code in codes if isinstance(code, int)))


def _decoded(data: Const, codec: Const) -> Const | None:
    if not isinstance(codec, str) or isinstance(data, int) or codec.replace("-", "").lower() not in _CODECS:
        return None
    with contextlib.suppress(ValueError, LookupError, TypeError):
        decoded = codecs.decode(data, codec)  # type: ignore[arg-type]  # some take text, others bytes
        return decoded if isinstance(decoded, (str, bytes)) else None
    return None


_CODECS = words("rot13 rot_13 hex base64 utf8 ascii latin1 hex_codec base64_codec")


def method(owner: Value, name: str, arguments: list[Value]) -> Value:
    """Fold a method of text: ``'/'.join(parts)``, ``template.format(...)``, ``text.lower()``."""
    if not owner.texts:
        return Value()
    with_arguments = _METHODS_WITH_ARGUMENTS.get(name)
    if with_arguments is not None and (arguments or name in {"format", "split"}):
        return with_arguments(owner, arguments)
    fold = _METHODS.get(name)
    return lift(fold, owner) if fold else Value()


def formatted(owner: Value, arguments: list[Value], named: Mapping[str, Value] | None = None) -> Value:
    """Fold ``"{}/{1}/{name}".format(...)``, with holes for unknown values."""
    fields = {**{str(index): value for index, value in enumerate(arguments)}, **(named or {})}
    return lift(lambda text: _formatted(text, fields), Value(consts=owner.texts))


def _formatted(text: Const, fields: Mapping[str, Value]) -> Const | None:
    if not isinstance(text, str):
        return None
    longest = max((len(str(value.consts[0])) for value in fields.values() if value.consts), default=1)
    if text.count("{") * longest > MAX_CONST:
        return TOO_LONG
    position = iter(range(len(fields)))

    def filled(match: re.Match[str]) -> str:
        field = match[0][1:-1].partition(":")[0] or str(next(position, ""))
        known = fields[field].consts if field in fields else ()
        return str(_text(known[0])) if known else HOLE

    return _FIELD.sub(filled, text)


def _cut(name: str) -> Callable[[Value, list[Value]], Value]:
    def cut(text: Const, part: Const) -> Const | None:
        return getattr(text, name)(part) if isinstance(text, str) and isinstance(part, str) else None

    return lambda owner, arguments: lift(cut, owner, arguments[0])


def _replaced(owner: Value, arguments: list[Value]) -> Value:
    if len(arguments) < 2 or not arguments[0].consts:  # noqa: PLR2004 - old and new
        return Value()
    return lift(_replace, owner, arguments[0], arguments[1] if arguments[1].consts else constant(HOLE))


def _split(owner: Value, arguments: list[Value]) -> Value:
    separator = arguments[0].texts[0] if arguments and arguments[0].texts else None
    if separator == "" or (arguments and separator is None):
        return Value()
    if not is_small(owner.texts[0]):
        return Value(items=(Value(consts=owner.texts[:1]),))
    return Value(items=tuple(constant(piece) for piece in owner.texts[0].split(separator)[:64]))


def _joined(separator: Value, parts: Value) -> Value:
    if parts.items is None:
        return Value(consts=parts.consts) if separator.consts == ("",) else Value()
    glue = separator.texts[0]
    pieces = [piece.texts[0] if piece.texts else HOLE for piece in parts.items]
    if sum(map(len, pieces)) + len(glue) * len(pieces) > MAX_CONST:
        return Value(consts=tuple(dict.fromkeys(sorted(pieces, key=len, reverse=True)))[:MAX_ALTERNATIVES])
    return constant(glue.join(pieces))


def _replace(text: Const, old: Const, new: Const) -> Const | None:
    if isinstance(text, str) and isinstance(old, str) and isinstance(new, str):
        return text.replace(old, new) if text.count(old) * len(new) <= MAX_CONST else TOO_LONG
    return None


def _character(code: Const) -> Const | None:
    return chr(code) if isinstance(code, int) and 0 <= code < 0xD800 else None  # noqa: PLR2004 - surrogates


def _decoder(decode: Callable[[str | bytes], bytes]) -> Callable[[Const], Const | None]:
    def decoded(data: Const) -> Const | None:
        try:
            return None if isinstance(data, int) else decode(data)
        except ValueError:
            return None

    return decoded


_from_base64, _from_base32 = _decoder(base64.b64decode), _decoder(base64.b32decode)


def _from_hex(data: Const) -> Const | None:
    try:
        return bytes.fromhex(data) if isinstance(data, str) else None
    except ValueError:
        return None


def _text(data: Const) -> Const | None:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)


def _parent(path: Const) -> Const | None:
    """Return the folder of a path. The folder of the working directory is ``..``."""
    if not isinstance(path, str):
        return None
    if path in {"", "."} or path.endswith(".."):
        return "../" + path if path.endswith("..") else ".."
    return os.path.dirname(path)  # noqa: PTH120 - what the code under analysis calls


_SAME = words("""
    os.path.expanduser os.path.abspath os.path.realpath os.path.normpath os.path.relpath os.path.expandvars
    os.fspath os.fsdecode os.fsencode builtins.iter
""")
_FUNCTIONS: Mapping[str, Callable[[Const], Const | None]] = {
    "builtins.chr": _character,
    "builtins.str": _text,
    "base64.b64decode": _from_base64,
    "base64.urlsafe_b64decode": _from_base64,
    "bytes.fromhex": _from_hex,
    "builtins.bytes.fromhex": _from_hex,
    "binascii.unhexlify": _from_hex,
    "binascii.a2b_base64": _from_base64,
    "binascii.a2b_hex": _from_hex,
    "base64.standard_b64decode": _from_base64,
    "base64.decodebytes": _from_base64,
    "base64.b16decode": _from_hex,
    "base64.b32decode": _from_base32,
    "os.path.dirname": _parent,
}
_METHODS: Mapping[str, Callable[[Const], Const | None]] = {
    "lower": lambda text: None if isinstance(text, int) else text.lower(),
    "upper": lambda text: None if isinstance(text, int) else text.upper(),
    "swapcase": lambda text: None if isinstance(text, int) else text.swapcase(),
    "title": lambda text: None if isinstance(text, int) else text.title(),
    "capitalize": lambda text: None if isinstance(text, int) else text.capitalize(),
    "strip": lambda text: None if isinstance(text, int) else text.strip(),
    "decode": _text,
    "encode": lambda text: text.encode("utf-8", "replace") if isinstance(text, str) else None,
}
_METHODS_WITH_ARGUMENTS: Mapping[str, Callable[[Value, list[Value]], Value]] = {
    "join": lambda owner, arguments: _joined(owner, arguments[0]),
    "format": formatted,
    "replace": _replaced,
    **dict.fromkeys(("split", "rsplit"), _split),
    **{name: _cut(name) for name in ("removeprefix", "removesuffix", "strip", "lstrip", "rstrip")},
}
