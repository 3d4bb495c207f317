"""Where webhooks go, and what was sent there or by mail: parse, one operation or query, render."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, policies, queries
from runs.api import bodies, deliveries, parameters
from runs.api.endpoint import Endpoint, actor_of, paged, rendered
from runs.api.parameters import cursor_of
from runs.api.schema import ID_PARAMETER, described
from runs.models import Endpoint as WebhookEndpoint


class Webhooks(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="create_endpoint",
        summary="Have events sent to an address",
        body=bodies.EndpointBody,
        answers={201: deliveries.EndpointSecret},
        errors=["missing_scope", "forbidden_target"],
        examples={"Of decisions": {"url": "https://example.org/hooks", "events": ["approval.decided"]}},
    )
    def post(self, request: Request, body: bodies.EndpointBody) -> Response:
        endpoint, secret = operations.create_endpoint(
            actor=actor_of(request), url=body.url, events=body.events, description=body.description
        )
        return _with_secret(endpoint, secret, 201)

    @described(
        operation_id="list_endpoints",
        summary="List where webhooks go",
        answers={200: deliveries.EndpointList},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        found = queries.endpoints(actor.project.pk)
        return rendered({"items": [deliveries.endpoint_document(endpoint) for endpoint in found]})


class WebhookDetail(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_endpoint",
        summary="Get one endpoint",
        headers=[ID_PARAMETER],
        answers={200: deliveries.EndpointDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        return rendered(deliveries.endpoint_document(queries.endpoint(actor.project.pk, id)))

    @described(
        operation_id="change_endpoint",
        summary="Change an endpoint, or switch it off or on",
        headers=[ID_PARAMETER],
        body=bodies.EndpointChange,
        answers={200: deliveries.EndpointDocument},
        errors=["not_found", "missing_scope", "forbidden_target"],
    )
    def patch(self, request: Request, id: UUID, body: bodies.EndpointChange) -> Response:
        changed = operations.change_endpoint(
            actor=actor_of(request),
            endpoint_id=id,
            url=body.url,
            events=body.events,
            description=body.description,
            enabled=body.enabled,
        )
        return rendered(deliveries.endpoint_document(changed))

    @described(
        operation_id="delete_endpoint",
        summary="Delete an endpoint; what stands in line for it is cancelled",
        headers=[ID_PARAMETER],
        answers={200: deliveries.EndpointDocument},
        errors=["not_found", "missing_scope"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        gone = operations.delete_endpoint(actor=actor_of(request), endpoint_id=id)
        return rendered(deliveries.endpoint_document(gone))


class WebhookRotate(Endpoint):
    @described(
        operation_id="rotate_secret",
        summary="Make a new secret; the one before signs as well for a day",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={200: deliveries.EndpointSecret},
        errors=["not_found", "missing_scope"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return _with_secret(*operations.rotate_secret(actor=actor_of(request), endpoint_id=id), 200)


class WebhookTest(Endpoint):
    @described(
        operation_id="test_endpoint",
        summary="Send a message that says nothing",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={202: deliveries.DeliverySummary},
        errors=["not_found", "missing_scope", "endpoint_off"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = operations.test_endpoint(actor=actor_of(request), endpoint_id=id)
        return rendered(deliveries.delivery_summary(sent), 202)


class Deliveries(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_deliveries",
        summary="List what was sent, or is to be sent, newest first",
        query=parameters.DeliveryList,
        answers={200: deliveries.DeliveryPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.DeliveryList) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        page = queries.deliveries(
            actor.project.pk,
            status=wanted.status,
            endpoint=wanted.endpoint,
            run=wanted.run,
            after=parameters.moment_and_id(wanted.cursor),
            limit=wanted.limit,
        )
        items = [deliveries.delivery_summary(delivery) for delivery in page.rows]
        return paged(items, page, lambda delivery: cursor_of(delivery.created_at, delivery.pk))


class DeliveryDetail(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_delivery",
        summary="Get a delivery with its attempts",
        headers=[ID_PARAMETER],
        answers={200: deliveries.DeliveryDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        found = queries.delivery(actor.project.pk, id)
        return rendered(deliveries.delivery_document(found, actor=actor))


class Redeliver(Endpoint):
    @described(
        operation_id="redeliver",
        summary="Send a delivery once more, under the same id",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={202: deliveries.DeliverySummary},
        errors=["not_found", "missing_scope", "still_pending", "endpoint_off"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        again = operations.redeliver(actor=actor_of(request), delivery_id=id)
        return rendered(deliveries.delivery_summary(again), 202)


# ---- rendering


def _with_secret(endpoint: WebhookEndpoint, secret: str, status: int) -> Response:
    return rendered({"endpoint": deliveries.endpoint_document(endpoint), "secret": secret}, status)
