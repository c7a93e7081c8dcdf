# Loads tract_jupyter in every session of this environment, but only for users who asked for it with
#     c.TractJupyter.autoload = True
# in their ipython_config.py or ipython_kernel_config.py. Without that line nothing is imported.
try:
    if get_ipython().config.TractJupyter.get("autoload", False) is True:
        get_ipython().run_line_magic("load_ext", "tract_jupyter")
except Exception as error:  # an exception here would keep the user's own startup files from running
    print(f"tract_jupyter was not loaded: {error}")
    del error
