"""Addresses of the pages."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from runs.web import account, health, inbox, keeping, live, runs, steering, styleguide, travel, versions

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="inbox"), name="home"),
    path("sign-in/", account.SignIn.as_view(), name="sign-in"),
    path("sign-out/", account.SignOut.as_view(), name="sign-out"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/<uuid:approval_id>/", inbox.show, name="approval"),
    path("inbox/<uuid:approval_id>/edit/", inbox.edit, name="approval-edit"),
    path("inbox/<uuid:approval_id>/decide/", inbox.decide, name="approval-decide"),
    path("runs/", runs.index, name="runs"),
    path("runs/<uuid:run_id>/", runs.show, name="run"),
    path("runs/<uuid:run_id>/checkpoints/<int:no>/", runs.checkpoint, name="run-checkpoint"),
    path("runs/<uuid:run_id>/rewind/<int:no>/", steering.rewind, name="run-rewind"),
    path("runs/bulk/", travel.bulk, name="runs-bulk"),
    path("runs/<uuid:run_id>/fork/<int:no>/", travel.fork, name="run-fork"),
    path("runs/<uuid:run_id>/compare/", travel.compare, name="run-compare"),
    path("runs/<uuid:run_id>/branches/<int:no>/", travel.label, name="run-branch"),
    path("runs/<uuid:run_id>/edit-state/", steering.edit_state, name="run-edit-state"),
    path("runs/<uuid:run_id>/migrate/", versions.migrate, name="run-migrate"),
    path("workflows/", versions.index, name="workflows"),
    path("runs/<uuid:run_id>/retry/", steering.retry, name="run-retry"),
    path("runs/<uuid:run_id>/cancel/", steering.cancel, name="run-cancel"),
    path("runs/<uuid:run_id>/priority/", steering.prioritise, name="run-priority"),
    path("runs/<uuid:run_id>/signal/", runs.signal, name="run-signal"),
    path("runs/<uuid:run_id>/hold/", keeping.hold, name="run-hold"),
    path("runs/<uuid:run_id>/erase/", keeping.erase, name="run-erase"),
    path("health/", health.health, name="health"),
    path("live/state/inbox", live.inbox_state, name="live-inbox"),
    path("live/state/runs", live.runs_state, name="live-runs"),
    path("live/state/runs/<uuid:run_id>", live.run_state, name="live-run"),
    path("styleguide", styleguide.styleguide, name="styleguide"),
    path("tokens/", account.tokens, name="tokens"),
    path("tokens/<uuid:token_id>/revoke/", account.revoke, name="token-revoke"),
]
