"""Is docker-compose.yml what the compose specification allows, and does it name the parts that `make up` starts?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from compose_spec.models import ComposeSpecification

FILE = Path(__file__).resolve().parent.parent / "docker-compose.yml"
PARTS = {"postgres", "redis", "migrate", "web", "worker", "sweeper", "deliver", "beat", "payments"}


def main() -> int:
    content: dict[str, Any] = yaml.safe_load(FILE.read_text())
    described = {key: value for key, value in content.items() if not key.startswith("x-")}
    ComposeSpecification.model_validate(described)
    missing = PARTS - set(content["services"])
    if missing:
        print(f"docker-compose.yml lacks {', '.join(sorted(missing))}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
