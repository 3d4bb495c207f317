"""Which statements are let through at all: one INSERT, UPDATE or DELETE of one known table, in known parts.

The tree of sqlglot is checked against lists of what may be there, node by node and part by part; whatever is not on a
list is refused. What is executed later is the text written anew from the checked tree, never the text that was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from examples.sql_change import lexis
from examples.sql_change.lexis import Refused
from examples.sql_change.tables import SCHEMA, TABLES, Table

__all__ = ["Change", "Kind", "Refused", "read"]

Kind = Literal["insert", "update", "delete"]
DIALECT: Final = "postgres"
COLUMNS: Final = frozenset(name for table in TABLES.values() for name in table.columns)
KNOWN: Final = COLUMNS | frozenset(TABLES) | {SCHEMA}
ROOTS: Final[dict[type[exp.Expr], Kind]] = {
    exp.Insert: "insert",
    exp.Update: "update",
    exp.Delete: "delete",
}


def _parts(*names: str) -> frozenset[str]:
    return frozenset(names)


_ONE: Final = _parts("this")
_TWO: Final = _parts("this", "expression")

# What may stand in a statement, and which of its parts may be filled.
NODES: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Insert: _TWO,
    exp.Update: _parts("this", "expressions", "where"),
    exp.Delete: _parts("this", "where"),
    exp.Schema: _parts("this", "expressions"),
    exp.Values: _parts("expressions"),
    exp.Tuple: _parts("expressions"),
    exp.Select: _parts("expressions", "from_", "where"),
    exp.Subquery: _ONE,
    exp.From: _ONE,
    exp.Where: _ONE,
    exp.Table: _parts("this", "db", "alias"),
    exp.TableAlias: _ONE,
    exp.Column: _parts("this", "table"),
    exp.Identifier: _ONE,
    exp.Literal: _parts("this", "is_string"),
    exp.Boolean: _ONE,
    exp.Null: _parts(),
    exp.Star: _parts(),
    exp.Paren: _ONE,
    exp.Not: _ONE,
    exp.Neg: _ONE,
    **dict.fromkeys([exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE], _TWO),
    exp.Is: _parts("this", "expression", "negate"),
    **dict.fromkeys([exp.Like, exp.ILike, exp.Add, exp.Sub, exp.Mul, exp.Mod], _TWO),
    exp.Div: _parts("this", "expression", "typed", "safe"),
    exp.DPipe: _parts("this", "expression", "safe"),
    exp.Between: _parts("this", "low", "high"),
    exp.In: _parts("this", "expressions", "query"),
    exp.Exists: _ONE,
    exp.Case: _parts("this", "ifs", "default"),
    exp.If: _parts("this", "true"),
    exp.Cast: _parts("this", "to"),
    exp.DataType: _parts("this", "expressions", "nested"),
    exp.DataTypeParam: _ONE,
    # Functions: each is immutable, and its result is not much longer than what it is given.
    exp.Coalesce: _parts("this", "expressions"),
    exp.Nullif: _TWO,
    exp.Greatest: _parts("this", "expressions", "ignore_nulls"),
    exp.Least: _parts("this", "expressions", "ignore_nulls"),
    exp.Upper: _ONE,
    exp.Lower: _ONE,
    exp.Initcap: _TWO,  # the second part is sqlglot's own, and not written out
    exp.Trim: _parts("this", "expression", "position"),
    exp.Length: _ONE,
    exp.Substring: _parts("this", "start", "length"),
    exp.Replace: _parts("this", "expression", "replacement"),
    exp.Abs: _ONE,
    exp.Round: _parts("this", "decimals"),
    exp.Floor: _ONE,
    exp.Ceil: _ONE,
    exp.Count: _parts("this", "big_int"),
    **dict.fromkeys([exp.Min, exp.Max, exp.Sum, exp.Avg], _ONE),
}
TYPES: Final = frozenset({"TEXT", "VARCHAR", "INT", "SMALLINT", "BIGINT", "DECIMAL", "DOUBLE", "BOOLEAN"})
FIRST: Final = {
    "SELECT": "a SELECT reads; only INSERT, UPDATE and DELETE are changes",
    "WITH": "WITH is not let through; write a sub-select",
}
WORDS: Final[dict[type, str]] = {
    exp.Returning: "RETURNING is not let through; the dry run shows what changes",
    exp.OnConflict: "ON CONFLICT is not let through; send an INSERT or an UPDATE",
    exp.With: "WITH is not let through; write a sub-select",
    exp.Join: "joins are not let through; write a sub-select",
    exp.Lock: "FOR UPDATE and FOR SHARE are not let through",
    exp.Window: "window functions are not let through",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that was let through.

    text: what is executed, letter for letter. columns: those that are written (of a DELETE none).
    where: the condition, as it stands in the text. comments: what stood beside the statement and is not executed.
    """

    text: str
    kind: Kind
    table: Table
    alias: str
    columns: tuple[str, ...]
    where: str
    source: str
    comments: tuple[str, ...]


