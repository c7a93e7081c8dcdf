"""Static analysis: what a piece of code would do, reported before it runs.

* `analyzer`: a verdict for every text. `findings`: what it yields. `capabilities`: what a changed version can newly
  reach.
* Reading code: `source` (its lines), `ipython_syntax` (IPython's additions to Python, and the user's
  own magics), `program` (scopes), `references` (mentions of names), `statements` (effects of SQL).
* Possible values of names: `resolver` with `flows`, `folding` and `calls`; `values` are their results. `dominance`:
  which bindings precede a use. `origins`: findings about objects that earlier code made.
* Judging it: `rules`, a class each, which see the code through `view`; `tables`, what well-known calls do, as data;
  `paths`, where a file lies. `pages`: the manual.
* `reading` with `reading_calls`: code that only reads; the user may let it run without a question.
* `limits`: of text, findings and time, so that nobody waits.

Analysis explains; it contains nothing. It parses and never imports or executes what it looks at. Knows no other
package.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
