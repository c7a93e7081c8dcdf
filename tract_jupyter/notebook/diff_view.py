"""What differs between two contexts, message by message, in HTML and in plain text."""

from __future__ import annotations

import html
from itertools import groupby
from typing import TYPE_CHECKING

from tract_jupyter.models.diff import show_delta
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.text import brief_repr, printable
from tract_jupyter.notebook.excerpts import cut_note, one_line, style_tag
from tract_jupyter.notebook.markup import OWN_KEYS, heading
from tract_jupyter.notebook.message_text import full_text, preview, speaker
from tract_jupyter.notebook.text_diff import diff_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models.diff import DiffResult, MessageDiff
    from tract_jupyter.notebook.text_diff import DiffLine

_MOST = 100
_LINE = 100
_WHOLE = 10_000
_TEXT_LINES = 12
_SIGNS = {"added": "+", "removed": "−", "changed": "~"}  # noqa: RUF001 # a minus


def diff_view(result: DiffResult) -> dict[str, str]:
    """The representations of a difference for IPython: `text/html` and `text/plain`."""
    return {"text/html": _html(result), "text/plain": _text(result)}


def _parts(
    result: DiffResult, show: Callable[[MessageDiff], str], fold: Callable[[str], str]
) -> Iterator[str]:
    """Each change, and a remark for each run of messages that are the same."""
    changes = 0
    for is_same, run in groupby(result.message_diffs, lambda diff: diff.kind == "unchanged"):
        diffs = list(run)
        if is_same:
            yield fold(f"{len(diffs):,} unchanged message{'s' * (len(diffs) != 1)}")
            continue
        yield from map(show, diffs[: _MOST - changes])
        changes += len(diffs)
        if changes > _MOST:
            stat = result.stat
            yield fold(f"{stat.added + stat.removed + stat.changed - _MOST:,} more changes")
            return


def _title(result: DiffResult) -> str:
    a, b = (commit[:8] if commit else "nothing" for commit in (result.a, result.b))
    return f"{a} → {b}"


def _config_lines(result: DiffResult) -> list[str]:
    changes = result.generation_config_changes.items()
    return [f"{one_line(name, 60)}: {_value(old)} → {_value(new)}" for name, (old, new) in changes]


def _value(value: object) -> str:
    return "not set" if value is None else one_line(brief_repr(value), 80)


def _html(result: DiffResult) -> str:
    config = "".join(f"<p>{html.escape(line)}</p>" for line in _config_lines(result))
    parts = "".join(_parts(result, lambda diff: _change_html(diff, result.token_source), _fold_html))
    return (
        f'{style_tag("views.css")}<div class="tract-views">{heading("Difference", 3, _title(result))}'
        f"<p><b>{result.stat}</b></p>{config}{parts}</div>"
    )


def _fold_html(text: str) -> str:
    return f'<p class="tract-dim">⋮ {text}</p>'


def _change_html(diff: MessageDiff, source: str) -> str:
    details = "".join(f"<p>{html.escape(line)}</p>" for line in _details(diff))
    head = (
        f'<div class="tract-head"><b>{_SIGNS[diff.kind]} {diff.kind}</b>'
        f"<span>{html.escape(_speakers(diff))}</span><code>{html.escape(_commits(diff))}</code>"
        f"<span>{show_delta(diff.token_delta, source)} tokens</span></div>"
    )
    return f'<div class="tract-change tract-{diff.kind}">{head}{details}{_body_html(diff)}</div>'


def _body_html(diff: MessageDiff) -> str:
    if diff.old is not None and diff.new is not None:
        lines = "".join(map(_line_html, diff_lines(full_text(diff.old), full_text(diff.new))))
        return (
            f'<div class="tract-lines" {OWN_KEYS} tabindex="0" role="region" aria-label="Lines">{lines}</div>'
            if lines
            else ""
        )
    message = diff.message
    first, whole = html.escape(preview(message, _LINE)), full_text(message)
    if html.escape(whole) == first:
        return f"<div>{first}</div>"
    more = cut_note(len(whole), _WHOLE)
    note = f'<p class="tract-dim">{more}</p>' if more else ""
    return (
        f"<details><summary {OWN_KEYS}>"
        f"{first}</summary><pre>{html.escape(printable(whole, _WHOLE))}</pre>{note}</details>"
    )


def _line_html(line: DiffLine) -> str:
    tag = {"+": "ins", "-": "del"}.get(line.sign, "span")
    parts = (
        f"<{tag}>{html.escape(text)}</{tag}>" if differs else html.escape(text)
        for differs, text in line.pieces
    )
    return f'<div data-sign="{line.sign}"><span>{"".join(parts)}</span></div>'


def _text(result: DiffResult) -> str:
    lines = [f"Difference {_title(result)}: {result.stat}", *_config_lines(result)]
    lines += _parts(result, lambda diff: _change_text(diff, result.token_source), lambda text: f"  ⋮ {text}")
    return "\n".join(lines)


def _change_text(diff: MessageDiff, source: str) -> str:
    head = f"{_SIGNS[diff.kind]} {_speakers(diff)} {_commits(diff)}".rstrip()
    lines = [f"{head} · {show_delta(diff.token_delta, source)} tokens", *(f"    {d}" for d in _details(diff))]
    if diff.old is not None and diff.new is not None:
        drawn = diff_lines(full_text(diff.old), full_text(diff.new))
        lines += [f"    {line.sign if line.sign != '@' else ' '} {line.text}".rstrip() for line in drawn]
        return "\n".join(lines)
    whole = printable(full_text(diff.message), _WHOLE).split("\n")
    lines += [f"    {one_line(text, _LINE)}".rstrip() for text in whole[:_TEXT_LINES]]
    more = len(whole) - _TEXT_LINES
    return "\n".join([*lines, *([f"    ⋮ {more:,} more line{'s' * (more != 1)}"] if more > 0 else [])])


def _speakers(diff: MessageDiff) -> str:
    names = dict.fromkeys(speaker(message) for message in (diff.old, diff.new) if message is not None)
    return " → ".join(names)


def _commits(diff: MessageDiff) -> str:
    hashes = dict.fromkeys(m.commit_hash[:8] for m in (diff.old, diff.new) if m is not None and m.commit_hash)
    return " → ".join(hashes)


def _details(diff: MessageDiff) -> list[str]:
    """What changed besides the text."""
    old, new = diff.old, diff.new
    if old is None or new is None:
        priority = diff.message.priority
        return [] if priority is Priority.NORMAL else [f"priority: {priority}"]
    pairs = [
        ("priority", old.priority.value, new.priority.value),
        ("type", old.content_type, new.content_type),
        ("answers the call", old.tool_call_id, new.tool_call_id),
        ("calls", [call.id for call in old.tool_calls], [call.id for call in new.tool_calls]),
    ]
    names = sorted(old.generation_config.keys() | new.generation_config.keys())
    pairs += [(name, old.generation_config.get(name), new.generation_config.get(name)) for name in names]
    return [f"{one_line(what, 60)}: {_plain(x)} → {_plain(y)}" for what, x, y in pairs if x != y]


def _plain(value: object) -> str:
    return one_line(value, 80) if isinstance(value, str) else _value(value)
