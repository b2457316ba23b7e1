"""The fleet: hosts, queue, jobs and their network."""

import json
from typing import Any

from infra import bundle
from infra.host import STATE, WORKER_UID
from infra.worker import VCPUS
from shared.adapters.awsbatch import AwsBatchFleet
from shared.core.models import Registry
from shared.settings import WorkerSettings
from tests.infra.template import BUCKET, Template


def test_nothing_runs_while_nothing_is_queued(template: Template) -> None:
    """The environment scales to zero, and there is no NAT gateway to pay for."""
    assert 0 == template.only("AWS::Batch::ComputeEnvironment")["ComputeResources"]["MinvCpus"]
    assert {} == template.of_type("AWS::EC2::NatGateway")


def test_hosts_are_spot_with_gpus(template: Template) -> None:
    """Of several families, by price and capacity, on the AMI that has the driver."""
    resources = template.only("AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert ("SPOT", "SPOT_PRICE_CAPACITY_OPTIMIZED") == (resources["Type"], resources["AllocationStrategy"])
    assert ["g5", "g6", "g6e"] == resources["InstanceTypes"]
    assert [{"ImageType": "ECS_AL2023_NVIDIA"}] == resources["Ec2Configuration"]


def test_the_fleet_has_room_for_the_most_workers_of_every_model(template: Template) -> None:
    """A model that may have eight workers finds hosts for eight."""
    models = len(Registry.from_json(bundle.MODELS.read_bytes()))
    assert 8 * models * VCPUS == template.only("AWS::Batch::ComputeEnvironment")["ComputeResources"]["MaxvCpus"]


def test_a_change_of_the_launch_template_reaches_the_hosts(template: Template) -> None:
    """Its latest version is named: the default one stays the first."""
    (name,) = template.of_type("AWS::EC2::LaunchTemplate")
    launched = template.only("AWS::Batch::ComputeEnvironment")["ComputeResources"]["LaunchTemplate"]
    assert {"LaunchTemplateId": name, "Version": f"{name}.LatestVersionNumber"} == launched


def test_the_queue_shares_the_fleet_between_models(template: Template) -> None:
    """Fairly, and from one environment."""
    queue = template.only("AWS::Batch::JobQueue")
    (policy,) = template.of_type("AWS::Batch::SchedulingPolicy")
    assert (f"{policy}.Arn", 1) == (queue["SchedulingPolicyArn"], len(queue["ComputeEnvironmentOrder"]))


def test_a_job_is_tried_again_when_its_host_is_lost_and_never_otherwise(template: Template) -> None:
    """The last rule matches everything, for without it AWS Batch would retry what no rule matches."""
    retry = template.only("AWS::Batch::JobDefinition")["RetryStrategy"]
    expected = [{"Action": "RETRY", "OnStatusReason": "Host EC2*"}, {"Action": "EXIT", "OnReason": "*"}]
    assert (10, expected) == (retry["Attempts"], retry["EvaluateOnExit"])


def test_a_job_has_no_time_limit(template: Template) -> None:
    """A worker ends when there is nothing left to do."""
    assert {} == template.only("AWS::Batch::JobDefinition")["Timeout"]


def test_a_job_has_a_gpu_and_shared_memory_and_no_root(template: Template) -> None:
    """Its root is read-only, and its user is nobody's."""
    container = template.only("AWS::Batch::JobDefinition")["ContainerProperties"]
    assert {"Type": "GPU", "Value": "1"} in container["ResourceRequirements"]
    assert 4096 == container["LinuxParameters"]["SharedMemorySize"]
    assert (True, str(WORKER_UID)) == (container["ReadonlyRootFilesystem"], container["User"])
    assert "Privileged" not in container


def test_a_worker_reads_back_what_the_stack_and_its_job_tell_it(template: Template) -> None:
    """The job's submission adds revision and worker, AWS Batch the job's id."""
    definition = template.only("AWS::Batch::JobDefinition")
    environment = {each["Name"]: each["Value"] for each in definition["ContainerProperties"]["Environment"]}
    per_job = {"SLACKWATER_REVISION": "m@1", "SLACKWATER_WORKER": "worker_1", "SLACKWATER_JOB": "4f2c"}
    expected = WorkerSettings(
        bucket=BUCKET,
        table_prefix="slackwater",
        models_file="/app/models.json",
        region="eu-west-1",
        state_machine_arn="arn:aws:states:eu-west-1:123456789012:stateMachine:slackwater",
        revision="m@1",
        worker="worker_1",
        job="4f2c",
        state_dir=STATE,
        engine_python="/usr/local/bin/engine-python",
    )
    assert "slackwater-vllm" == definition["JobDefinitionName"]
    assert set() == per_job.keys() & environment.keys()
    assert expected == WorkerSettings.from_env({**environment, **per_job})


def test_models_stay_on_the_host_and_engine_logs_do_not(template: Template) -> None:
    """A model is fetched once a host; what an engine prints may hold prompts, and goes with its container."""
    container = template.only("AWS::Batch::JobDefinition")["ContainerProperties"]
    kept = {volume["Name"]: volume["Host"].get("SourcePath") for volume in container["Volumes"]}
    places = {mount["ContainerPath"]: kept[mount["SourceVolume"]] for mount in container["MountPoints"]}
    assert {STATE: STATE, f"{STATE}/engines": None, "/tmp": None} == places  # noqa: S108 - the container's


def test_a_host_s_disk_is_encrypted_and_its_metadata_asks_for_a_token(template: Template) -> None:
    """And no container on a network of its own reaches the host's role."""
    data = template.only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    (disk,) = data["BlockDeviceMappings"]
    assert (True, "gp3") == (disk["Ebs"]["Encrypted"], disk["Ebs"]["VolumeType"])
    assert {"HttpTokens": "required", "HttpPutResponseHopLimit": 1} == data["MetadataOptions"]


def test_nothing_may_connect_to_a_worker(template: Template) -> None:
    """Its security group has no way in."""
    group = template.only("AWS::EC2::SecurityGroup")
    assert [] == group.get("SecurityGroupIngress", [])
    assert {} == template.of_type("AWS::EC2::SecurityGroupIngress")


def test_files_and_records_do_not_go_through_the_internet(template: Template) -> None:
    """S3 and DynamoDB are reached through gateway endpoints, in three zones."""
    endpoints = template.of_type("AWS::EC2::VPCEndpoint").values()
    services = {endpoint["ServiceName"] for endpoint in endpoints}
    tables = {len(endpoint["RouteTableIds"]) for endpoint in endpoints}
    expected = {f"com.amazonaws.eu-west-1.{service}" for service in ("s3", "dynamodb")}
    assert (expected, {3}) == (services, tables)


def test_workers_have_addresses_of_their_own_unless_chosen_otherwise(template: Template, chosen: Template) -> None:
    """With `egress=nat` they are in private subnets behind one gateway."""
    assert {True} == public(template)
    assert {False} == public(chosen)
    assert 1 == len(chosen.of_type("AWS::EC2::NatGateway"))


def public(template: Template) -> set[bool]:
    """Whether hosts get a public address, in each subnet that they are launched in."""
    subnets = template.of_type("AWS::EC2::Subnet")
    environments = template.of_type("AWS::Batch::ComputeEnvironment").values()
    used = {subnet for environment in environments for subnet in environment["ComputeResources"]["Subnets"]}
    assert 3 == len(used)
    return {subnets[subnet]["MapPublicIpOnLaunch"] for subnet in used}


def test_on_demand_hosts_stand_behind_spot_where_that_is_chosen(chosen: Template) -> None:
    """The queue asks for Spot first."""
    environments = {
        f"{name}.ComputeEnvironmentArn": properties["ComputeResources"]["Type"]
        for name, properties in chosen.of_type("AWS::Batch::ComputeEnvironment").items()
    }
    order = sorted(chosen.only("AWS::Batch::JobQueue")["ComputeEnvironmentOrder"], key=lambda each: each["Order"])
    assert ["SPOT", "EC2"] == [environments[each["ComputeEnvironment"]] for each in order]


def test_a_second_deployment_has_names_of_its_own(chosen: Template) -> None:
    """Table, machine, queue and job definition begin with what it is called."""
    assert "staging" == chosen.only("AWS::StepFunctions::StateMachine")["StateMachineName"]
    assert "staging" == chosen.only("AWS::Batch::JobQueue")["JobQueueName"]
    assert "staging-vllm" == chosen.only("AWS::Batch::JobDefinition")["JobDefinitionName"]
    tables = chosen.of_type("AWS::DynamoDB::Table").values()
    assert {"staging"} == {table["TableName"].partition("-")[0] for table in tables}
    assert "slackwater-" not in json.dumps(chosen.of_type("AWS::Lambda::Function"))


class Submissions:
    """A client of AWS Batch that keeps what is submitted."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def submit_job(self, **request: Any) -> dict[str, str]:
        """Take a job."""
        self.requests.append(request)
        return {"jobId": "job-1"}


def test_jobs_name_the_share_that_the_queue_asks_for(template: Template) -> None:
    """A queue with a fair-share policy refuses a job without one, of letters and digits; a queue without, a job with one."""
    client: Any = Submissions()
    fleet = AwsBatchFleet(client, queue="slackwater", definitions={}, default="slackwater-vllm")
    fleet.submit("Qwen/Qwen2.5-7B-Instruct@a09a", "worker_1")
    (request,) = client.requests
    assert "SchedulingPolicyArn" in template.only("AWS::Batch::JobQueue")
    assert request["shareIdentifier"].isalnum()
    assert len(request["shareIdentifier"]) <= 255
