"""The network: asking others (TJ301), listening (TJ302)."""

from __future__ import annotations

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, Rule, register


@register
class TalksToNetwork(Rule):
    """Sends requests over the network.

    ## What it does
    Reports HTTP clients, sockets, mail, FTP, SSH, cloud SDKs and name look-ups. To read a fixed, public address
    without carrying anything out is medium.

    ## Why it matters
    A request carries data out (even a name look-up does) and brings instructions or code in.

    ## Example
    ```python
    requests.post("http://example.org/", data=secrets)
    ```

    ## What to do instead
    Use a tool for this service, whose address and arguments are reviewed.
    """

    code = "TJ301"
    name = "talks-to-network"
    category = Category.NETWORK
    level = HIGH
    effect = "talks to another machine"
    remedy = "Use a tool for this service."


@register
class ListensOnNetwork(Rule):
    """Opens a server.

    ## What it does
    Reports servers of the standard library and of common web frameworks.

    ## Why it matters
    A server lets others reach into the kernel for as long as it lives.

    ## Example
    ```python
    http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
    ```

    ## What to do instead
    Run servers outside the notebook.
    """

    code = "TJ302"
    name = "listens-on-network"
    category = Category.NETWORK
    level = HIGH
    effect = "lets other machines connect"
    remedy = "Run servers outside the notebook."