def read(text: str) -> Change:
    """The one change that a text asks for. Raises Refused, saying what is not let through."""
    lexed = lexis.read(text, known=KNOWN)
    tree, kind = _root(lexed)
    for node in tree.walk():
        _check_node(node)
    table, alias = _target(tree, kind)
    columns = _written(tree, kind, table)
    return Change(
        text=_written_anew(tree),
        kind=kind,
        table=table,
        alias=alias,
        columns=columns,
        where=_sql(tree.args.get("where")),
        source=_sql(tree.args["expression"]) if isinstance(tree.args.get("expression"), exp.Select) else "",
        comments=tuple(lexed.comments),
    )


def _root(lexed: lexis.Lexed) -> tuple[exp.Expr, Kind]:
    first = lexed.words[0].upper()
    kind = {kind.upper(): kind for kind in ROOTS.values()}.get(first)
    if kind is None:
        raise Refused(FIRST.get(first, f"{first} is none of INSERT, UPDATE and DELETE"))
    tree = _tree(lexed.text)
    if ROOTS.get(type(tree)) != kind:
        raise Refused("it cannot be read as one statement of SQL")
    return tree, kind


def _tree(text: str) -> exp.Expr:
    try:
        (tree,) = sqlglot.parse(text, dialect=DIALECT)
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    except (SqlglotError, ValueError):
        raise Refused("it cannot be read as one statement of SQL") from None
    if not isinstance(tree, exp.Expr):
        raise Refused("it cannot be read as one statement of SQL")
    return tree


def _written_anew(tree: exp.Expr) -> str:
    """The text of the tree, which must be read as the same tree again: nothing is lost or added on the way."""
    try:
        text = tree.sql(dialect=DIALECT, pretty=True, comments=False)
        again = _tree(lexis.read(text, known=KNOWN).text)
        same = again == tree and again.sql(dialect=DIALECT, pretty=True, comments=False) == text
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    if not same:
        raise Refused("it does not read the same when it is written anew; write it more plainly")
    return text


def _sql(tree: Any) -> str:
    return str(tree.sql(dialect=DIALECT, comments=False)) if isinstance(tree, exp.Expr) else ""


# ---- one node


def _check_node(node: exp.Expr) -> None:
    allowed = NODES.get(type(node))
    if allowed is None:
        raise Refused(WORDS.get(type(node), _not_listed(node)))
    for name, value in node.args.items():
        if value and name not in allowed and not name.startswith("_"):
            found = next((WORDS[type(part)] for part in _list(value) if type(part) in WORDS), "")
            raise Refused(found or f"{_said(name)} of {_call(node)} is not let through")
    check = _CHECKS.get(type(node))
    if check is not None:
        check(node)


