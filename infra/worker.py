"""A worker's job: the image, what it needs of a host, what it may touch, and when it is tried again."""

from aws_cdk import IgnoreMode, Size
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.access import WORKER, grant
from infra.bundle import ROOT
from infra.findings import acknowledge_pattern
from infra.host import STATE, WORKER_UID
from infra.logs import log_group
from infra.names import Names
from infra.storage import Storage
from shared.settings import PREFIX, WorkerSettings

IN_IMAGE = ("gpu_job", "shared", "infra/models.json", "requirements-worker.txt")
"""All that the image is built of; everything else is out of its context."""

GPUS = 1
VCPUS = 4
MEMORY_MIB = 14_336
"""The smallest hosts of the families (16 GiB, of which the system takes its part) hold one worker; larger ones one for each GPU."""
SHARED_MEMORY_GIB = 4
"""vLLM's processes talk through /dev/shm; Docker's own 64 MiB do not hold a batch."""
OPEN_FILES = 65_536
"""A request in flight is a connection on either side; Docker's own 1,024 end at a few hundred."""

ATTEMPTS = 10
"""The most that AWS Batch allows; only the loss of a host uses one up."""

PER_JOB = ("revision", "worker", "job")
"""The settings that a job is submitted with, or learns from AWS Batch."""


def definition(
    scope: Construct, construct_id: str, *, engine: str, storage: Storage, names: Names, region: str
) -> batch.EcsJobDefinition:
    """Make the job definition of an engine's workers."""
    job_role = iam.Role(scope, "JobRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    grant(job_role, WORKER, storage, names)
    container = batch.EcsEc2ContainerDefinition(
        scope,
        "Container",
        image=ecs.ContainerImage.from_docker_image_asset(_image(scope)),
        gpu=GPUS,
        cpu=VCPUS,
        memory=Size.mebibytes(MEMORY_MIB),
        linux_parameters=batch.LinuxParameters(
            scope, "Linux", shared_memory_size=Size.gibibytes(SHARED_MEMORY_GIB), init_process_enabled=True
        ),
        ulimits=[batch.Ulimit(name=batch.UlimitName.NOFILE, soft_limit=OPEN_FILES, hard_limit=OPEN_FILES)],
        environment=_environment(storage, names, region),
        job_role=job_role,
        logging=ecs.LogDriver.aws_logs(stream_prefix="worker", log_group=log_group(scope, "WorkerLogs", storage.key)),
        readonly_root_filesystem=True,
        user=str(WORKER_UID),
        volumes=[
            batch.EcsVolume.host(name="state", host_path=STATE, container_path=STATE),
            # What an engine prints may hold prompts: its logs go with the container, where models stay with the host.
            batch.EcsVolume.host(name="engine-logs", container_path=f"{STATE}/engines"),
            batch.EcsVolume.host(name="scratch", container_path="/tmp"),  # noqa: S108 - a volume of this container alone
        ],
    )
    images = "A login to ECR is for all repositories of the account; what may be pulled is named."
    acknowledge_pattern(scope, "*", images)
    return batch.EcsJobDefinition(
        scope,
        construct_id,
        job_definition_name=names.definition(engine),
        container=container,
        retry_attempts=ATTEMPTS,
        retry_strategies=[
            batch.RetryStrategy.of(batch.Action.RETRY, batch.Reason.SPOT_INSTANCE_RECLAIMED),
            # The last word, or AWS Batch would also retry what no rule speaks of: a worker that failed is asked for anew by the lifecycle.
            batch.RetryStrategy.of(batch.Action.EXIT, batch.Reason.custom(on_reason="*")),
        ],
    )


def _image(scope: Construct) -> ecr_assets.DockerImageAsset:
    return ecr_assets.DockerImageAsset(
        scope,
        "Image",
        directory=str(ROOT),
        file="gpu_job/Dockerfile",
        exclude=["**", *(f"!{path}" for path in IN_IMAGE), "**/__pycache__"],
        ignore_mode=IgnoreMode.DOCKER,
        platform=ecr_assets.Platform.LINUX_AMD64,
    )


def _environment(storage: Storage, names: Names, region: str) -> dict[str, str]:
    settings = WorkerSettings(
        revision="",
        worker="",
        job="",
        bucket=storage.bucket.bucket_name,
        table_prefix=names.prefix,
        models_file="/app/models.json",
        region=region,
        state_machine_arn=names.machine_arn,
        state_dir=STATE,
        engine_python="/usr/local/bin/engine-python",
        gpus=GPUS,
    )
    per_job = {PREFIX + name.upper() for name in PER_JOB}
    return {name: value for name, value in settings.to_env().items() if name not in per_job}
