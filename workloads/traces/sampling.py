"""A part of a trace, chosen by a hash of names and a seed: the same sessions every time, whatever else is read."""

import hashlib


def is_chosen(name: str, share: float, seed: int) -> bool:
    """Return whether a name is of the share, which is from 0 to 1. A larger share holds a smaller one's names."""
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2.0**64
