"""Projects: founded at the command line, named by their admins."""

from __future__ import annotations

import re
from typing import Final

from django.db import IntegrityError, transaction

from runs.errors import NameTaken, Problem, Told, Unprocessable
from runs.models import Member, Project, User
from runs.operations.administering import administration, shown_name
from runs.operations.door import audit_command
from runs.policies import Actor

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")


def rename_project(*, actor: Actor, name: str) -> Project:
    """Give the project another name; its slug, which addresses and headers say, stays."""
    wanted = shown_name(name)
    with administration(
        actor, "rename_project", actor.project.slug, what="change settings", said=f"name: {wanted}"
    ):
        Project.objects.filter(pk=actor.project.pk).update(name=wanted)
        actor.project.name = wanted
        return actor.project


@transaction.atomic(durable=True)
def create_project(*, slug: str, name: str, admin: User | None = None) -> Project:
    """Found a project, with an admin if there is an account for it. Raises `NameTaken`."""
    if not _SLUG.match(slug):
        message = Told("1 to 63 small letters, digits or dashes, none at its ends")
        raise Unprocessable("This is no slug of a project.", errors=[Problem("/slug", "slug", message)])
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, name=shown_name(name))
    except IntegrityError:
        raise NameTaken(Told("There is a project {slug!r} already.", slug=slug)) from None
    if admin is not None:
        Member.objects.create(project=project, user=admin, roles=["admin"])
    audit_command(project, "create_project", slug)
    return project
