"""Requests that ask for more than their tokens: penalties on what they said already, and answers to a grammar."""

from math import floor

from sim.scheduling.batch import Batch
from sim.scheduling.decode_group import DecodeGroup
from sim.scheduling.request import Request
from sim.steptime.ahead import Stretch
from sim.steptime.batch import BatchShape


class Extras:
    """Which requests ask for what, and what a step sees of it. Shares are spread evenly over the requests' order."""

    def __init__(self, penalised_share: float, structured_share: float, *, hashes: bool) -> None:
        self._penalised_share = penalised_share
        self._structured_share = structured_share
        self._asked = penalised_share > 0 or structured_share > 0
        self._hashes = hashes

    def mark(self, request: Request) -> None:
        """Settle what a request asks for, by its number."""
        if self._asked:
            request.penalised = _is_among(request.number, self._penalised_share)
            request.structured = _is_among(request.number, self._structured_share)

    def add_to_stretch(self, stretch: Stretch, group: DecodeGroup, step: int) -> None:
        """Enter what the group's rows ask for from `step` on."""
        if self._asked:
            scanned, penalised, structured = _of_group(group, step)
            stretch.scanned_tokens = scanned
            stretch.penalised_rows = penalised
            stretch.structured_rows = structured

    def added(self, shape: BatchShape, batch: Batch, group: DecodeGroup) -> BatchShape:
        """Return a batch's sums with what its requests ask for."""
        scanned = structured = hashed = 0
        if self._hashes:
            for admission in batch.admitted:
                if not admission.resumed:
                    hashed += admission.request.prompt_tokens
        if self._asked:
            scanned, _, structured = _of_group(group, batch.step)
            for entry in batch.scheduled:
                request = entry.request
                if entry.samples:
                    structured += request.structured
                    if request.penalised:
                        scanned += entry.computed_before + entry.tokens - request.prompt_tokens
        return shape._replace(scanned_tokens=scanned, structured_rows=structured, hashed_tokens=hashed)


def _of_group(group: DecodeGroup, step: int) -> tuple[int, int, int]:
    """Return the output that penalties scan at a step, and how many rows have some, and how many a grammar."""
    scanned = penalised = structured = 0
    for request in group.members.values():
        structured += request.structured
        if request.penalised:
            penalised += 1
            scanned += request.output_tokens - (request.last_step - step) - 1
    return scanned, penalised, structured


def _is_among(number: int, share: float) -> bool:
    return floor((number + 1) * share) > floor(number * share)
