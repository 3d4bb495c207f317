"""The hour at which the mail of a day comes is each person's own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0022_language"),
    ]

    operations = [
        migrations.AddField(
            model_name="preference",
            name="hour",
            field=models.SmallIntegerField(db_default=7, default=7),
        ),
        migrations.AddConstraint(
            model_name="preference",
            constraint=models.CheckConstraint(
                condition=models.Q(("hour__range", (0, 23))), name="preference_hour_of_a_day"
            ),
        ),
    ]
