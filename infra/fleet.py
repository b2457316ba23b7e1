"""The fleet: Spot hosts with GPUs that are there while jobs are, and the queue of those jobs.

The queue shares the fleet fairly between models, so that one with a long queue leaves room for the others; within a model, jobs are alike.
"""

from aws_cdk import Duration
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import host, worker
from infra.engines import ENGINES
from infra.findings import acknowledge
from infra.names import Names
from infra.network import Network
from infra.storage import Storage

FAMILIES = (ec2.InstanceClass.G5, ec2.InstanceClass.G6, ec2.InstanceClass.G6E)
"""NVIDIA A10G and L4 with 24 GB, L40S with 48 GB. Which one comes is a matter of price and capacity: a model must fit into 24 GB."""

SHARE_DECAY_HOURS = 1
"""For how long a model's use of the fleet counts against it."""


class Fleet(Construct):
    """The compute environments, the queue and the job definitions."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        storage: Storage,
        names: Names,
        region: str,
        most_workers: int,
        on_demand: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._network = network
        self._vcpus = most_workers * worker.VCPUS
        self._template = host.launch_template(self, "Host")
        self._role = self._instance_role()
        queue = batch.JobQueue(
            self,
            "Queue",
            job_queue_name=names.prefix,
            scheduling_policy=batch.FairshareSchedulingPolicy(
                self, "Fairly", share_decay=Duration.hours(SHARE_DECAY_HOURS)
            ),
        )
        queue.add_compute_environment(self._environment("Spot", spot=True), 1)
        if on_demand:
            queue.add_compute_environment(self._environment("OnDemand", spot=False), 2)
        for engine in ENGINES:
            worker.definition(
                Construct(self, engine.capitalize()),
                "Job",
                engine=engine,
                storage=storage,
                names=names,
                region=region,
            )

    def _environment(self, construct_id: str, *, spot: bool) -> batch.ManagedEc2EcsComputeEnvironment:
        environment = batch.ManagedEc2EcsComputeEnvironment(
            self,
            construct_id,
            vpc=self._network.vpc,
            vpc_subnets=self._network.subnets,
            security_groups=[self._network.nobody],
            spot=spot,
            allocation_strategy=batch.AllocationStrategy.SPOT_PRICE_CAPACITY_OPTIMIZED
            if spot
            else batch.AllocationStrategy.BEST_FIT_PROGRESSIVE,
            instance_classes=list(FAMILIES),
            use_optimal_instance_classes=False,
            images=[batch.EcsMachineImage(image_type=batch.EcsMachineImageType.ECS_AL2023_NVIDIA)],
            minv_cpus=0,
            maxv_cpus=self._vcpus,
            launch_template=self._template,
            instance_role=self._role,
        )
        resource = environment.node.default_child
        if not isinstance(resource, batch.CfnComputeEnvironment):
            raise TypeError("aws-cdk-lib makes a compute environment of something else now")
        # By number: the template's default version stays the first, and changes to the template would never reach a host.
        resource.add_property_override("ComputeResources.LaunchTemplate.Version", self._template.latest_version_number)
        return environment

    def _instance_role(self) -> iam.Role:
        """Make the role of the hosts: what ECS's agent needs. What workers need is in their own."""
        policy = iam.ManagedPolicy.from_aws_managed_policy_name("service-role/AmazonEC2ContainerServiceforEC2Role")
        role = iam.Role(
            self, "HostRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"), managed_policies=[policy]
        )
        agent = "ECS's agent is AWS's own, and so is the list of what it calls, which grows with it."
        acknowledge(
            role,
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role]",
            agent,
        )
        return role
