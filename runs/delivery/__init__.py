"""Consumers of the outbox: webhooks and mails. `service` takes what is due and hands it to threads that only do I/O.

A process of its own (`manage.py deliver`): a target that stalls holds up neither the sweeper's takeovers nor a worker's slot.
"""

from runs.delivery.service import Sender

__all__ = ["Sender"]
