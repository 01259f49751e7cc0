"""What the clients of a driven engine do: slots, each running its sessions one after the other, drawn from ranges.

The layout of NAME.workload.json.gz. Whoever drives a real engine draws from here what the prediction replays. A
slot's draws depend on the seed and its own number alone: a run with more slots meets the same first ones.
"""

import msgspec
import numpy as np

TOKEN_SEEDS = 2**30


class TurnScript(msgspec.Struct, frozen=True):
    """One turn: what it adds to the conversation, what comes back, and the pause before it in seconds."""

    session: str
    turn: int  # of its session, from 0
    new_tokens: int
    output_len: int
    think: float
    new_seed: int = 0  # of the new tokens' values


class SlotScript(msgspec.Struct, frozen=True):
    """One slot: when it starts in seconds, and its turns in order."""

    start: float
    turns: list[TurnScript]


class Shape(msgspec.Struct, frozen=True):
    """A profile of sessions: inclusive ranges of tokens, a range of pauses in seconds, counts of turns."""

    shared: int  # tokens of the system prompt all sessions have in common
    first: tuple[int, int]
    grow: tuple[int, int]
    out: tuple[int, int]
    turns: int  # of a full session
    turns_per_slot: int
    think: tuple[float, float]
    stagger: float  # seconds between the starts of two slots


class Workload(msgspec.Struct, frozen=True):
    """All slots of a run, and what they were drawn from."""

    profile: str
    seed: int
    sessions: int
    shared_prefix_tokens: int
    slots: list[SlotScript]
    params: Shape | None = None


def draw_workload(profile: str, shape: Shape, *, sessions: int, seed: int) -> Workload:
    """Return the workload of a number of slots; each but the first begins within a session, as if under way."""
    slots = [
        SlotScript(round(number * shape.stagger, 6), _slot_turns(shape, number, np.random.default_rng([seed, number])))
        for number in range(sessions)
    ]
    return Workload(profile, seed, sessions, shape.shared, slots, shape)


def _slot_turns(shape: Shape, number: int, rng: np.random.Generator) -> list[TurnScript]:
    """Return a slot's turns; its first session is shorter, by how far it had come, so that slots are out of step."""
    length = shape.turns if number == 0 else int(rng.integers(1, shape.turns, endpoint=True))
    turns: list[TurnScript] = []
    session = turn = 0
    for index in range(shape.turns_per_slot):
        if turn == length:
            session, turn, length = session + 1, 0, shape.turns
        turns.append(
            TurnScript(
                session=f"{number}.{session}",
                turn=turn,
                new_tokens=int(rng.integers(*(shape.first if turn == 0 else shape.grow), endpoint=True)),
                output_len=int(rng.integers(*shape.out, endpoint=True)),
                think=round(float(rng.uniform(*shape.think)), 4) if index else 0.0,
                new_seed=int(rng.integers(TOKEN_SEEDS)),
            )
        )
        turn += 1
    return turns
