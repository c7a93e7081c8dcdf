"""Formats that run code when read."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

LOADS_OBJECTS = levels("""
    critical pickle: load loads Unpickler _load _loads _Unpickler
    high dill: load loads load_session load_module
    high cloudpickle: load loads
    high marshal: load loads
    high shelve: open Shelf
    high joblib: load
    high jsonpickle: decode loads
    high pandas: read_pickle
    high pandas.io.pickle: read_pickle
    high pandas.compat.pickle_compat: load
    critical yaml: unsafe_load unsafe_load_all UnsafeLoader
    high yaml: load load_all full_load full_load_all Loader FullLoader
    high torch: load
    high numpy: load
    high numpy.lib.npyio: load
    high torch.jit: load
    high torch.package: PackageImporter
    high keras.models: load_model
    high tensorflow.keras.models: load_model
    high skops.io: load
    high sklearn.externals.joblib: load
    high xmlrpc.client: loads
    medium copyreg: pickle dispatch_table
    medium *: __reduce__ __reduce_ex__
""")

LOADS_OBJECTS_MODULES = modules("""
    low: pickle marshal shelve dill cloudpickle
""")
