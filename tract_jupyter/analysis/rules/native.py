"""Native code: foreign functions and raw memory (TJ107)."""

from __future__ import annotations

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, Rule, register


@register
class CallsNativeCode(Rule):
    """Calls native code or touches raw memory.

    ## What it does
    Reports `ctypes`, `cffi`, `mmap` and functions that load shared libraries or compile C.

    ## Why it matters
    Native code passes by every check of the interpreter, and a wrong pointer ends the kernel.

    ## Example
    ```python
    import ctypes
    ctypes.CDLL(None).system(b"...")
    ```

    ## What to do instead
    Use a package that wraps the library, or numpy for arrays.
    """

    code = "TJ107"
    name = "calls-native-code"
    category = Category.NATIVE
    level = HIGH
    effect = "calls native code or reaches raw memory"
    remedy = "Use a package that wraps the library."
