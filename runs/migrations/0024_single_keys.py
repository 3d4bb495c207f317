"""Whether single letters act on a person's pages."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0023_digest_hour"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="single_keys",
            field=models.BooleanField(db_default=True, default=True, verbose_name="single keys act"),
        ),
    ]
