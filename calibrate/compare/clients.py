"""Which listed sessions are one client's: in a closed loop a session begins as another one ends.

Such sessions are sent one after the other, so that where the simulation is slower the next one begins later, as it
would have. Where sessions begin at their own times, they keep them. Subagents are nobody's next session.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.recorded import RecordedSession

_AT_ONCE_S = 0.1  # a client that keeps so many sessions open begins the next one within this
_SLACK_S = 1e-3  # by which the next send may seem to be before the answer
_CLOSED = 0.9  # share of the sessions after the first end that must begin so


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session with the time of its last token; None: not listed."""

    session: RecordedSession
    end_s: float | None
    depth: int  # of agents: 0 the main one


def most_open(sessions: Sequence[ListedSession]) -> int:
    """Return how many main sessions were open at the same time at most; all of them where times are not listed."""
    main = [one for one in sessions if not one.depth] or list(sessions)
    ends = [one.end_s for one in main if one.end_s is not None]
    if len(ends) < len(main):
        return len(main)
    moves = sorted([(one.session.at_s, 1) for one in main] + [(end - _SLACK_S, -1) for end in ends])
    now = most = 0
    for _, change in moves:
        now += change
        most = max(most, now)
    return max(most, 1)


def by_client(sessions: Sequence[ListedSession]) -> list[RecordedSession]:
    """Return the sessions of a closed loop joined by client, those of an open one as they are, in order of start."""
    main = sorted((one for one in sessions if not one.depth), key=lambda one: one.session.at_s)
    rest = [one.session for one in sessions if one.depth]
    clients: list[list[ListedSession]] = []
    later = followers = 0
    first_end_s = min((one.end_s for one in main if one.end_s is not None), default=None)
    for one in main:
        begin_s = one.session.at_s
        free = [client for client in clients if _is_next(client[-1], begin_s)]
        later += first_end_s is not None and begin_s >= first_end_s - _SLACK_S
        if free:
            followers += 1
            max(free, key=lambda client: client[-1].end_s or 0.0).append(one)
        else:
            clients.append([one])
    if not later or followers < _CLOSED * later:
        clients = [[one] for one in main]
    return sorted([*map(_joined, clients), *rest], key=lambda session: session.at_s)


def _is_next(last: ListedSession, begin_s: float) -> bool:
    return last.end_s is not None and -_SLACK_S <= begin_s - last.end_s <= _AT_ONCE_S


def _joined(client: Sequence[ListedSession]) -> RecordedSession:
    first = client[0].session
    return first._replace(turns=tuple(turn for one in client for turn in one.session.turns))
