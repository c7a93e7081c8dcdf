"""IPython's magics by effect. A magic in no table is unknown."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import modules, words

SHELL_LINE = words("system sx sc bash sh shell cmd powershell pwsh zsh script osascript")
SHELL_CELL = words("""
    bash sh script system sx sc ! cmd powershell pwsh zsh ksh csh tcsh dash fish perl ruby python python2
    python3 pypy pypy3 shell node nodejs deno bun lua php tclsh expect awk osascript
""")

_IPYTHON_LINE = modules("""
    high: run load_ext reload_ext unload_ext alias alias_magic code_wrap pip conda mamba micromamba uv pixi poetry
        rm mv cp mkdir rmdir cython javascript js autocall profile_run loadpy kernel pastebin
    medium: load rerun rep recall macro edit ed store env set_env unalias rehashx gui save logstart notebook
        killbgscripts reset history hist ls ll lx lk lf ldir cat less more man pycat subshell
    low: cd pushd popd xdel clear cls
    none: matplotlib pylab config precision who whos who_ls pinfo pinfo2 pdoc pdef psource pfile psearch
        lsmagic magic quickref pwd pprint xmode colors autoreload aimport debug pdb tb dhist dirs bookmark
        page doctest_mode autosave connect_info qtconsole load_profile automagic autoawait logstate logoff
        logon logstop reset_selective timeit time prun
""")

_PACKAGES_LINE = modules("""
    high: ai chat sql sqlcmd bigquery R Rpush Rpull Rget Rdevice octave octave_push octave_pull matlab julia
        px autopx pxconfig pxresult spark configure manage_spark cypher sparql gremlin kql stata run_pytest fs
        reload_kedro load_node run_viz restart_kernel restart_python manim
    medium: dotenv wandb heat snakeviz scalene pyinstrument nbdev_export
    low: tensorboard watermark version_information
    none: subplots memit mprun lprun autotime nb_black lab_black ipytest chime notify autonotify nb_mypy
        pycodestyle_on pycodestyle_off flake8_on flake8_off
""")

LINE = {**_IPYTHON_LINE, **_PACKAGES_LINE}

CELL = modules("""
    high: javascript js cython cython_pyximport cython_inline writefile file appendfile writetemplate code_wrap
        sql bigquery R ai chat julia octave matlab stata sas px spark pyspark scala sparksql sparkr
        configure cypher sparql gremlin kql cuda cu cpp cling cpp11 fortran rust go java kotlin csharp fsharp
        groovy ocaml haskell ipytest run_pytest pytest manim nbrun local send_to_spark oc
    low: html HTML svg SVG latex markdown mermaid dot graphviz tikz itikz plantuml
    none: skip comment raw typst
""")

HARMLESS_EXTENSIONS = words("""
    autoreload storemagic tract_jupyter line_profiler memory_profiler cython Cython watermark version_information
    tensorboard tensorboard.notebook autotime heat heat.magics snakeviz scalene pyinstrument
    nb_black lab_black jupyter_black black_nb nb_mypy mypy_ipython pycodestyle_magic blackcellmagic
    jupyternotify wurlitzer ipytest cudf.pandas cuml.accel fireducks.pandas google.cloud.bigquery bigquery_magics
    google.colab.data_table rpy2.ipython oct2py.ipython sql sql_magic dotenv memray manim
    tikzmagic itikz graphviz_magic jupyter_tikz gvmagic mermaid_magic pymarkdown kql
    jupyter_ai jupyter_ai_magics jupyter_ai_magic_commands sparkmagic.magics wandb ydata_profiling
    IPython.extensions.autoreload IPython.extensions.storemagic
""")
