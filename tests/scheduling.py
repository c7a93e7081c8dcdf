"""The distribution of tests over the workers of xdist, without its costs for long runs.

After each test, xdist counts all earlier tests of the worker, and searches the list of all tests for the next one.
With 20,000 tests this takes 17 seconds, and workers wait for it. This scheduler removes finished groups instead.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

AHEAD = 8
LAST = 2_000


class Scheduling(LoadGroupScheduling):
    """Distributes by groups.

    While more than `LAST` groups remain, a worker gets up to `AHEAD` at once, mostly single tests of one file. Later it
    gets one at a time, so all workers end at the same time.
    """

    @cached_property
    def _indexes(self) -> dict[str, int]:
        """Where each test is in the collection, which is the same in all workers."""
        return {nodeid: index for index, nodeid in enumerate(self.collection or ())}

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note the end of a test, and forget its group when that has ended."""
        nodeid = self.registered_collections[node][item_index]
        group = self._split_scope(nodeid)
        unit = self.assigned_work[node][group]
        unit[nodeid] = True
        if all(unit.values()):
            del self.assigned_work[node][group]
        self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Send the next groups to a worker."""
        units = [self.workqueue.popitem(last=False)]
        while len(self.workqueue) > LAST and len(units) < AHEAD and len(units[-1][1]) == 1:
            units.append(self.workqueue.popitem(last=False))
        if len(units) > 1 and len(units[-1][1]) > 1:  # a large group is for the first worker that is free
            self.workqueue.update([units[-1]])
            self.workqueue.move_to_end(units.pop()[0], last=False)
        self.assigned_work[node].update(units)
        node.send_runtest_some(
            [self._indexes[nodeid] for _, unit in units for nodeid, ended in unit.items() if not ended]
        )
