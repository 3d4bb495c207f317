"""Django's admin shows and changes nothing."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from runs.models import Project, User

SHOWN = [model for model in apps.get_app_config("runs").get_models() if admin.site.is_registered(model)]


@pytest.fixture
def root(database: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)
def test_even_a_superuser_only_looks(root: Client, model: type) -> None:
    """C59, the admin's path: nothing there decides, edits or deletes."""
    place = f"/admin/runs/{model.__name__.lower()}"
    assert root.get(f"{place}/").status_code == 200
    assert root.get(f"{place}/add/").status_code == 403
    answer = root.post(f"{place}/", {"action": "delete_selected", "_selected_action": "1"})
    assert answer.status_code in (200, 302, 403)
    assert b"deleted" not in answer.content


def test_what_is_shown_cannot_be_saved(root: Client) -> None:
    project = Project.objects.create(slug="demo", name="Demo")
    place = f"/admin/runs/project/{project.pk}"
    assert root.get(f"{place}/change/").status_code == 200
    assert root.post(f"{place}/change/", {"slug": "x", "name": "x"}).status_code == 403
    assert root.post(f"{place}/delete/", {"post": "yes"}).status_code == 403
    project.refresh_from_db()
    assert project.slug == "demo"


def test_hashes_of_passwords_and_tokens_are_not_shown(root: Client) -> None:
    user = User.objects.get(username="root")
    user.set_password("secret")
    user.save()
    root.force_login(user)
    page = root.get(f"/admin/runs/user/{user.pk}/change/")
    assert user.password not in page.text
