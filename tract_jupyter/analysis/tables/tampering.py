"""What others rely on: imports, the shell, modules."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

REPLACES_MEMBER = levels("""
    high IPython.shell: set_custom_exc set_hook
    medium IPython.shell.events: register unregister
    medium IPython.shell.ast_transformers: append
    medium IPython.shell.input_transformers_cleanup: append
    medium IPython.shell.input_transformers_post: append
""")

CHANGES_IMPORTS = levels("""
    medium sys: path path_importer_cache
    medium site: addsitedir
    high sys: meta_path path_hooks
    high builtins: __build_class__
""")