def _not_listed(node: exp.Expr) -> str:
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return f"the function {name.lower()} is not let through"
    return f"{_call(node)} is not let through"


def _call(node: exp.Expr) -> str:
    return type(node).__name__.upper()


def _said(name: str) -> str:
    return name.rstrip("_").replace("_", " ").upper()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_table(node: exp.Expr) -> None:
    """A known table; its schema is written out from here on."""
    name, schema = node.args["this"], node.args.get("db")
    if not isinstance(name, exp.Identifier) or (schema is not None and schema.name.lower() != SCHEMA):
        raise Refused(f"only tables of the schema {SCHEMA} may be named")
    if name.name.lower() not in TABLES:
        raise Refused(f"{name.name} is none of the tables {', '.join(TABLES)}")
    name.set("this", name.name.lower())
    node.set("db", exp.to_identifier(SCHEMA))


def _check_column(node: exp.Expr) -> None:
    name = node.args["this"]
    if not isinstance(name, exp.Identifier) or name.name.lower() not in COLUMNS:
        raise Refused(f"{name.name or '*'} is no column of {' or '.join(TABLES)}")


def _check_from(node: exp.Expr) -> None:
    if type(node.this) is not exp.Table:
        raise Refused("a FROM names one table")


def _check_star(node: exp.Expr) -> None:
    if type(node.parent) is not exp.Count:
        raise Refused("* is only let through in count(*); name the columns")


def _check_type(node: exp.Expr) -> None:
    kind = node.args["this"]
    name = getattr(kind, "name", str(kind))
    if name not in TYPES or node.args.get("nested"):
        raise Refused(f"a cast to {_sql(node).lower()} is not let through")


def _check_replace(node: exp.Expr) -> None:
    if node.find_ancestor(exp.Replace):
        raise Refused("a replace inside a replace is not let through: its result may grow without limit")


_CHECKS: Final[dict[type[exp.Expr], Callable[[exp.Expr], None]]] = {
    exp.Table: _check_table,
    exp.Column: _check_column,
    exp.From: _check_from,
    exp.Star: _check_star,
    exp.DataType: _check_type,
    exp.Replace: _check_replace,
}


# ---- the whole


def _target(tree: exp.Expr, kind: Kind) -> tuple[Table, str]:
    place = tree.this.this if kind == "insert" and isinstance(tree.this, exp.Schema) else tree.this
    if type(place) is not exp.Table:
        raise Refused("it names no table")
    return TABLES[place.name], place.alias or place.name


def _written(tree: exp.Expr, kind: Kind, table: Table) -> tuple[str, ...]:
    if kind == "delete":
        return ()
    names = _inserted(tree, table) if kind == "insert" else _assigned(tree)
    for name in names:
        if name not in table.columns:
            raise Refused(f"{name} is no column of {table.place}")
    if len(set(names)) != len(names):
        raise Refused("a column is written twice")
    if kind == "update" and table.key in names:
        raise Refused(f"{table.key} is the key of {table.place}; delete the row and insert another")
    return names


def _inserted(tree: exp.Expr, table: Table) -> tuple[str, ...]:
    if not isinstance(tree.this, exp.Schema):
        raise Refused("an INSERT names its columns")
    if type(tree.args.get("expression")) not in (exp.Values, exp.Select):
        raise Refused("an INSERT has VALUES or a SELECT")
    names = tuple(name.name.lower() for name in tree.this.expressions)
    if table.key not in names:
        raise Refused(f"an INSERT into {table.place} gives the key {table.key}")
    return names


def _assigned(tree: exp.Expr) -> tuple[str, ...]:
    pairs = tree.expressions
    if any(type(pair) is not exp.EQ or type(pair.this) is not exp.Column for pair in pairs):
        raise Refused("SET takes column = value, one by one")
    if any(pair.this.args.get("table") for pair in pairs):
        raise Refused("SET names a column without its table")
    return tuple(pair.this.name.lower() for pair in pairs)
