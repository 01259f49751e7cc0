"""The one error of this package; it stands apart so that `workloads` imports nothing of ours."""


class WorkloadError(Exception):
    """A workload that cannot exist, such as a session without turns."""
