"""Records of turns as a test wants them: what the engine would fill in is given at once."""

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from sim.engine.record import TurnRecord

_WORKED_OUT = ("ttft_s", "e2e_s", "first_seen_s", "received_tokens", "token_times_s")
FIELDS = tuple(  # its slots, which a compiled class does not name; there properties look like fields
    name  # in the order of the alphabet, for a compiled class has its own
    for name, member in sorted(vars(TurnRecord).items())
    if isinstance(member, GetSetDescriptorType | MemberDescriptorType)
    if not name.startswith("_") and name not in _WORKED_OUT
)


def turn_record(*sent: Any, **found: Any) -> TurnRecord:
    """Return a record: `sent` is what the client knows when it sends, `found` any other field."""
    record = TurnRecord(*sent)
    for name, value in found.items():
        setattr(record, name, value)
    return record
