"""The endpoints of saved views."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, saved
from runs.api import bodies, parameters, rosters
from runs.api.endpoint import Endpoint, actor_of, rendered
from runs.api.schema import ADMINISTERING, ID_PARAMETER, described


class Views(Endpoint):
    @described(
        operation_id="list_views",
        summary="List saved views: one's own, and those shared with one's teams",
        query=parameters.ViewList,
        answers={200: rosters.ViewList},
    )
    def get(self, request: Request, wanted: parameters.ViewList) -> Response:
        actor = actor_of(request)
        found = saved.of(actor, wanted.page) if wanted.page else saved.every(actor)
        return rendered({"items": [rosters.view_document(view) for view in found]})

    @described(
        operation_id="save_view",
        summary="Save a view",
        description="A token needs the scope approvals:decide for the inbox, runs:operate for the runs.",
        body=bodies.ViewBody,
        answers={201: rosters.ViewDocument},
        errors=[*ADMINISTERING, "name_taken"],
        examples={
            "High risk, for the team": {
                "page": "inbox",
                "name": "High risk and up",
                "query": {"view": "teams", "risk": "high"},
                "team": "finance",
            }
        },
    )
    def post(self, request: Request, body: bodies.ViewBody) -> Response:
        made = operations.save_view(
            actor=actor_of(request), page=body.page, name=body.name, query=body.query, team=body.team or ""
        )
        return rendered(rosters.view_document(made), status=201)


class ViewDetail(Endpoint):
    @described(
        operation_id="change_view",
        summary="Rename, change or share a saved view",
        description="Its owner alone.",
        body=bodies.ViewChange,
        headers=[ID_PARAMETER],
        answers={200: rosters.ViewDocument},
        errors=[*ADMINISTERING, "name_taken"],
        examples={"Share it": {"team": "finance"}},
    )
    def patch(self, request: Request, id: UUID, body: bodies.ViewChange) -> Response:
        changed = operations.change_view(
            actor=actor_of(request), view_id=id, name=body.name, query=body.query, team=body.team
        )
        return rendered(rosters.view_document(changed))

    @described(
        operation_id="delete_view",
        summary="Delete a saved view",
        description="Its owner; admins also what is shared.",
        headers=[ID_PARAMETER],
        answers={200: rosters.Ended},
        errors=ADMINISTERING,
    )
    def delete(self, request: Request, id: UUID) -> Response:
        operations.delete_view(actor=actor_of(request), view_id=id)
        return rendered({"done": True})
