"""The stack: one deployment of Slackwater, in whichever account and region it is put."""

from pathlib import Path

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.api import Api
from infra.fleet import Fleet
from infra.function import Shared
from infra.lifecycle import Lifecycle
from infra.names import Names
from infra.network import Network
from infra.options import Options
from infra.storage import Storage
from shared.core.contracts import mounted


class SlackwaterStack(Stack):
    """The service.

    Args:
        scope: The app.
        options: What was chosen.
        code: The folder that the Lambdas run (`infra.bundle`).
        models: How many models it serves.

    """

    def __init__(self, scope: Construct, options: Options, *, code: Path, models: int) -> None:
        super().__init__(
            scope,
            options.name,
            description="Slackwater: OpenAI-compatible batch inference on Spot GPUs that scale to zero",
        )
        names = Names(self, options.name, options.s3_prefixes)
        storage = Storage(self, "Storage", prefix=options.name)
        shared = Shared(lambda_.Code.from_asset(str(code)), storage, names)
        api = Api(self, "Api", shared, region=self.region, options=options)
        Lifecycle(self, "Lifecycle", shared, region=self.region, max_workers=options.max_workers)
        Fleet(
            self,
            "Fleet",
            network=Network(self, "Network", key=storage.key, egress=options.egress),
            storage=storage,
            names=names,
            region=self.region,
            most_workers=options.max_workers * models,
            on_demand=options.on_demand,
        )
        for prefix, contract in mounted(options.mounts).items():
            CfnOutput(
                self,
                f"{contract.name.capitalize()}Url",
                value=f"{api.url}{prefix}",
                description="A base_url for OpenAI's SDKs",
            )
        CfnOutput(self, "Bucket", value=storage.bucket.bucket_name)
        CfnOutput(self, "TablePrefix", value=options.name)
