from __future__ import annotations

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured

from examples.sql_change import address


class SqlChangeConfig(AppConfig):
    name = "examples.sql_change"
    label = "sql_change"
    verbose_name = "SQL change example"

    def ready(self) -> None:
        """Refuse to start with an address that no connection could use."""
        try:
            address.told()
        except address.BadAddress as error:
            raise ImproperlyConfigured(str(error)) from error
