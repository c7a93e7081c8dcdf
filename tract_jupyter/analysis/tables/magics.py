"""IPython's magics by what they do; a magic that is in no table is not known."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import modules, words

SHELL_LINE = words("system sx sc bash sh")
SHELL_CELL = words("""
    bash sh script system sx ! cmd powershell pwsh zsh perl ruby python python2 python3 pypy
""")

LINE = modules("""
    high: run load_ext reload_ext alias pip conda mamba micromamba uv rm mv cp cat ls ll lx lk lf ldir less
        more man mkdir rmdir cython javascript js autocall profile_run loadpy kernel
    medium: load rerun recall macro edit ed store env set_env unalias rehashx gui save logstart notebook
        cd pushd popd killbgscripts reset history hist
    none: matplotlib pylab config precision who whos who_ls pinfo pinfo2 pdoc pdef psource pfile psearch
        lsmagic magic quickref pwd pprint xmode colors autoreload aimport debug pdb tb dhist dirs bookmark
        page doctest_mode autosave connect_info qtconsole load_profile watermark automagic logstate logoff
        logon logstop reset_selective subplots timeit time prun memit mprun lprun
""")

CELL = modules("""
    high: javascript js cython writefile file sql bigquery R
    low: html HTML svg SVG latex markdown mermaid
""")

HARMLESS_EXTENSIONS = words("autoreload tract_jupyter line_profiler memory_profiler cython")
