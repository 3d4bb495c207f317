"""Mail, after the commit: what was rolled back was never sent, and a mail server that is away undoes nothing."""

from __future__ import annotations

import logging
import smtplib

from django.core.mail import send_mail
from django.db import transaction

logger = logging.getLogger(__name__)


def send_after_commit(*, to: str, subject: str, text: str) -> None:
    """Send a plain mail once the surrounding transaction has committed. Whether it arrived is not known here."""

    def send() -> None:
        try:
            send_mail(" ".join(subject.split()), text, None, [to])
        except (OSError, smtplib.SMTPException) as error:
            logger.warning("a mail was not sent: %s", type(error).__name__)

    transaction.on_commit(send, robust=True)
