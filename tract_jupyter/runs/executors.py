"""Operations on any `concurrent.futures.Executor`: processes, a Dask cluster, ipyparallel's engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.runs.workers import MAX_THREADS, ThreadWorkers, error_result, result_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from tract_jupyter.runs.abort import Abort
    from tract_jupyter.runs.workers import Job


class ExecutorWorkers(ThreadWorkers):
    """Runs the jobs that may run anywhere on an executor, and the others on threads of this process.

    It takes a `ProcessPoolExecutor`, Dask's `client.get_executor()`, ipyparallel's `view.executor`. A function that
    runs there is told its deadline by its context, and hears no signal; what has not begun there is taken back.

    When the executor dies, such as a pool that lost a process, whatever it had is an error of these operations
    (`operation_error`): those that ran, and those that waited within it. What comes later goes to a fresh executor, if
    `fresh` makes one; otherwise it is an error too.

    Args:
        executor: the caller's; it is not shut down here.
        workers: how many jobs the executor runs at once; then no more operations run at once, wherever. With it the
            order of operations decides who is next, and the time of each one counts from its own start; without it
            all that is ready waits within the executor.
        fresh: makes another one in its place; those are shut down by `close`.
    """

    def __init__(
        self, executor: Executor, *, workers: int | None = None, fresh: Callable[[], Executor] | None = None
    ) -> None:
        super().__init__()
        self.capacity = workers or MAX_THREADS
        self._executor = executor
        self._fresh = fresh
        self._made: list[Executor] = []

    def close(self) -> None:
        """End the threads, and shut down what was made here, without waiting."""
        super().close()
        for executor in self._made:
            executor.shutdown(wait=False, cancel_futures=True)

    def submit(self, key: object, job: Job, abort: Abort) -> None:
        """Have it run on the executor, if it may run anywhere."""
        if not job.anywhere:
            super().submit(key, job, abort)
            return
        try:
            future = self._sent(job)
        except Exception as error:  # noqa: BLE001 # executors raise what they like
            self._report(key, error_result(job.context, error))
            return
        forget = abort.on_set(future.cancel)

        def ended(future: Future[Any]) -> None:
            forget()
            self._report(key, result_of(job.context, future.result))

        future.add_done_callback(ended)

    def _sent(self, job: Job) -> Future[Any]:
        try:
            return self._executor.submit(job.function, job.context)
        except RuntimeError:
            # broken, or shut down
            if self._fresh is None:
                raise
            self._executor = self._fresh()
            self._made.append(self._executor)
            return self._executor.submit(job.function, job.context)
