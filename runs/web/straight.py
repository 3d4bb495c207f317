"""In which row everything of a layered graph stands. Pure.

igraph says what stands above what in each layer (Sugiyama: as few crossings as it finds). Where that leaves room, lines are
straight: the longest way from the first node to the last is one row, whatever jumps over it, and all else lies as close to it as
it can, above or below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import igraph

Edge = tuple[str, str]
Rows = Mapping[str, Sequence[str]]


def rows(layers: Mapping[str, int], chains: Mapping[Edge, Sequence[str]]) -> dict[str, float]:
    """The row of each name, from 0. layers: of the nodes, the longest way counts; chains: each edge with a name for every layer
    that it only passes."""
    order = _ordered(layers, chains)
    if not order:
        return {}
    spine = _spine(layers, chains)
    blocks = _blocks(order, [*pairwise(spine), *_level(chains, set(spine))])
    found = _placed(order, blocks, spine[0])
    first = min(found.values())
    return {name: float(found[blocks[name]] - first) for layer in order for name in layer}


def _ordered(layers: Mapping[str, int], chains: Mapping[Edge, Sequence[str]]) -> list[list[str]]:
    """The names of each layer from top to bottom."""
    depth = dict(layers)
    for (source, _), chain in chains.items():
        depth |= {name: layers[source] + place for place, name in enumerate(chain) if name not in layers}
    names = list(depth)
    number = {name: place for place, name in enumerate(names)}
    links = [(number[a], number[b]) for chain in chains.values() for a, b in pairwise(chain)]
    graph = igraph.Graph(n=len(names), edges=links, directed=True)
    drawn = graph.layout_sugiyama(layers=[depth[name] for name in names], hgap=1, vgap=1)
    made: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in sorted(names, key=lambda name: drawn[number[name]][0]):
        made[depth[name]].append(name)
    return made


def _spine(layers: Mapping[str, int], chains: Mapping[Edge, Sequence[str]]) -> list[str]:
    """A node in each layer, each with an edge to the next: back from the end, the first declared of those that there are."""
    here = max(layers, key=lambda name: layers[name])
    found = [here]
    while layers[here]:
        here = next(a for a, b in chains if b == here and layers[a] == layers[here] - 1)
        found.append(here)
    return found[::-1]


def _level(chains: Mapping[Edge, Sequence[str]], spine: set[str]) -> Iterator[Edge]:
    """What else should be level with each other, the most wanted first: lines that only pass, then nodes of a side way."""
    for chain in chains.values():
        yield from pairwise(chain[1:-1])
    followed: set[str] = set()
    for (a, b), chain in chains.items():
        if len(chain) == 2 and not {a, b} & spine and not {a, f"to {b}"} & followed:
            followed |= {a, f"to {b}"}
            yield a, b


def _blocks(order: Sequence[Sequence[str]], wanted: Iterable[Edge]) -> dict[str, str]:
    """Which names share a row: those that want to, as long as what stands above something stays above it."""
    block = {name: name for layer in order for name in layer}
    for a, b in wanted:
        merged = {name: block[a] if was == block[b] else was for name, was in block.items()}
        if _is_possible(order, merged):
            block = merged
    return block


def _is_possible(order: Sequence[Sequence[str]], block: Mapping[str, str]) -> bool:
    try:
        TopologicalSorter(_above(order, block)).prepare()
    except CycleError:
        return False
    return True


def _above(order: Sequence[Sequence[str]], block: Mapping[str, str]) -> dict[str, set[str]]:
    """By block, those that stand right above it somewhere."""
    found: dict[str, set[str]] = {one: set() for one in block.values()}
    for layer in order:
        for upper, lower in pairwise(layer):
            found[block[lower]].add(block[upper])
    return found


def _placed(order: Sequence[Sequence[str]], block: Mapping[str, str], spine: str) -> dict[str, int]:
    """The row of each block: 0 for the spine, which has a node in every layer, so that all else is above it or below it."""
    above = _above(order, block)
    below: dict[str, set[str]] = {one: set() for one in above}
    for one, others in above.items():
        for other in others:
            below[other].add(one)
    turn = list(TopologicalSorter(above).static_order())
    found = {block[spine]: 0}
    for one in turn[turn.index(block[spine]) :]:
        known = [found[other] for other in above[one] if other in found]
        if known and one not in found:
            found[one] = max(known) + 1
    for one in reversed(turn):
        if one not in found:
            found[one] = min(found[other] for other in below[one]) - 1
    return found
