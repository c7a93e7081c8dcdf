"""Clients of language models: asking a model, and reading its reply.

* How a model is asked: `http` is what clients share (addresses, keys, retries, bounds); `failures` what can go wrong,
  `sse` a reply that comes in pieces. A `request` is in the words of chat completions. Each dialect translates it:
  `openai` for chat completions, `responses` for OpenAI's Responses, `anthropic` for Anthropic's Messages; `messages`
  has the reply, and `blocks` keeps a reply as its provider wrote it, and says how long it may be sent back. `thinking`
  finds reasoning in the text of a reply; `property_names` replaces names in schemas that a provider refuses. `call`
  asks any client, in a call that another thread may end; `reply` reads its response, and `readable` makes a reply that
  can be kept and sent again. `workers` has other processes make requests.
* Which model is asked: `providers` has those that a name such as `openai/NAME` may begin with, `keys` the places of
  keys, `connections` the model of a name, with its client; `registry` is `t.models`: the model of each kind of
  request, and models by name. `configured` is a client with the settings of a kind of request.
* Recording and replaying: `cassette` is `t.cassette`; `recording` writes the file, `redaction` removes secrets from it
  by the list of `secret_shapes`, `reading` reads and checks it, and `replay` serves from it.
* What it costs: `prices`, and `spending`, which sends each request of a tract, and holds the budget.

The rest of the package knows a client as `models.LLMClient`. Knows only `models`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
