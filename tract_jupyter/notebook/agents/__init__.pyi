from .live import LiveTree as LiveTree
from .tree import drawn_tree as drawn_tree
from .watch import AgentWatch as AgentWatch
