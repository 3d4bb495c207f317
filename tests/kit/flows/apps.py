from __future__ import annotations

import os

from django.apps import AppConfig

VISIBILITY = "HITL_TEST_VISIBILITY"  # seconds after which the broker believes a message lost


class FlowsConfig(AppConfig):
    name = "tests.kit.flows"
    label = "flows"

    def ready(self) -> None:
        if VISIBILITY in os.environ:
            from hitl.celery import app

            app.conf.broker_transport_options["visibility_timeout"] = float(os.environ[VISIBILITY])
