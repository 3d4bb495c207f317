from __future__ import annotations

from django.apps import AppConfig


class FlowsConfig(AppConfig):
    name = "tests.kit.flows"
    label = "flows"
