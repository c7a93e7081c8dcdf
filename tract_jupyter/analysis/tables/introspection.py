"""What leads from any object to the whole process; imports by name."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

IMPORTS_BY_NAME = levels("""
    high builtins: __import__ __loader__ __spec__
    high importlib: import_module __import__
    high .: imp.* importlib.machinery.* importlib.util.* importlib.abc.* zipimport.*
    low importlib.util: find_spec
    low importlib: reload
    high pkgutil: resolve_name get_loader find_loader
    high pydoc: locate safeimport importfile
    high IPython.utils.importstring: import_item
    high pkg_resources: load_entry_point
    high *: load_module exec_module __loader__ __import__
""")

IMPORTS_BY_NAME_MODULES = modules("""
    low: importlib importlib.util
    medium: imp zipimport importlib.machinery
    none: importlib.metadata importlib.resources
""")

READS_INTERNALS = levels("""
    high *: __subclasses__ __globals__ __builtins__ __self__ __closure__ cell_contents __traceback__
        f_back f_builtins f_globals f_locals gi_frame gi_code cr_frame ag_frame tb_frame tb_next
        __bases__ __mro__ __base__ __code__ func_globals func_code __getattribute__ __class__
    medium *: __func__ mro
    high builtins:
""")

INSPECTS_PROCESS = levels("""
    high gc: get_objects get_referrers get_referents
    high inspect: stack currentframe trace getouterframes getinnerframes getclosurevars
    high sys: _getframe _current_frames modules call_tracing
    high traceback: walk_stack walk_tb
    medium sys: exc_info last_traceback addaudithook __stdout__ __stderr__ __stdin__ __dict__
    high IPython.shell: user_ns user_global_ns
    medium os: __dict__
    medium subprocess: __dict__
    medium builtins: __dict__
    medium shutil: __dict__
    medium socket: __dict__
    medium ctypes: __dict__
    medium importlib: __dict__
""")

COMPUTES_ATTRIBUTE = levels("""
    high builtins: getattr
    medium operator: attrgetter methodcaller
""")
