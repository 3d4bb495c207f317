"""When a checkpoint is a snapshot and when it is only a patch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runs.models import (
    Run,
)

PATCH_OVERHEAD: Final = 256
BESIDE_LEAST: Final = 131_072  # bytes of patches before a lane among others stops to write a snapshot


@dataclass(slots=True)
class Weights:
    """When a lane's next snapshot is due; kept in memory between steps, as on the run row.

    turn: among lanes, this one's commit was the one that made the patches outweigh the snapshot (or outweigh it twice, three
    times), so it writes the next one. If each looked for itself, all of them would stop for it at once.
    """

    patches: int
    snapshot: int
    fresh: bool
    turn: bool = False

    @classmethod
    def of(cls, run: Run) -> Weights:
        return cls(run.patch_weight, run.snapshot_size, fresh=run.snapshot_no == 0 and run.branch > 1)

    def wants_snapshot(self, size: int, *, beside: bool = False) -> bool:
        """Whether the next checkpoint is a snapshot. beside: other lanes live, and a snapshot takes the run's lock: small
        documents would have one at every other step, so there it waits until it spares some reading."""
        if beside:
            return self.fresh or self.turn
        return self.fresh or self.patches + size + PATCH_OVERHEAD > self.snapshot

    def see(self, *, patches: int, snapshot: int, own: int) -> None:
        """Take over what stands on the run row after a commit of `own` bytes: sibling lanes write patches too."""
        limit = max(snapshot, BESIDE_LEAST)
        self.turn = patches // limit > (patches - own) // limit
        self.fresh, self.patches, self.snapshot = False, patches, snapshot

    def note(self, *, patch_size: int, snapshot_size: int | None) -> None:
        self.fresh = self.turn = False
        if snapshot_size is None:
            self.patches += patch_size + PATCH_OVERHEAD
        else:
            self.patches, self.snapshot = 0, snapshot_size
