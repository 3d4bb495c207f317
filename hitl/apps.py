from __future__ import annotations

from django.apps import AppConfig


class HitlConfig(AppConfig):
    """The wiring as an app, so that every Django process knows the Celery app that `runs.dispatch` sends through."""

    name = "hitl"

    def ready(self) -> None:
        from hitl import celery

        celery.app.set_default()
