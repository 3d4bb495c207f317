"""Who is asked, in which order, and when enough of them agree. Pure.

Theory. An approval asks one stage of people after the other; most have one. A person has one vote on a version, whichever
stage it was given in, so nobody counts twice. People agree when they say the same about every action (and, where they
answer in place of it, in the same words). A stage is through when its quorum agrees; the next must agree with what the
stages before have said, or reject. Rejects are counted over all stages. An edit makes a new version: the first stage is
asked again, and the vote that came with the edit counts in the stage it was given in, when its turn comes.

Where an approval stands follows from its votes alone, in whatever order they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.engine.canonical import Json
from runs.errors import WorkflowError

PERSON: Final = "user:"  # before the name of one person among reviewers


def several(value: Any) -> tuple[Any, ...] | None:
    """What an author gave as a list, or as the only text of one; None is neither."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else None


def listed(value: Any, *, where: str, what: str) -> tuple[Any, ...]:
    """The same, of what has to be one. Raises `WorkflowError`."""
    found = several(value)
    if found is None:
        raise WorkflowError(f"{where}: {what} is a list, not {value!r:.100}.")
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """People who are asked together. reviewers: team names, or `user:NAME`; none means every reviewer of the project.

    quorum: how many different people of them must agree.
    """

    reviewers: Sequence[str] | str = ()
    quorum: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "reviewers", listed(self.reviewers, where="Stage", what="reviewers"))

    @property
    def teams(self) -> list[str]:
        return [name for name in self.reviewers if not name.startswith(PERSON)]

    @property
    def users(self) -> list[str]:
        return [name.removeprefix(PERSON) for name in self.reviewers if name.startswith(PERSON)]

    def as_dict(self) -> dict[str, Json]:
        return {"reviewers": list(self.reviewers), "quorum": self.quorum}

    def joined_by(self, others: Sequence[str]) -> Stage:
        """The same stage when more people have been asked; where everybody is asked already, nobody is added."""
        if not self.reviewers:
            return self
        return Stage(tuple(dict.fromkeys([*self.reviewers, *others])), self.quorum)


@dataclass(frozen=True, slots=True)
class VoteFact:
    """A vote of the present version: by whom, its decisions without the arguments, and the stage it was given in."""

    user: str
    signature: str
    outcome: str
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an approval stands. stage: the one that is asked now (the last one, when it is decided). agreed: what the stages
    before have said. outcome: what is decided, if it is."""

    stage: int
    agreed: str = ""
    outcome: str = ""


Held = Callable[[str, frozenset[str]], bool]


def _never(said: str, people: frozenset[str]) -> bool:
    return False


def standing(
    stages: Sequence[Stage], votes: Sequence[VoteFact], *, reject_quorum: int, held: Held = _never
) -> Standing:
    """Where an approval stands with these votes of its version.

    held(what, by whom): whether something that these people have said alike is not decided by them alone, although they are
    enough; then the last stage goes on being asked.
    """
    rejects = {vote.user for vote in votes if vote.outcome == "reject"}
    agreed, last = "", len(stages) - 1
    for no, stage in enumerate(stages):
        ready = [word for word in _quorate(stage, no, votes) if agreed in ("", word)]
        if no == last:
            ready = [word for word in ready if not held(word, _sayers(word, votes))]
        if not ready:
            return Standing(no, agreed, "reject" if len(rejects) >= reject_quorum else "")
        agreed = ready[0]
    return Standing(last, agreed, next(vote.outcome for vote in votes if vote.signature == agreed))


def _quorate(stage: Stage, no: int, votes: Sequence[VoteFact]) -> list[str]:
    """What enough people have said alike in a stage; a reject is no agreement."""
    said: dict[str, set[str]] = {}
    for vote in votes:
        if vote.stage == no and vote.outcome != "reject":
            said.setdefault(vote.signature, set()).add(vote.user)
    return [word for word, people in said.items() if len(people) >= stage.quorum]


def _sayers(word: str, votes: Sequence[VoteFact]) -> frozenset[str]:
    return frozenset(vote.user for vote in votes if vote.signature == word)


@dataclass(frozen=True, slots=True)
class Known:
    """Who there is to answer. by_team: usernames that may decide, by team; absent teams do not exist. reviewers: everybody with
    that role. people: everybody who may decide, by whatever role."""

    by_team: Mapping[str, frozenset[str]]
    reviewers: frozenset[str]
    people: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a stage cannot come to an answer, as things are: a code, and whom it is about."""

    code: str
    stage: int
    who: tuple[str, ...] = ()
    needed: int = 1
    there: int = 0

    def as_dict(self) -> dict[str, Json]:
        return {
            "code": self.code,
            "stage": self.stage,
            "who": list(self.who),
            "needed": self.needed,
            "there": self.there,
        }


def lacking(stages: Sequence[Stage], known: Known, *, barred: frozenset[str]) -> Lack | None:
    """The first stage that nobody, or too few people, can answer. barred: who asked, and may not decide.

    unknown_team and unknown_person name those that do not exist; empty_team has nobody who may decide; only_requester: who
    asked is the only one; too_few: fewer than its quorum.
    """
    for no, stage in enumerate(stages):
        found = _lack(stage, no, known, barred)
        if found is not None:
            return found
    return None


def _lack(stage: Stage, no: int, known: Known, barred: frozenset[str]) -> Lack | None:
    asked = candidates(stage, known)
    there = asked - barred
    if len(there) >= stage.quorum:
        return None
    missing = tuple(team for team in stage.teams if team not in known.by_team)
    strangers = tuple(name for name in stage.users if name not in known.people)
    if missing:
        code, who = "unknown_team", missing
    elif asked and not there:
        code, who = "only_requester", tuple(sorted(asked))
    elif strangers and not there:
        code, who = "unknown_person", strangers
    elif not there:
        code, who = "empty_team", tuple(stage.teams) or ("reviewers",)
    else:
        code, who = "too_few", tuple(stage.reviewers)
    return Lack(code, no, who, stage.quorum, len(there))


def candidates(stage: Stage, known: Known) -> frozenset[str]:
    """The names of everybody whom a stage asks and who may decide."""
    if not stage.reviewers:
        return known.reviewers
    by_team = [known.by_team.get(team, frozenset()) for team in stage.teams]
    return frozenset().union(*by_team, frozenset(stage.users) & known.people)
