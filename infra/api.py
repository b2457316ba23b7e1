"""The API: an HTTP API in front of one Lambda, which routes by itself.

API keys are checked by the application, which knows what each may do and answers in the API's own words; an authorizer in front could do neither.
There is no CORS: an API key has no business in a browser.
"""

import json

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra.access import API
from infra.findings import acknowledge
from infra.function import MODELS_FILE, Shared, Size, function
from infra.logs import log_group
from infra.options import Options
from shared.settings import ApiSettings

SIZE = Size(seconds=30, memory=1769)
"""As long as the HTTP API waits; a whole CPU, since an upload is scanned while it is stored."""

REQUESTS_PER_SECOND = 100
BURST = 200
"""The most requests of all callers together: batches take few. Callers are told 429 above it, and their SDKs try again."""

LOGGED = (
    "requestId",
    "requestTime",
    "identity.sourceIp",
    "httpMethod",
    "path",
    "status",
    "responseLength",
    "integrationLatency",
    "integrationErrorMessage",
)
"""Of a request: never a header, a query or a body. The path holds ids alone."""


class Api(Construct):
    """The HTTP API.

    Attributes:
        url: Where it is, without a trailing slash and without a mount's prefix.

    """

    def __init__(self, scope: Construct, construct_id: str, shared: Shared, *, region: str, options: Options) -> None:
        super().__init__(scope, construct_id)
        settings = ApiSettings(
            bucket=shared.storage.bucket.bucket_name,
            table_prefix=shared.names.prefix,
            models_file=MODELS_FILE,
            region=region,
            state_machine_arn=shared.names.machine_arn,
            scan_function=shared.names.scan_function,
            mounts=options.mounts,
            windows=options.windows,
            s3_prefixes=options.s3_prefixes,
            account_bytes=options.account_bytes,
            account_batches=options.account_batches,
        )
        made = function(
            self,
            "Function",
            shared,
            handler="functions.api.handler.handler",
            size=SIZE,
            access=API,
            environment=settings.to_env(),
            snap_start=True,
        )
        # Only published versions start from a snapshot; the alias is what moves to the next one.
        alias = lambda_.Alias(self, "Live", alias_name="live", version=made.current_version)
        api = apigateway.HttpApi(
            self,
            "Http",
            api_name=shared.names.prefix,
            default_integration=HttpLambdaIntegration("Integration", alias),
            create_default_stage=False,
        )
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(rate_limit=REQUESTS_PER_SECOND, burst_limit=BURST),
        )
        _log_accesses(stage, shared)
        own_keys = (
            "The application checks an API key in every request but its health check; API Gateway cannot know them."
        )
        acknowledge(api, "AwsSolutions-APIG4", own_keys)
        self.url = api.api_endpoint


def _log_accesses(stage: apigateway.HttpStage, shared: Shared) -> None:
    # API Gateway lets itself into a group of this name; for any other the account's policy on log groups would grow with each stack.
    logs = log_group(stage, "AccessLogs", shared.storage.key, name=f"/aws/vendedlogs/{shared.names.prefix}/api")
    resource = stage.node.default_child
    if not isinstance(resource, apigateway.CfnStage):
        raise TypeError("aws-cdk-lib makes an HTTP stage of something else now")
    resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
        destination_arn=logs.log_group_arn,
        format=json.dumps({name: f"$context.{name}" for name in LOGGED}),
    )
