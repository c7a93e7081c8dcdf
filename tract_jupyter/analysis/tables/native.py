"""Native code and raw memory."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

CALLS_NATIVE = levels("""
    high .: ctypes.* _ctypes.* cffi.* torch.utils.cpp_extension.*
    high numpy.ctypeslib: load_library
    high weave: inline
    high torch.ops: load_library
    high sys: setdlopenflags
    medium mmap: mmap
""")

CALLS_NATIVE_MODULES = modules("""
    high: ctypes _ctypes cffi
""")
