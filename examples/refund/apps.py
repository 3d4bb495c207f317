from __future__ import annotations

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured

from examples.refund import shop


class RefundConfig(AppConfig):
    name = "examples.refund"
    label = "refund"
    verbose_name = "Refund example"

    def ready(self) -> None:
        """Refuse to start with an address that no call could use."""
        try:
            shop.address()
        except shop.BadAddress as error:
            raise ImproperlyConfigured(str(error)) from error
