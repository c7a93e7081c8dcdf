from .commit_graph import graph as graph
from .commit_graph import lay_out as lay_out
from .context import context_view as context_view
from .diff import diff_lines as diff_lines
from .diff import diff_view as diff_view
