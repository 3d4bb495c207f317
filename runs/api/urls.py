"""Routes of the API. Each is answered with a slash at its end, too; what matches nothing is a problem, not a page."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path

from runs.api import docs, people, views
from runs.api.endpoint import Endpoint

ROUTES: dict[str, type[Endpoint]] = {
    "runs": views.Runs,
    "runs/bulk": views.Bulk,
    "runs/<any_uuid:id>": views.RunDetail,
    "runs/<any_uuid:id>/history": views.RunHistory,
    "runs/<any_uuid:id>/checkpoints": views.RunCheckpoints,
    "runs/<any_uuid:id>/checkpoints/<int:no>": views.RunCheckpoint,
    "runs/<any_uuid:id>/steps": views.RunSteps,
    "runs/<any_uuid:id>/rewind": views.Rewind,
    "runs/<any_uuid:id>/rewind/preview": views.RewindPreview,
    "runs/<any_uuid:id>/fork": views.Fork,
    "runs/<any_uuid:id>/fork/preview": views.ForkPreview,
    "runs/<any_uuid:id>/branches": views.RunBranches,
    "runs/<any_uuid:id>/branches/<int:no>": views.RunBranch,
    "runs/<any_uuid:id>/compare": views.Compare,
    "runs/<any_uuid:id>/state": views.RunState,
    "runs/<any_uuid:id>/retry": views.Retry,
    "runs/<any_uuid:id>/migrate": views.Migrate,
    "runs/<any_uuid:id>/migrate/preview": views.MigrationPreview,
    "runs/<any_uuid:id>/decide": views.DecideRun,
    "runs/<any_uuid:id>/cancel": views.Cancel,
    "runs/<any_uuid:id>/priority": views.Priority,
    "runs/<any_uuid:id>/signals": views.RunSignals,
    "runs/<any_uuid:id>/hold": views.Hold,
    "runs/<any_uuid:id>/erase": views.Erase,
    "approvals": views.Approvals,
    "approvals/<any_uuid:id>": views.ApprovalDetail,
    "approvals/<any_uuid:id>/decide": views.Decide,
    "approvals/<any_uuid:id>/revise": views.Revise,
    "webhooks": views.Webhooks,
    "webhooks/<any_uuid:id>": views.WebhookDetail,
    "webhooks/<any_uuid:id>/rotate": views.WebhookRotate,
    "webhooks/<any_uuid:id>/test": views.WebhookTest,
    "deliveries": views.Deliveries,
    "deliveries/<any_uuid:id>": views.DeliveryDetail,
    "deliveries/<any_uuid:id>/redeliver": views.Redeliver,
    "workflows": views.Workflows,
    "project": people.ProjectDetail,
    "members": people.Members,
    "members/<str:username>": people.MemberDetail,
    "members/<str:username>/deactivate": people.Deactivate,
    "members/<str:username>/reactivate": people.Reactivate,
    "service-accounts": people.ServiceAccounts,
    "invitations": people.Invitations,
    "invitations/<any_uuid:id>": people.InvitationDetail,
    "teams": people.Teams,
    "teams/<slug:name>": people.TeamDetail,
    "tokens": people.Tokens,
    "tokens/<any_uuid:id>": people.TokenDetail,
    "audit": people.Audit,
    "problems": views.Problems,
    "problems/<slug:code>": views.ProblemDetail,
    "schema": docs.Schema,
}

urlpatterns: list[URLPattern | URLResolver] = [
    *(path(route, view.as_view()) for route, view in ROUTES.items()),
    *(path(f"{route}/", view.as_view()) for route, view in ROUTES.items()),
    path("docs", docs.page, name="api-docs"),
    path("docs/", docs.page),
    re_path(r"", views.Nothing.as_view()),
]
