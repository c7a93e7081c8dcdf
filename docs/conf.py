"""Settings of the site, which `docs/build.py` builds: Sphinx, with MyST for pages and notebooks."""

from __future__ import annotations

project = "tract_jupyter"
author = "the tract_jupyter developers"
copyright = author  # noqa: A001 # Sphinx's name for it

extensions = ["myst_nb"]
exclude_patterns: list[str] = []
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4  # links to headings, as on the pages that host the repository
nb_execution_mode = "off"  # build.py puts executed notebooks there
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # else each page would fetch them
# cells are IPython, and so are some blocks; those that are not Python stay plain
suppress_warnings = ["misc.highlighting_failure", "mystnb.unknown_mime_type"]

html_theme = "sphinx_book_theme"
html_title = "tract_jupyter"
html_show_sourcelink = False
html_theme_options = {
    "navbar_persistent": [],  # the search stands in the sidebar
    "navigation_with_keys": False,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
