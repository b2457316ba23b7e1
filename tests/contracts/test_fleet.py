"""What `shared.ports.Fleet` promises."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from moto.batch.models import batch_backends

from shared.adapters.awsbatch import AwsBatchFleet
from shared.adapters.memory import Memory
from shared.ports import Fleet
from tests.contracts.conftest import REGION, Aws

ACCOUNT = "123456789012"


class Rig(NamedTuple):
    """A fleet, and what a test does to its jobs: look which definition, revision and worker one has; set its status."""

    port: Fleet
    look: Callable[[str], tuple[str, str, str]]
    set: Callable[[str, str], object]


@pytest.fixture
def fleet(place: str, request: pytest.FixtureRequest) -> Rig:
    """Give a fleet; of moto's jobs, which end before they begin, the status is set by hand."""
    if place == "memory":
        return _memory()
    client = request.getfixturevalue("aws").client("batch")
    queue = request.getfixturevalue("job_queue")
    port = AwsBatchFleet(client, queue=queue, definitions={"own@1": "own"}, default="usual")

    def look(job: str) -> tuple[str, str, str]:
        (found,) = client.describe_jobs(jobs=[job])["jobs"]
        values = {pair["name"]: pair["value"] for pair in found["container"]["environment"]}
        definition = found["jobDefinition"].rsplit("/", 1)[-1].split(":")[0]
        return definition, values["SLACKWATER_REVISION"], values["SLACKWATER_WORKER"]

    def set_status(job: str, status: str) -> None:
        batch_backends[ACCOUNT][REGION]._jobs[job].status = status

    return Rig(port, look, set_status)


def _memory() -> Rig:
    fleet = Memory().fleet

    def look(job: str) -> tuple[str, str, str]:
        (worker,) = (worker for worker in fleet.submitted if worker.job == job)
        return "own" if worker.revision == "own@1" else "usual", worker.revision, worker.worker

    def set_status(job: str, status: str) -> None:
        if status != "RUNNING":
            fleet.end(job)

    return Rig(fleet, look, set_status)


@pytest.fixture(scope="session")
def job_queue(aws: Aws) -> str:
    """Give a job queue at moto, with two job definitions."""
    client, iam = aws.client("batch"), aws.client("iam")
    role = iam.create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    place = client.create_compute_environment(computeEnvironmentName="here", type="UNMANAGED", serviceRole=role)
    container: Any = {"image": "worker", "vcpus": 1, "memory": 128}
    for name in ("own", "usual"):
        client.register_job_definition(jobDefinitionName=name, type="container", containerProperties=container)
    order: Any = [{"order": 1, "computeEnvironment": place["computeEnvironmentArn"]}]
    client.create_job_queue(jobQueueName="workers", state="ENABLED", priority=1, computeEnvironmentOrder=order)
    return "workers"


def test_a_worker_is_told_its_revision_and_its_name(fleet: Rig) -> None:
    """A revision with a job definition of its own gets that, every other the usual one."""
    assert ("own", "own@1", "worker_1") == fleet.look(fleet.port.submit("own@1", "worker_1"))
    assert ("usual", "other@1", "worker_2") == fleet.look(fleet.port.submit("other@1", "worker_2"))


def test_a_job_has_ended_when_it_succeeded_or_failed_or_is_unknown(fleet: Rig) -> None:
    """One that waits or runs has not."""
    running, failed, succeeded = (fleet.port.submit("own@1", f"worker_{number}") for number in range(3))
    fleet.set(running, "RUNNING")
    fleet.set(failed, "FAILED")
    fleet.set(succeeded, "SUCCEEDED")
    assert {failed, succeeded, "unknown"} == fleet.port.ended([running, failed, succeeded, "unknown"])


def test_no_jobs_have_not_ended(fleet: Rig) -> None:
    """There is nothing to ask."""
    assert set() == fleet.port.ended([])


def test_more_jobs_can_be_asked_for_than_one_call_takes(fleet: Rig) -> None:
    """AWS Batch describes a hundred at a time."""
    running = fleet.port.submit("own@1", "worker_1")
    fleet.set(running, "RUNNING")
    unknown = [f"unknown-{number}" for number in range(230)]
    assert set(unknown) == fleet.port.ended([*unknown[:150], running, *unknown[150:]])
