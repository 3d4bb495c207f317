"""How big each kind of case is: the smallest size that can still fail, and the full one of `make
test-long`.
"""

from __future__ import annotations

import os

VARIABLE = "HITL_TEST_SIZE"
LONG = os.environ.get(VARIABLE, "small") == "long"

#   what                     small   long
TABLE: dict[str, tuple[int, int]] = {
    "property examples": (60, 3_000),
    "stateful steps": (20, 100),
    "race rounds": (3, 50),
    "storms": (1, 20),
    "kills": (1, 20),  # at each boundary of a step
    "writes of the matrix": (2, 100),  # of each fault, left alone, rewound and cancelled; 100 is all of them
    "rounds of the matrix": (1, 2),  # 6 faults, 29 writes, 3 wishes: 1,044 runs
    "overtaken": (3, 5),  # at a time; each needs two of the twelve pool children
    "runs in a rolling restart": (10, 200),
    "rolling restarts": (2, 40),
    "parallel requests": (50, 50),
    "history events": (300, 20_000),
    "state items": (200, 5_000),
    "runs in a list": (60, 5_000),
    "lanes": (4, 16),
    "children": (30, 300),
    "open streams": (80, 500),
    "portions of a soak": (3, 20),  # with a restart of Redis between two
    "chains of a portion": (12, 220),  # of ten steps: 50,000 steps in all, with those of the questions
    "questions of a portion": (3, 100),
    "pages of a portion": (8, 25),
}


def size(name: str) -> int:
    small, long = TABLE[name]
    return long if LONG else small
