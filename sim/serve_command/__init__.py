"""A server's start command as users paste it, read into typed settings: start with read.py."""

from sim.serve_command.command import ServeCommand, Speculative
from sim.serve_command.errors import CommandError
from sim.serve_command.read import REPLACED, read_command

__all__ = ["REPLACED", "CommandError", "ServeCommand", "Speculative", "read_command"]
