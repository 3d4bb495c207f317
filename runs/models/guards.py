"""Checks that cost little: nothing where none of their columns is written, or no more than a call."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.sql import Query

Editor = BaseDatabaseSchemaEditor


class CheckedWhenWritten(models.CheckConstraint):
    """What a row must fulfil, asked for when it is inserted or one of the condition's columns is written.

    Postgres reads all CHECKs of a table anew in every statement that changes it. A run has ten about its status and its end,
    and a step's commit, which writes neither, spent a third of its time in the server on them. So they are triggers, on these
    columns alone. The error is a CHECK's, with the same name.
    """

    def constraint_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> str:
        """Nothing within CREATE TABLE: a trigger comes after it."""
        assert schema_editor is not None
        schema_editor.deferred_sql.append(self.create_sql(model, schema_editor))
        return ""

    def create_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> Any:
        assert model is not None
        assert schema_editor is not None
        quote, table = schema_editor.quote_name, _table(model)
        columns = ", ".join(quote(column) for column in _columns(self, model, schema_editor))
        condition = self._of_new_row(model, schema_editor)
        return (
            f"CREATE TRIGGER {quote(self.name)} AFTER INSERT OR UPDATE OF {columns} ON {quote(table)}"
            f" FOR EACH ROW WHEN (NOT ({condition})) EXECUTE FUNCTION runs_refuse()"
        )

    def remove_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> Any:
        assert model is not None
        assert schema_editor is not None
        quote = schema_editor.quote_name
        return f"DROP TRIGGER {quote(self.name)} ON {quote(_table(model))}"

    def _of_new_row(self, model: type[models.Model], schema_editor: Editor) -> str:
        assert isinstance(self.condition, models.Q)
        query = Query(model)
        compiler = query.get_compiler(connection=schema_editor.connection)
        sql, values = query.build_where(self.condition).as_sql(compiler, schema_editor.connection)
        condition = str(sql) % tuple(schema_editor.quote_value(value) for value in values)
        return condition.replace(f"{schema_editor.quote_name(_table(model))}.", "NEW.")


class CheckedByFunction(models.CheckConstraint):
    """A CHECK whose condition is the body of a function of the constraint's name.

    Postgres reads the text of each CHECK anew in every statement that writes to the table; a function it keeps. For tables
    that a step or a call writes to, of which a tenth to a quarter of the server's time went into reading: there the call is
    all that is read. What is refused, when and by which name is the same.
    """

    def constraint_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> str:
        self._make_function(model, schema_editor)
        return super().constraint_sql(model, schema_editor)

    def create_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> Any:
        self._make_function(model, schema_editor)
        return super().create_sql(model, schema_editor)

    def remove_sql(self, model: type[models.Model] | None, schema_editor: Editor | None) -> Any:
        """The constraint goes at once, its function at the end: nothing can use it any more."""
        assert schema_editor is not None
        schema_editor.deferred_sql.append(f"DROP FUNCTION {schema_editor.quote_name(self.name)}")
        return super().remove_sql(model, schema_editor)

    def _get_check_sql(self, model: type[models.Model], schema_editor: Editor) -> str:
        quote = schema_editor.quote_name
        return f"{quote(self.name)}({', '.join(quote(column) for column in _columns(self, model, schema_editor))})"

    def _make_function(self, model: type[models.Model] | None, schema_editor: Editor | None) -> None:
        assert model is not None
        assert schema_editor is not None
        quote = schema_editor.quote_name
        given = ", ".join(
            f"{quote(column)} {type_}" for column, type_ in _columns(self, model, schema_editor).items()
        )
        condition = super()._get_check_sql(model, schema_editor)  # type: ignore[misc]  # as Django writes its own
        schema_editor.execute(
            f"CREATE FUNCTION {quote(self.name)}({given}) RETURNS boolean LANGUAGE plpgsql IMMUTABLE"
            f" AS $$BEGIN RETURN {condition}; END$$",
            params=None,
        )


def _columns(
    check: models.CheckConstraint, model: type[models.Model], schema_editor: Editor
) -> dict[str, str]:
    """The columns that its condition names, with their types."""
    assert isinstance(check.condition, models.Q)
    fields = {field.name: field for field in model._meta.concrete_fields}  # noqa: SLF001
    named = [fields[name] for name in check.condition.referenced_base_fields]
    named.sort(key=attrgetter("column"))
    return {str(field.column): str(field.db_type(schema_editor.connection)) for field in named}


def _table(model: type[models.Model]) -> str:
    return model._meta.db_table  # noqa: SLF001
