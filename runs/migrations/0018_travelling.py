from django.db import migrations, models


class Migration(migrations.Migration):
    """Whether calls of a run were taken back is asked at each rewind, and of most runs the answer is no."""

    dependencies = [("runs", "0017_checked_when_written")]

    operations = [
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("undoes__isnull", False)), fields=["run"], name="step_undoing"
            ),
        ),
    ]
