"""Medians, ratios, rows: what is printed and what is written to results.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Row:
    """One figure. value and p95 in `unit`; ratio_to_raw: of the one-row commit of the same minute; limit: what it must keep,
    in words; ok: whether it does, None where there is no limit."""

    name: str
    unit: str
    value: float | None
    p95: float | None = None
    ratio_to_raw: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    limit: str = ""
    ok: bool | None = None


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


@dataclass(slots=True)
class Rounds:
    """What several contenders took in rounds in which they took turns: all their samples, and a median a round."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    medians: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, samples: Sequence[float]) -> None:
        self.samples.setdefault(name, []).extend(samples)
        self.medians.setdefault(name, []).append(median(samples))

    def value(self, name: str) -> float:
        """The median over the rounds of the round's median."""
        return median(self.medians[name])

    def ratio(self, name: str, to: str) -> float:
        """The median over the rounds of the ratio within the round: what disturbs both disturbs it little."""
        pairs = zip(self.medians[name], self.medians[to], strict=True)
        return median(one / other for one, other in pairs)

    def row(self, name: str, *, of: str, unit: str = "ms", raw: str = "raw", **more: object) -> Row:
        return Row(
            name=name,
            unit=unit,
            value=self.value(of),
            p95=p95(self.samples[of]),
            ratio_to_raw=self.ratio(of, raw),
            peers={peer: self.value(peer) for peer in self.medians if peer not in (of, raw)},
            **more,  # type: ignore[arg-type]
        )


def within(row: Row, limit: str, *holds: bool) -> Row:
    row.limit, row.ok = limit, all(holds)
    return row


def write(rows: Sequence[Row], file: Path) -> None:
    file.write_text(json.dumps([_rounded(row) for row in rows], indent=2) + "\n")


def _rounded(row: Row) -> dict[str, object]:
    told = asdict(row)
    for name in ("value", "p95", "ratio_to_raw"):
        told[name] = None if told[name] is None else round(told[name], 4)
    told["peers"] = {peer: round(value, 4) for peer, value in row.peers.items()}
    return told


def table(rows: Sequence[Row]) -> str:
    """For a terminal, and as Markdown for the docs."""
    heads = ("what", "unit", "value", "p95", "x raw", "peers", "must reach", "")
    cells = [heads, tuple("---" for _ in heads), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    peers = ", ".join(f"{peer} {_shown(value)}" for peer, value in row.peers.items())
    verdict = {True: "ok", False: "MISSED", None: ""}[row.ok]
    shown = (_shown(row.value), _shown(row.p95), _shown(row.ratio_to_raw))
    return (row.name, row.unit, *shown, peers, row.limit, verdict)


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
