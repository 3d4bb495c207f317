from __future__ import annotations

from django.apps import AppConfig


class FlowsConfig(AppConfig):
    name = "tests.browser.flows"
    label = "browser_flows"
