"""The driver: runs the body of one node, with a context that journals its calls."""

from runs.driver import secrets
from runs.driver.body import Asked, Completed, Failed, Outcome, Reopened, StepScope, Suspended, run_body
from runs.driver.context import Context
from runs.driver.decisions import Answer, Approved
from runs.driver.phases import ITEMS, Entered, ItemDone, Listed, run_step
from runs.driver.port import Call, Entry, LogLine, Port
from runs.driver.undoing import take_back
from runs.driver.usage import Used
from runs.driver.waits import First, Received
from runs.driver.watchdog import StepLost

__all__ = [
    "ITEMS",
    "Answer",
    "Approved",
    "Asked",
    "Call",
    "Completed",
    "Context",
    "Entered",
    "Entry",
    "Failed",
    "First",
    "ItemDone",
    "Listed",
    "LogLine",
    "Outcome",
    "Port",
    "Received",
    "Reopened",
    "StepLost",
    "StepScope",
    "Suspended",
    "Used",
    "run_body",
    "run_step",
    "secrets",
    "take_back",
]
