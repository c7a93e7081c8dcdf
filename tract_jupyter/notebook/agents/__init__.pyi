from .live import AgentWatch as AgentWatch
from .live import LiveTree as LiveTree
from .tree import drawn_tree as drawn_tree
