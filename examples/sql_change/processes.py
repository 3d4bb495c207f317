"""What `make up` does once for this example, after the tables are there; hitl/processes.py says how it is read."""

from __future__ import annotations

from typing import Final

SETUP: Final[list[list[str]]] = [["sql_change_setup"]]
