"""Who there is to answer in a play, and when they work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.engine.hours import STANDARD, Hours
from runs.engine.stages import Known, Lack, Stage, candidates, lacking
from runs.engine.workflow import ApprovalOptions

Teams = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class People:
    """teams: usernames by team; None where a play does not say: then whoever answers is somebody who is asked.

    requester: who asked for the run, and may not answer. hours: when teams work; those of the empty name hold for all others,
    who else work from Monday to Friday, nine to five, UTC.
    """

    teams: Teams | None = None
    requester: str = ""
    hours: Mapping[str, Hours] = field(default_factory=dict)

    def hours_of(self, team: str) -> Hours:
        return self.hours.get(team) or self.hours.get("", STANDARD)

    def asked(self, stage: Stage, options: Mapping[str, Any]) -> list[str] | None:
        """Who may answer at a stage, in the order in which the teams name them; None if a play does not say."""
        if self.teams is None:
            return None
        found = candidates(stage, self._known(stage)) - self.barred(options)
        order = dict.fromkeys([*(name for names in self.teams.values() for name in names), *stage.users])
        return [name for name in order if name in found]

    def lack(self, options: ApprovalOptions) -> Lack | None:
        """Why a question cannot come to an answer, as in Postgres; nothing where a play does not say who there is."""
        if self.teams is None:
            return None
        return lacking(options.asked, self._known(*options.asked), barred=self.barred(options.as_dict()))

    def barred(self, options: Mapping[str, Any]) -> frozenset[str]:
        return frozenset() if options.get("requester_may_decide") else frozenset({self.requester} - {""})

    def _known(self, *stages: Stage) -> Known:
        """Everybody who is named may decide, and is a reviewer."""
        by_team = {team: frozenset(names) for team, names in (self.teams or {}).items()}
        named = frozenset(name for stage in stages for name in stage.users)
        everybody = named.union(*by_team.values())
        return Known(by_team, everybody, everybody)
