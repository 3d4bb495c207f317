from __future__ import annotations

from django.apps import AppConfig


class HitlConfig(AppConfig):
    """The wiring as an app, so that every Django process knows the Celery app that `runs.dispatch` sends through."""

    name = "hitl"

    def ready(self) -> None:
        from hitl import celery, logging
        from runs.driver import secrets

        celery.app.set_default()
        if secrets.redact not in logging.redactors:
            logging.redactors.append(secrets.redact)
