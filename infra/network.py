"""The network of the workers: one VPC, subnets in three zones, S3 and DynamoDB through gateway endpoints.

Workers call AWS (ECR, ECS, Step Functions, CloudWatch) and fetch a model's weights from its hub; nothing ever calls them. Three ways out were weighed:

- A public address for each worker, and a security group that lets nothing in. Costs $0.005 an hour while a worker runs, and
  nothing while none does. The default.
- A NAT gateway: $33 a month whether or not anything runs, and $0.045 a GB: $0.70 for each host that fetches a 7B model. For accounts whose rules
  forbid public addresses: `slackwater:egress=nat`. One gateway, not one a zone: when its zone is lost, workers wait.
- Interface endpoints for each of those services: about $7 a month for each, in each zone, and no way to the hub.

Files, chunks and records, and the layers of the image, which ECR keeps in S3, go through the gateway endpoints, which cost nothing.
"""

from typing import Literal

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.logs import log_group

ZONES = 3
"""Spot capacity of GPUs is a matter of zones: the more to choose from, the better."""


class Network(Construct):
    """The VPC.

    Attributes:
        vpc: The VPC.
        subnets: Where workers are.
        nobody: The security group of workers: out, and nothing in.

    """

    def __init__(
        self, scope: Construct, construct_id: str, *, key: kms.IKey, egress: Literal["public-address", "nat"]
    ) -> None:
        super().__init__(scope, construct_id)
        private = egress == "nat"
        workers = ec2.SubnetConfiguration(
            name="Workers",
            subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS if private else ec2.SubnetType.PUBLIC,
            cidr_mask=20,
        )
        gateway = ec2.SubnetConfiguration(name="Gateway", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            # By number, since their names depend on where the stack is deployed.
            availability_zones=[Fn.select(zone, Fn.get_azs()) for zone in range(ZONES)],
            nat_gateways=1 if private else 0,
            subnet_configuration=[workers, gateway] if private else [workers],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "DynamoDb": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
        )
        self.vpc.add_flow_log(
            "Flows", destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group(self, "FlowLogs", key))
        )
        self.subnets = ec2.SubnetSelection(subnet_group_name="Workers")
        self.nobody = ec2.SecurityGroup(
            self,
            "Nobody",
            vpc=self.vpc,
            description="Workers: all the way out, and nothing in",
            allow_all_outbound=True,
        )
