"""Clients of language models: requests to a model, and its replies.

* Requests: `http` is the base of clients (addresses, keys, retries, bounds), `failures` has their errors, and `sse`
  reads streamed replies. A `request` uses the terms of chat completions. Each dialect translates it: `openai` for chat
  completions, `responses` for OpenAI's Responses, `anthropic` for Anthropic's Messages; `messages` has the reply, and
  `blocks` stores the provider's form of a reply and decides how long it can be sent back. `thinking` finds reasoning in
  the text of a reply; `property_names` replaces schema names that a provider refuses. `call` asks any client, and
  another thread can end the call; `reply` reads its response, and `readable` prepares a reply for storage.
* Models: `providers` has the prefixes of names such as `openai/NAME`, `keys` the places of keys, `connections` the
  model and client of a name; `registry` is `t.models`: the model of each kind of request, and models by name.
  `configured` is a client with the settings of a kind of request.
* Cassettes: `cassette` is `t.cassette`; `recording` writes the file, `redaction` removes the secrets that
  `secret_shapes` finds, `reading` reads and checks the file, and `replay` serves from it.
* Costs: `prices`, and `spending`, which sends each request of a tract and enforces the budget. `user_budget` has the
  administrator's budgets.

The rest of the package knows a client as `models.LLMClient`. Knows only `models`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
