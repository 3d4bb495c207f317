"""Routes of the API. Each is answered with a slash at its end, too; what matches nothing is a problem, not a page."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path

from runs.api import attending, docs, exports, people, steering, viewing, views, webhooks
from runs.api.endpoint import Endpoint

ROUTES: dict[str, type[Endpoint]] = {
    "runs": views.Runs,
    "runs/bulk": steering.Bulk,
    "runs/export": exports.RunExport,
    "runs/<any_uuid:id>": views.RunDetail,
    "runs/<any_uuid:id>/history": views.RunHistory,
    "runs/<any_uuid:id>/checkpoints": views.RunCheckpoints,
    "runs/<any_uuid:id>/checkpoints/<int:no>": views.RunCheckpoint,
    "runs/<any_uuid:id>/steps": views.RunSteps,
    "runs/<any_uuid:id>/rewind": steering.Rewind,
    "runs/<any_uuid:id>/rewind/preview": steering.RewindPreview,
    "runs/<any_uuid:id>/fork": steering.Fork,
    "runs/<any_uuid:id>/fork/preview": steering.ForkPreview,
    "runs/<any_uuid:id>/branches": views.RunBranches,
    "runs/<any_uuid:id>/branches/<int:no>": views.RunBranch,
    "runs/<any_uuid:id>/compare": views.Compare,
    "runs/<any_uuid:id>/state": steering.RunState,
    "runs/<any_uuid:id>/retry": steering.Retry,
    "runs/<any_uuid:id>/migrate": steering.Migrate,
    "runs/<any_uuid:id>/migrate/preview": steering.MigrationPreview,
    "runs/<any_uuid:id>/decide": views.DecideRun,
    "runs/<any_uuid:id>/cancel": steering.Cancel,
    "runs/<any_uuid:id>/priority": steering.Priority,
    "runs/<any_uuid:id>/cancel/preview": steering.CancelPreview,
    "runs/<any_uuid:id>/pause": steering.Pause,
    "runs/<any_uuid:id>/resume": steering.Resume,
    "runs/<any_uuid:id>/signals": views.RunSignals,
    "runs/<any_uuid:id>/hold": steering.Hold,
    "runs/<any_uuid:id>/erase": steering.Erase,
    "approvals": views.Approvals,
    "approvals/<any_uuid:id>": views.ApprovalDetail,
    "approvals/<any_uuid:id>/decide": views.Decide,
    "approvals/<any_uuid:id>/revise": views.Revise,
    "approvals/<any_uuid:id>/assign": attending.Assign,
    "approvals/<any_uuid:id>/unassign": attending.Unassign,
    "approvals/<any_uuid:id>/snooze": attending.Snooze,
    "approvals/<any_uuid:id>/extend": attending.Extend,
    "approvals/decide": attending.DecideTogether,
    "views": viewing.Views,
    "views/<any_uuid:id>": viewing.ViewDetail,
    "absences": attending.Absences,
    "absences/<any_uuid:id>/end": attending.AbsenceEnd,
    "teams/<slug:team>/hours": attending.TeamHours,
    "webhooks": webhooks.Webhooks,
    "webhooks/<any_uuid:id>": webhooks.WebhookDetail,
    "webhooks/<any_uuid:id>/rotate": webhooks.WebhookRotate,
    "webhooks/<any_uuid:id>/test": webhooks.WebhookTest,
    "deliveries": webhooks.Deliveries,
    "deliveries/<any_uuid:id>": webhooks.DeliveryDetail,
    "deliveries/<any_uuid:id>/redeliver": webhooks.Redeliver,
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
    *(
        path(route, view.as_view(), name=None if "<" in route else f"api {route}")
        for route, view in ROUTES.items()
    ),
    *(path(f"{route}/", view.as_view()) for route, view in ROUTES.items()),
    path("docs", docs.page, name="api-docs"),
    path("docs/", docs.page),
    re_path(r"", views.Nothing.as_view()),
]
