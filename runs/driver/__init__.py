"""The driver: runs the body of one node, with a context that journals its calls."""

from runs.driver.body import Asked, Completed, Failed, Outcome, Reopened, StepScope, run_body
from runs.driver.context import Approved, Context
from runs.driver.port import Call, Entry, Port

__all__ = [
    "Approved",
    "Asked",
    "Call",
    "Completed",
    "Context",
    "Entry",
    "Failed",
    "Outcome",
    "Port",
    "Reopened",
    "StepScope",
    "run_body",
]
