"""`python -m tests.acceptance.seed`: two projects with their people in the database of DATABASE_URL; prints API tokens."""

from __future__ import annotations

import json
import os
import sys

PEOPLE = {
    "frida": ["reviewer"],
    "felix": ["reviewer"],
    "olga": ["operator"],
    "shop": ["submitter"],
    "vera": ["viewer"],
    "ada": ["admin"],
}
PASSWORD = "open sesame"


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hitl.settings")
    import django

    django.setup()
    tokens = {name: secret for slug in ("night", "other") for name, secret in _project(slug).items()}
    print(json.dumps(tokens))
    return 0


def _project(slug: str) -> dict[str, str]:
    from runs.models import Member, Project, Team, User
    from runs.models.people import SCOPES
    from runs.operations.tokens import issue_token

    project = Project.objects.create(slug=slug, name=slug)
    team = Team.objects.create(project=project, name="finance")
    mark = "" if slug == "night" else f"-{slug}"
    tokens = {}
    for name, roles in PEOPLE.items():
        user = User.objects.create(username=f"{name}{mark}", is_service=name == "shop")
        if name == "frida":
            user.set_password(PASSWORD)
            user.save()
        Member.objects.create(project=project, user=user, roles=roles)
        if "reviewer" in roles:
            team.people.add(user)
        _, tokens[user.username] = issue_token(project=project, user=user, name="test", scopes=SCOPES)
    return tokens


if __name__ == "__main__":
    sys.exit(main())
