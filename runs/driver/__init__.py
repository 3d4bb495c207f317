"""The driver: runs the body of one node, with a context that journals its calls."""

from runs.driver.body import Asked, Completed, Failed, Outcome, Reopened, StepScope, run_body
from runs.driver.context import Approved, Context
from runs.driver.phases import ITEMS, Entered, ItemDone, Listed, run_step
from runs.driver.port import Call, Entry, Port

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
    "Outcome",
    "Port",
    "Reopened",
    "StepScope",
    "run_body",
    "run_step",
]
