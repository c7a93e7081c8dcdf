"""Text that becomes code."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

RUNS_TEXT = levels("""
    critical builtins: exec eval execfile
    high builtins: compile
    high .: codeop.*
    high types: FunctionType CodeType LambdaType
    critical code: interact InteractiveInterpreter InteractiveConsole
    critical pdb: run runeval runcall
    critical cProfile: run runctx
    critical profile: run runctx
    critical trace.Trace(): run runctx
    critical bdb.Bdb(): run runeval
    high timeit: timeit repeat Timer
    high runpy: run_module run_path
    high doctest: testmod run_docstring_examples
    high typing: get_type_hints
    high inspect: get_annotations
    critical ?: exec eval
    critical IPython.shell: ex ev run_cell run_cell_async run_code safe_execfile safe_run_module system
        getoutput getoutput_s system_raw system_piped
    high IPython.shell: run_cell_magic
    high IPython.shell.extension_manager: load_extension
    critical IPython: embed start_ipython start_kernel
""")

RUNS_TEXT_MODULES = modules("""
    high: code codeop
    low: runpy
""")

EVALUATES_EXPRESSION = levels("""
    high sympy: sympify parse_expr
    high sympy.parsing.sympy_parser: parse_expr
    high jinja2: Template
    high jinja2.Environment(): from_string
    high mako.template: Template
    medium numexpr: evaluate re_evaluate
    high .: asteval.* simpleeval.*
    high RestrictedPython: compile_restricted
""")

CONFIGURES_BY_NAME = levels("""
    medium logging.config: dictConfig fileConfig listen DictConfigurator
    medium hydra.utils: instantiate call
""")

RUNS_MAGIC = levels("""
    high IPython.shell: run_line_magic magic
""")
