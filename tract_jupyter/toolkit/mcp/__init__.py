"""The Model Context Protocol, in both directions.

Other programs' tools among ours: `client`, `tools`. Ours for other programs: `server`, `service`.

What a server says is a claim: bounded before it is read, and believed only as far as the person says so. The
SDK is an extra (`sdk`), imported when the first server is used.
"""
