"""What leads from any object to the whole process; imports by name."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

IMPORTS_BY_NAME = levels("""
    high builtins: __import__ __loader__ __spec__
    high importlib: import_module __import__ find_loader
    high .: imp.* _imp.* importlib.machinery.* importlib.util.* importlib.abc.* zipimport.* importlib.simple.*
    low importlib.util: find_spec resolve_name cache_from_source source_from_cache source_hash decode_source
    low importlib.machinery: all_suffixes ModuleSpec
    low imp: reload find_module get_magic get_suffixes acquire_lock release_lock
    low importlib: reload
    high importlib.metadata: EntryPoint
    low importlib.metadata: entry_points
    low _imp: extension_suffixes is_builtin is_frozen lock_held
    high pkgutil: resolve_name get_loader find_loader ImpImporter ImpLoader
    medium pkgutil: walk_packages get_importer iter_importers read_code
    high pydoc: locate safeimport importfile
    medium pydoc: resolve
    medium modulefinder: ModuleFinder
    high IPython.utils.importstring: import_item
    high traitlets.utils.importstring: import_item
    high traitlets: import_item
    high IPython.utils.module_paths: find_mod
    high ihooks: ModuleImporter
    high pkg_resources: load_entry_point
    low pkg_resources: iter_entry_points
    high werkzeug.utils: import_string
    high django.utils.module_loading: import_string
    high zope.dottedname.resolve: resolve
    high celery.utils.imports: import_from_cwd symbol_by_name
    high kombu.utils.imports: symbol_by_name
    high numpy.compat: npy_load_module
    high numpy.compat.py3k: npy_load_module
    high lazy_loader: load
    high *: load_module exec_module __loader__ __import__
    medium *: __spec__
    high ?: __import__ import_module load_source load_dynamic
""")

IMPORTS_BY_NAME_MODULES = modules("""
    low: importlib importlib.util pkgutil
    medium: imp _imp zipimport importlib.machinery importlib.abc
    none: importlib.metadata importlib.resources
""")

READS_INTERNALS = levels("""
    high *: __subclasses__ __globals__ __builtins__ __self__ __closure__ cell_contents __traceback__
        f_back f_builtins f_globals f_locals gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame
        tb_next __bases__ __mro__ __base__ __code__ func_globals func_code func_closure __getattribute__
        __class__ __objclass__ f_trace
    medium *: __func__ mro f_code gi_yieldfrom cr_await ag_await __thisclass__ __self_class__ im_func im_self
    low *: __wrapped__ __defaults__ __kwdefaults__ co_code co_consts
    high builtins:
""")

_STANDARD = levels("""
    high gc: get_objects get_referrers get_referents
    medium gc: callbacks garbage
    high inspect: stack currentframe trace getouterframes getinnerframes getclosurevars
    medium inspect: getcoroutinelocals getgeneratorlocals getasyncgenlocals getframeinfo getargvalues
    low inspect: getmembers getmembers_static getmodule getattr_static unwrap
    high sys: _getframe _getframemodulename _current_frames _current_exceptions modules call_tracing
    medium sys: last_traceback last_value last_exc addaudithook __stdout__ __stderr__ __stdin__ __dict__
        get_asyncgen_hooks unraisablehook
    low sys: exc_info gettrace getprofile audit
    high traceback: walk_stack walk_tb
    low traceback: extract_stack extract_tb
    medium threading: _active _limbo
    low threading: enumerate
    medium asyncio: all_tasks
    medium asyncio.Task: all_tasks
    medium os: __dict__
    medium subprocess: __dict__
    medium builtins: __dict__
    medium shutil: __dict__
    medium socket: __dict__
    medium ctypes: __dict__
    medium importlib: __dict__
    high warnings.catch_warnings(): _module
    high pympler.muppy: get_objects
    high objgraph: by_type at find_backref_chain find_ref_chain get_leaking_objects
    medium guppy: hpy
""")

_NOTEBOOK = levels("""
    high IPython.shell: user_ns user_global_ns user_ns_hidden user_module ns_table kernel all_ns_refs
        parent payload_manager
    medium IPython.shell: db get_local_scope new_main_mod prepare_user_module
    low IPython.shell: Completer complete inspector object_inspect
    high IPython.shell.kernel: session shell do_shutdown
    high .: ipykernel.* jupyter_client.session.* jupyter_client.connect.* jupyter_client.client.*
        jupyter_server.* notebook.notebookapp.* notebook.auth.*
    medium .: jupyter_client.*
    low ipykernel.comm: Comm CommManager
    low jupyter_client.kernelspec: find_kernel_specs get_kernel_spec
    medium IPython.core.history: HistoryManager HistoryAccessor
    medium .: IPython.core.magics.*
    high google.colab._ipython: get_kernel get_kernelapp
""")

INSPECTS_PROCESS = {**_STANDARD, **_NOTEBOOK}

COMPUTES_ATTRIBUTE = levels("""
    high builtins: getattr
    medium operator: attrgetter methodcaller
""")
