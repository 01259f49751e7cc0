"""What can be wrong with a start-up log."""

from sim.errors import KvcliffError


class StartupLogError(KvcliffError):
    """A start-up log cannot be read, says nothing about memory, or holds a number that cannot be."""
