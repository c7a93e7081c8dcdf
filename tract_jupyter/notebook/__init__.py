"""The extension: the only part that imports IPython and widgets."""
