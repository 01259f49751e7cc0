"""What can be wrong with a pasted command."""

from sim.errors import KvcliffError


class CommandError(KvcliffError):
    """A server's start command cannot be read; the message says where in it, and what is wrong."""


class RuleError(Exception):
    """The rule that a name or a value breaks; whoever knows the place turns it into a CommandError."""
