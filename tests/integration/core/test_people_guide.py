"""docs/people.md: its table is what the policies say, its code runs, its commands are understood."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

from django.core.management import call_command

from runs import policies
from runs.engine import Workflow
from runs.models import Approval, Run, Team
from runs.models.people import ROLES, SCOPES
from runs.policies import Actor, can
from runs.web.members import MAY
from tests.integration.core.conftest import House, pay_flow, person

GUIDE = (Path(__file__).parents[3] / "docs" / "people.md").read_text()

Check = Callable[[Actor, Run, Approval], bool]
RIGHTS: Final[dict[str, Check]] = {
    "read runs, approvals, history, members": lambda a, run, _: can(policies.check_view, a, run.project_id),
    "submit runs": lambda a, *_: can(policies.check_submit, a),
    "cancel a run": lambda a, run, _: policies.can_cancel(a, run),
    "send it signals": lambda a, run, _: policies.can_signal(a, run),
    "decide, revise": lambda a, run, approval: policies.can_decide(a, run, approval),
    "rewind, edit the state": lambda a, run, _: policies.can_steer(a, run),
    "fork": lambda a, run, _: policies.can_fork(a, run),
    "retry": lambda a, run, _: policies.can_retry(a, run),
    "legal hold, erase": lambda a, run, _: policies.can_keep(a, run),
    "members, teams, tokens of others, settings, audit": lambda a, *_: policies.can_administer(a),
}


def cell(check: Check, actor: Actor, run: Run, approval: Approval, team: Team) -> str:
    """yes: always. own, asked: only for runs that they requested, or where they are asked."""
    if check(actor, run, approval):
        return "yes"
    mine = copy.copy(run)
    mine.requester = actor.user
    if check(actor, mine, approval):
        return "own"
    team.people.add(actor.user)
    asked = Actor(actor.user, actor.project, actor.method)
    may = check(asked, run, approval)
    team.people.remove(actor.user)
    return "asked" if may else "no"


def test_the_table_of_roles_is_what_the_policies_say(house: House, define: Callable[..., Workflow]) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    team = Team.objects.get(name="finance")
    actors = [person(house.project, f"only-{role}", role) for role in ROLES]
    rows = [f"| | {' | '.join(ROLES)} |", f"| --- |{' --- |' * len(ROLES)}"]
    rows += [
        f"| {name} | {' | '.join(cell(check, actor, run, approval, team) for actor in actors)} |"
        for name, check in RIGHTS.items()
    ]
    table = "\n".join(rows)
    assert table in GUIDE, f"docs/people.md says something else than the policies:\n{table}"


def test_every_role_and_scope_is_explained() -> None:
    assert set(MAY) == set(ROLES)
    for name in (*ROLES, *SCOPES):
        assert f"`{name}`" in GUIDE, name


def test_the_code_of_the_guide_does_what_it_says() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(block, names)


def test_the_commands_of_the_guide_are_understood(house: House, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("a long password\n"))
    [block] = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "manage.py"
        call_command(*words, stdout=StringIO(), stderr=StringIO())
