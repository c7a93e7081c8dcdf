"""Static analysis: the effects of code, reported before the code runs.

* `analyzer`: a verdict for every text. `findings`: the results. `capabilities`: new capabilities of a changed version.
* Reading code: `source` (its lines), `ipython_syntax` (IPython's additions to Python, and the user's
  own magics), `program` (scopes), `references` (mentions of names), `statements` (effects of SQL).
* Possible values of names: `resolver` with `flows`, `folding` and `calls`. `values` defines the results. `dominance`:
  the bindings before a use. `origins`: findings about objects from earlier code.
* Judging code: `rules`, one class for each rule, which see the code through `view`; `tables`, the effects of well-known
  calls as data; `paths`, the location of a file. `pages`: the manual.
* `limits`: limits on text, findings and time.

The analysis explains code and does not restrict it. It parses code and never imports or executes it. Knows no other
package.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
