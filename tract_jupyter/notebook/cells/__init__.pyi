from .edits import CellEdit as CellEdit
from .messages import MOST_CHARACTERS as MOST_CHARACTERS
from .messages import VERSION as VERSION
from .messages import source_hash as source_hash
from .origin import describe_origin as describe_origin
from .pages import CellPages as CellPages
from .tools import NotebookCells as NotebookCells
