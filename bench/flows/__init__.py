"""The workflows that are measured: an ordinary app, like any author's."""
