"""Every address: pages, API, admin, health."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from hitl import health

urlpatterns = [
    path("healthz", health.alive, name="healthz"),
    path("readyz", health.ready, name="readyz"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("runs.api.urls")),
    path("", include("runs.web.urls")),
]
