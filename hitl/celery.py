"""Celery: a message is a hint to look into Postgres. No results, early acknowledgement, ids only."""

from __future__ import annotations

import logging.config
import os
import sys
import warnings
from typing import Any

import django
from celery import Celery, signals
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hitl.settings")
# Django's checks load all of the API and the pages, which no worker has a use for.
os.environ.setdefault("CELERY_SKIP_CHECKS", "yes")

from django.conf import settings
from django.db import close_old_connections

from hitl.logging import begin, current
from runs import workflows
from runs.dispatch import COUNT, RETENTION
from runs.engine.limits import DEFAULT_QUEUE

REQUEST = "hitl_request"  # message header

app = Celery("hitl")
app.conf.update(
    broker_url=settings.REDIS_URL.replace("unix://", "redis+socket://", 1),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_connection_timeout=1,  # a web request never waits longer on the broker; the sweeper sends again
    broker_transport_options={"socket_connect_timeout": 1, "socket_timeout": 5, "max_retries": 0},
    task_publish_retry=False,
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=True,  # a busy child fetches nothing that an idle worker could do
    worker_cancel_long_running_tasks_on_connection_loss=False,
    # The nameless exchange leads to the queue of that name without a binding kept in Redis: after FLUSHALL
    # messages still arrive. A worker listens to more than the default one (below).
    task_queues=[Queue(DEFAULT_QUEUE, Exchange(""), routing_key=DEFAULT_QUEUE)],
    task_default_queue=DEFAULT_QUEUE,
    task_default_exchange="",
    task_default_routing_key=DEFAULT_QUEUE,
    # Slow housekeeping only; what must not be late belongs to the sweeper.
    beat_schedule={
        "retention": {"task": RETENTION, "schedule": 600.0, "options": {"expires": 600}},
        "statistics": {"task": COUNT, "schedule": 30.0, "options": {"expires": 30}},
    },
    timezone="UTC",
)
# Celery would close the database's connection before and after every task. To connect takes longer than a short run's work,
# and what was prepared goes with the connection. It is looked at before each task instead, as Django does before a request.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize
app.autodiscover_tasks(["runs"])

# Nothing here is unpickled, which is what the warning is about; who runs the image or `make up` as root knows it.
warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")


@signals.celeryd_init.connect
def _listen(conf: Any = None, **_: Any) -> None:
    """A worker listens to the queues it was told, or to all that the workflows name."""
    django.setup()
    conf.task_queues = [Queue(name, Exchange(""), routing_key=name) for name in workflows.queues_served()]


@signals.setup_logging.connect
def _log_like_django(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


@signals.before_task_publish.connect
def _hand_on_request(headers: dict[str, Any] | None = None, **_: Any) -> None:
    request = current().get("request")
    if headers is not None and request:
        headers[REQUEST] = request


@signals.task_prerun.connect
def _enter(task: Any = None, args: Any = None, kwargs: Any = None, **_: Any) -> None:
    """A connection that still works; and ids for the log: those of `runs.advance` (run, branch, address), and of the request
    that sent it."""
    close_old_connections()
    said = {**dict(zip(("run_id", "branch", "address"), args or (), strict=False)), **(kwargs or {})}
    ids = {"run": said.get("run_id"), "branch": said.get("branch"), "step": said.get("address")}
    ids["request"] = task.request.get(REQUEST)
    begin(**{name: str(value) for name, value in ids.items() if value is not None})


@signals.task_postrun.connect
def _leave(**_: Any) -> None:
    begin()
