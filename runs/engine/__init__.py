"""The engine: plain Python that decides what happens to a run. No Django, no I/O, no clock, no randomness.

Authors import from here:

    from runs.engine import Action, Ask, Retry, Workflow, START, END, Editable, Sensitive,
        Searchable, append, Concurrency, Rate
"""

from runs.engine.graph import END, START
from runs.engine.hours import Hours
from runs.engine.limits import Concurrency, Rate
from runs.engine.redaction import Sensitive
from runs.engine.retry import Retry
from runs.engine.searching import Searchable
from runs.engine.stages import Stage
from runs.engine.state import Editable, append
from runs.engine.waits import Child, Question, Signal, Timer
from runs.engine.workflow import Action, Ask, Workflow

__all__ = [
    "END",
    "START",
    "Action",
    "Ask",
    "Child",
    "Concurrency",
    "Editable",
    "Hours",
    "Question",
    "Rate",
    "Retry",
    "Searchable",
    "Sensitive",
    "Signal",
    "Stage",
    "Timer",
    "Workflow",
    "append",
]
