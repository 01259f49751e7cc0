"""What a ledger is asked for, whatever form the question came in: a start command, a scenario, an engine's log."""

from sim.memory_request.request import Ledger, MemoryRequest, ledger_of

__all__ = ["Ledger", "MemoryRequest", "ledger_of"]
