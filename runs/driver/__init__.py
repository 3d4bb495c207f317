"""The driver: runs the body of one node, with a context that journals its calls."""

from runs.driver import secrets
from runs.driver.body import Asked, Completed, Failed, Outcome, Reopened, StepScope, run_body
from runs.driver.context import Approved, Context
from runs.driver.phases import ITEMS, Entered, ItemDone, Listed, run_step
from runs.driver.port import Call, Entry, LogLine, Port
from runs.driver.usage import Used

__all__ = [
    "ITEMS",
    "Approved",
    "Asked",
    "Call",
    "Completed",
    "Context",
    "Entered",
    "Entry",
    "Failed",
    "ItemDone",
    "Listed",
    "LogLine",
    "Outcome",
    "Port",
    "Reopened",
    "StepScope",
    "Used",
    "run_body",
    "run_step",
    "secrets",
]
