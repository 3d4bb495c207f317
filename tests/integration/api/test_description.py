"""GET /api/v1/schema, /docs, /workflows and /problems."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from runs import workflows
from runs.api import bodies, problems
from runs.api.urls import ROUTES
from runs.errors import HitlError
from tests.integration.api.conftest import Api, House, description, strict


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in description()["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_description_is_valid_openapi_of_version_3_1() -> None:
    assert description()["openapi"].startswith("3.1")
    validate_schema(description())  # type: ignore[no-untyped-call]


def test_the_description_is_made_without_a_warning(tmp_path: Path) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "schema.yaml"))


def test_it_is_served_to_everybody(db: None) -> None:
    response = Client().get("/api/v1/schema")
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    assert strict(response.content.decode()) == description()


def test_every_address_is_described() -> None:
    described = {path.removeprefix("/api/v1/") for path in description()["paths"]}
    routed = {re.sub(r"<\w+:(\w+)>", r"{\1}", route) for route in ROUTES} - {"schema"}
    assert described == routed


def test_every_operation_is_in_the_guide() -> None:
    """A row names methods and addresses in order: `GET`, `PATCH`, `DELETE /webhooks/{id}`."""
    guide = (Path(settings.BASE_DIR) / "docs" / "api.md").read_text()
    told: set[tuple[str, str]] = set()
    methods: list[str] = []
    for method, address in re.findall(r"`(GET|POST|PUT|PATCH|DELETE)(?: /([^`?\s]+))?", guide):
        methods.append(method.lower())
        if address:
            told |= {(one, f"/api/v1/{address}") for one in methods}
            methods = []
    missing = {(method, path) for method, path, _ in operations()} - told
    assert missing == set()


def test_what_a_method_takes_is_what_is_described() -> None:
    for route, view in ROUTES.items():
        operations = description()["paths"].get("/api/v1/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route), {})
        for method, operation in operations.items():
            takes = get_type_hints(getattr(view, method))
            if "body" in takes:
                shape = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                assert shape.endswith(f"/{takes['body'].__name__}"), (method, route)
            if "wanted" in takes:
                names = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
                assert names == set(takes["wanted"].model_fields), (method, route)


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(description())
    for name in set(re.findall(r"#/components/schemas/([\w.-]+)", text)):
        assert name in description()["components"]["schemas"], name


def test_every_example_of_a_request_fits_its_schema() -> None:
    for _, path, operation in operations():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for name, example in content.get("examples", {}).items():
            schema = {**content["schema"], "components": description()["components"]}
            faults = list(Draft202012Validator(schema).iter_errors(example["value"]))
            assert faults == [], (path, name)
            model = getattr(bodies, content["schema"]["$ref"].rpartition("/")[2])
            TypeAdapter(model).validate_python(example["value"])


def test_every_example_of_a_submission_is_one_that_the_workflow_takes() -> None:
    content = description()["paths"]["/api/v1/runs"]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        workflows.get(example["value"]["workflow"]).input_schema.accept(example["value"]["input"])


def test_every_example_of_a_problem_says_what_a_problem_says() -> None:
    for _, path, operation in operations():
        for status, response in operation["responses"].items():
            content = response.get("content", {}).get("application/problem+json")
            for example in (content or {}).get("examples", {}).values():
                value = example["value"]
                assert value["status"] == int(status), (path, value)
                assert value["code"] in response["description"].split(", ")


def test_every_operation_that_needs_somebody_says_so() -> None:
    public = {"list_problems", "get_problem"}
    for _, _, operation in operations():
        needed = bool(operation.get("security", []))
        assert needed == (operation["operationId"] not in public), operation["operationId"]


# ---- docs


def test_the_page_is_drawn_by_files_of_this_server_alone(db: None) -> None:
    response = Client().get("/api/v1/docs")
    page = response.content.decode()
    assert response.status_code == 200
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    assert all(address.startswith("/") and not address.startswith("//") for address in addresses)
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", page)
    for address in addresses:
        if address.startswith(settings.STATIC_URL):
            file = Client().get(address)
            assert file.status_code == 200, address
            file.close()


# ---- workflows and problems


def test_workflows_are_listed_with_their_schemas(house: House, vera: Api) -> None:
    told = {workflow["name"]: workflow for workflow in vera.get("workflows").body["items"]}
    assert {"echo", "gated", "refund"} <= told.keys()
    gated = told["gated"]
    assert [(node["name"], node["kind"], node["next"]) for node in gated["nodes"]][2] == (
        "ask",
        "approval",
        ["last", "refused"],
    )
    assert gated["input"]["properties"].keys() == {"name", "value", "done"}


def test_workflows_are_not_told_to_strangers(db: None) -> None:
    assert Api().get("workflows").status == 401


def test_every_code_is_explained_at_its_address(db: None) -> None:
    told = Api().get("problems").body["items"]
    assert {"already_decided", "invalid_json", "method_not_allowed", "database_error"} <= {
        one["code"] for one in told
    }
    assert "step_failed" not in {one["code"] for one in told}
    for one in told:
        assert Api().get(one["type"]).body == one


def test_an_unknown_code_is_not_found(db: None) -> None:
    assert Api().get("problems/nope").code == "not_found"


@pytest.mark.parametrize("name", ["type", "title", "status", "code", "instance"])
def test_a_fact_never_hides_a_member_of_the_problem(name: str) -> None:
    facts: dict[str, Any] = {name: "fact"}
    told = problems.problem(HitlError("x", **facts), status=500)
    assert (told["status"], told["code"], told["title"]) == (500, "error", "Something went wrong.")
    assert told[f"current_{name}"] == "fact"
