from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.urls import register_converter


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from runs import addresses, store, workflows

        connection_created.connect(store.sign)
        register_converter(addresses.Name, "name")
        workflows.autodiscover()
