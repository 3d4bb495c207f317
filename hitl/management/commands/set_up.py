"""`manage.py set_up`: whatever the workflows' apps want done before they start (hitl/processes.py). May be run again."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from hitl.processes import setups


class Command(BaseCommand):
    help = "Run what each app of HITL_WORKFLOW_APPS names as its set-up."

    def handle(self, *args: Any, **options: Any) -> None:
        for words in setups(settings.HITL_WORKFLOW_APPS):
            call_command(*words, stdout=self.stdout, stderr=self.stderr)
