"""Models: what a deployment serves, and the description of the API itself."""

import openai
import pytest

from tests.api.world import World


def test_models_are_listed_as_the_registry_has_them(world: World) -> None:
    """In the file's order, with what a batch needs to know."""
    models = world.openai().models.list().data

    assert ["smollm2-135m", "all-minilm-l6-v2", "echo"] == [model.id for model in models]
    assert {
        "id": "echo",
        "object": "model",
        "created": 1730419200,
        "owned_by": "slackwater",
        "endpoints": ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"],
        "context": 32768,
        "revision": "echo@1",
        "batch": {
            "completion_windows": ["24h", "72h"],
            "max_requests": 1_000_000,
            "max_file_bytes": 5_000_000_000,
            "max_output_tokens": 4096,
            "pricing": {
                "unit": "microusd_per_million_tokens",
                "input": "50000",
                "cached_input": "25000",
                "output": "100000",
            },
        },
    } == world.http().get("models/echo").json()


def test_a_model_that_is_not_served_is_missing(world: World) -> None:
    """404, also for names with slashes."""
    for name in ("gpt-4o", "org/name"):
        with pytest.raises(openai.NotFoundError):
            world.openai().models.retrieve(name)


def test_the_api_describes_itself(world: World) -> None:
    """OpenAPI, under the mount, with its own paths."""
    described = world.http(None).get("openapi.json").json()

    assert {"get", "post"} == set(described["paths"]["/v1/files"])
    assert "multipart/form-data" in described["paths"]["/v1/files"]["post"]["requestBody"]["content"]
    assert {"get", "post"} == set(described["paths"]["/v1/batches"])
    assert {"get", "head"} == set(described["paths"]["/v1/files/{file_id}/content"])
    answers = [answer for path in described["paths"].values() for one in path.values() for answer in one["responses"]]
    assert "422" not in answers
