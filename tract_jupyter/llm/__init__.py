"""Clients of language models: asking one, and reading what it gave back.

`openai` speaks OpenAI's chat completions, with streaming and retries; `call` is one call that another thread
may end; `reply` reads what any client gave back; `connections` says what the names of models and keys stand
for. The rest of the package knows a client as `protocols.LLMClient`. Knows only `models`.
"""
