"""A check that costs nothing where none of its columns is written."""

from __future__ import annotations

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
        columns = ", ".join(quote(column) for column in self._columns(model))
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

    def _columns(self, model: type[models.Model]) -> list[str]:
        assert isinstance(self.condition, models.Q)
        fields = {field.name: field for field in model._meta.concrete_fields}  # noqa: SLF001
        return sorted(str(fields[name].column) for name in self.condition.referenced_base_fields)

    def _of_new_row(self, model: type[models.Model], schema_editor: Editor) -> str:
        assert isinstance(self.condition, models.Q)
        query = Query(model)
        compiler = query.get_compiler(connection=schema_editor.connection)
        sql, values = query.build_where(self.condition).as_sql(compiler, schema_editor.connection)
        condition = str(sql) % tuple(schema_editor.quote_value(value) for value in values)
        return condition.replace(f"{schema_editor.quote_name(_table(model))}.", "NEW.")


def _table(model: type[models.Model]) -> str:
    return model._meta.db_table  # noqa: SLF001
