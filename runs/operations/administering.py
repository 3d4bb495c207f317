"""What every verb of administration does: the project is locked, names are read, the last admin stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.password_validation import (
    CommonPasswordValidator,
    MinimumLengthValidator,
    NumericPasswordValidator,
    validate_password,
)
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from runs import policies
from runs.errors import LastAdmin, NameTaken, NotFound, Problem, Told, Unprocessable
from runs.models import Member, Project, User
from runs.models.people import ROLES
from runs.operations.door import verb
from runs.policies import Actor

MAX_NAME: Final = 150
PASSWORDS: Final[Any] = [MinimumLengthValidator(10), CommonPasswordValidator(), NumericPasswordValidator()]


@contextmanager
def administration(
    actor: Actor, name: str, target: object, *, what: str, said: str = "", also: Iterable[UUID] = ()
) -> Iterator[None]:
    """A verb for admins alone. The project is locked, so that what two of them do at once is done one after the other.

    said: what changes, as the audit tells it. also: other projects that it touches, locked with this one.
    """
    with verb(actor, name, target, reason=said):
        policies.check_administer(actor, what)
        lock_projects([actor.project.pk, *also])
        yield


def lock_projects(ids: Iterable[UUID]) -> None:
    """In the order of ids. Runs may still be submitted meanwhile: they only refer to the row."""
    list(Project.objects.select_for_update(no_key=True).filter(pk__in=list(ids)).order_by("pk"))


def known_roles(roles: Sequence[str]) -> list[str]:
    """Roles in their order, each once. Raises `Unprocessable`."""
    unknown = sorted(set(roles) - set(ROLES))
    if unknown or not roles:
        message = (
            Told("roles are {choices}", choices=", ".join(ROLES)) if unknown else "choose at least one role"
        )
        raise Unprocessable(
            Told("Roles are {choices}.", choices=", ".join(ROLES))
            if unknown
            else "Choose at least one role.",
            errors=[Problem("/roles", "roles", message)],
        )
    return [role for role in ROLES if role in roles]


def shown_name(text: str, *, path: str = "/name") -> str:
    """A name as people read it. Raises `Unprocessable`."""
    name = text.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        message = Told("a name has 1 to {max_name} printable characters", max_name=MAX_NAME)
        raise Unprocessable("This is no name.", errors=[Problem(path, "name", message)])
    return name


def new_user(*, username: str, name: str = "", **fields: Any) -> User:
    """An account that did not exist. Raises `Unprocessable` for what is no name, `NameTaken`."""
    user = User(username=username, name=shown_name(name) if name.strip() else "", **fields)
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Unprocessable("The account cannot be made like this.", errors=_problems(error)) from None
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        raise NameTaken(
            Told("There is an account {username!r} already.", username=username),
            errors=[Problem("/username", "name_taken", "is taken")],
        ) from None
    return user


def check_password(password: str) -> None:
    """Raises `Unprocessable` for one that is soon guessed."""
    try:
        validate_password(password, password_validators=PASSWORDS)
    except ValidationError as error:
        texts = " ".join(error.messages)
        raise Unprocessable(
            "Choose another password.", errors=[Problem("/password", "weak", texts)]
        ) from None


def _problems(error: ValidationError) -> list[Problem]:
    return [Problem(f"/{field}", "invalid", " ".join(texts)) for field, texts in error.message_dict.items()]


def locked_member(actor: Actor, username: str) -> Member:
    """A member of the actor's project, locked. Raises `NotFound`."""
    rows = Member.objects.select_for_update(of=("self",)).select_related("user", "project")
    found = rows.filter(project=actor.project, user__username=username).first()
    if found is None:
        raise NotFound()
    return found


def check_admin_stays(project_id: UUID, *, without: User) -> None:
    """Raises `LastAdmin` if nobody else administers the project. A service account is nobody: it cannot sign in."""
    others = Member.objects.filter(
        project=project_id, roles__contains=["admin"], user__is_active=True, user__is_service=False
    ).exclude(user=without)
    if not others.exists():
        raise LastAdmin()
