"""The view of a preview: the next request, and the requests and calls of operations. Nothing is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import one_line, printable, shortened, show_tokens
from tract_jupyter.notebook.runs.pictures import HOOK_WORDS, why
from tract_jupyter.notebook.runs.prompt import PromptView, inspected
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.context import tool_name
from tract_jupyter.notebook.views.html import View, element, fragment, join_names, root_html, style_tag
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.runs import Imagined, OperationRun, PromptPreview
    from tract_jupyter.tract import Tract

_NAME = 60
_LINE = 120
_TEXT = 4_000
_TOOLS = 12


@dataclass(frozen=True)
class PreviewView(View):
    """The preview of a prompt."""

    preview: PromptPreview
    prompt: PromptView

    @classmethod
    def of(cls, tract: Tract, preview: PromptPreview) -> PreviewView:
        """Return the view with the tokens of each message."""
        return cls(preview, PromptView(inspected(preview.run, tract)))

    def to_html(self) -> Html:
        """Return the preview as self-contained HTML."""
        title = "Next request"
        stops = self.preview.why_not
        note = element("div", _sentence(stops), class_="note no") if stops else None
        body = _head_html(title), _lines_html(self._facts(), map(_imagined_html, self.preview.imagined)), note
        page = styled(rows.page(body, label=title, name="tract-preview"))
        if not self.preview.run.prompt:
            return page
        old = style_tag("views/views.css", "views/runs.css")
        prompt = root_html(self.prompt.body_html(), look="tract-views tract-run", tag="section")
        return fragment(page, old, prompt)

    def to_text(self) -> str:
        """Return the same as lines."""
        lines = ["Next request (nothing was sent)"]
        lines += [f"{name}: {value}" for name, value in self._facts()]
        lines += [
            f"{imagined.operation_id}: {_request_text(imagined)}; {_substitute_text(imagined)}"
            for imagined in self.preview.imagined
        ]
        lines += [_sentence(self.preview.why_not)] if self.preview.why_not else []
        lines += self.prompt.to_text().split("\n")[1:] if self.preview.run.prompt else []
        return printable("\n".join(lines))

    def _facts(self) -> list[tuple[str, str]]:
        preview = self.preview
        tokens = f"{show_tokens(preview.tokens, preview.token_source)} tokens"
        price = (
            "price unknown" if preview.cost is None else f"{preview.cost} for the prompt, without the reply"
        )
        tools = join_names([tool_name(tool) for tool in preview.tools], _TOOLS)
        facts = [
            ("Model", one_line(preview.model, _LINE) or "none yet: %tract model openai/gpt-6-luna"),
            ("Size", f"{tokens}; {price if preview.model else 'no model, so no price'}"),
            ("Profile", one_line(preview.run.profile or "none: the context without changes", _NAME)),
            ("Messages", self.prompt.inspection.summary),
            ("Tools", tools),
        ]
        return [(name, value) for name, value in facts if value]


@dataclass(frozen=True)
class OperationPreviewView(View):
    """The dry run of one operation: its input, and its result or its request."""

    operation_id: str
    results: Sequence[OperationRun]
    imagined: Imagined | None
    effects: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, preview: PromptPreview, operation_id: str) -> OperationPreviewView:
        """Return the view of one operation of a preview.

        Raises:
            RunError: the operation does not exist.
        """
        results, imagined = preview.operation(operation_id)
        return cls(operation_id, results, imagined, preview.effects.get(operation_id, ()))

    def to_html(self) -> Html:
        """Return the dry run as self-contained HTML."""
        imagined = [] if self.imagined is None else [_imagined_html(self.imagined, is_open=True)]
        lines = _lines_html(self._facts(), [*imagined, *map(_effect_html, self.effects)])
        head = _head_html(f"Dry run of {one_line(self.operation_id, _NAME)}")
        return styled(rows.page(head, lines, label=f"Dry run of {self.operation_id}", name="tract-dry-run"))

    def to_text(self) -> str:
        """Return the same as lines."""
        lines = [f"Dry run of {one_line(self.operation_id, _NAME)} (nothing was sent)"]
        lines += [f"{name}: {value}" for name, value in self._facts()]
        if self.imagined is not None:
            lines += [f"It {_request_text(self.imagined)}; {_substitute_text(self.imagined)}"]
            lines += [f"  {line}" for line in _request_content(self.imagined).split("\n")]
        lines += [
            f"Effect {effect.get('type', '')}: {one_line(_json(effect), _LINE)}" for effect in self.effects
        ]
        return printable("\n".join(lines))

    def _facts(self) -> list[tuple[str, str]]:
        return [
            (HOOK_WORDS[result.hook].capitalize(), f"{result.status.value}. {why(result)}".strip())
            for result in self.results
        ]


def _request_text(imagined: Imagined) -> str:
    if imagined.messages:
        whom = f"the model {imagined.model}" if imagined.model else "the model"
        return f"would ask {whom}"
    return f"would call {one_line(imagined.call, _NAME)}"


def _substitute_text(imagined: Imagined) -> str:
    value = imagined.instead if isinstance(imagined.instead, str) else _json(imagined.instead)
    return f"here it counts as {one_line(value, _NAME)}"


def _request_content(imagined: Imagined) -> str:
    """Return the request: messages with their roles, or arguments."""
    if imagined.messages:
        return "\n\n".join(
            f"{message.get('role')}: {message.get('content')}" for message in imagined.messages
        )
    return _json(imagined.arguments)


def _head_html(title: str) -> Html:
    return element("p", element("b", title), " ", rows.badge("nothing was sent"))


def _lines_html(facts: list[tuple[str, str]], more: Iterable[Html]) -> Html:
    return rows.rows([*(rows.line(rows.said(name), rows.cut(value)) for name, value in facts), *more])


def _imagined_html(imagined: Imagined, *, is_open: bool = False) -> Html:
    cells = (
        rows.named(one_line(imagined.operation_id, _NAME)),
        rows.cut(f"{_request_text(imagined)}; {_substitute_text(imagined)}"),
        rows.badge(one_line(imagined.kind, _NAME)),
    )
    return rows.row(cells, rows.out(shortened(_request_content(imagined), _TEXT)), is_open=is_open)


def _effect_html(effect: Mapping[str, Any]) -> Html:
    cells = (rows.said("Effect"), rows.cut(str(effect.get("type", ""))))
    return rows.row(cells, rows.out(shortened(_json(effect), _TEXT)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
