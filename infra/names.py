"""The names that are known before the things they name are made.

The state machine calls Lambdas that may start it: a reference both ways has no beginning. So machine, queue and job definitions are named after
the deployment, and who may use them is granted by a name that is written down, not by a reference.
"""

from aws_cdk import ArnFormat, Stack

from infra.engines import ENGINES


class Names:
    """The names of one deployment.

    Args:
        stack: Where it is; knows region, account and partition, mostly as tokens.
        prefix: What its names begin with.
        s3_prefixes: The places in other buckets that are open to it (`ApiSettings.s3_prefixes`).

    """

    def __init__(self, stack: Stack, prefix: str, s3_prefixes: str = "") -> None:
        self._stack = stack
        self.prefix = prefix
        self._s3_prefixes = s3_prefixes

    @property
    def machine_arn(self) -> str:
        """The ARN of the state machine."""
        return self._arn("states", "stateMachine", self.prefix, ArnFormat.COLON_RESOURCE_NAME)

    @property
    def elsewhere_arns(self) -> tuple[str, ...]:
        """The patterns of the ARNs of the objects in other buckets that are open."""
        listed = (prefix.removeprefix("s3://").rstrip("/") for prefix in self._s3_prefixes.split(",") if prefix)
        return tuple(f"arn:{self._stack.partition}:s3:::{place.replace('{org}', '*')}/*" for place in listed)

    @property
    def queue_arn(self) -> str:
        """The ARN of the job queue."""
        return self._arn("batch", "job-queue", self.prefix, ArnFormat.SLASH_RESOURCE_NAME)

    @property
    def scan_function(self) -> str:
        """The name of the Lambda that scans large files: it is asked to by the API, and by itself."""
        return f"{self.prefix}-scan"

    @property
    def scan_function_arn(self) -> str:
        """Its ARN."""
        return self._arn("lambda", "function", self.scan_function, ArnFormat.COLON_RESOURCE_NAME)

    def definition(self, engine: str) -> str:
        """Give the name of the job definition of an engine's workers, as `TaskSettings.job_definition` says."""
        return f"{self.prefix}-{engine}"

    @property
    def definition_arns(self) -> tuple[str, ...]:
        """The ARNs of the job definitions: as they are submitted, without a revision, and as they are resolved, with whichever."""
        names = [name for engine in ENGINES for name in (self.definition(engine), f"{self.definition(engine)}:*")]
        return tuple(self._arn("batch", "job-definition", name, ArnFormat.SLASH_RESOURCE_NAME) for name in names)

    def _arn(self, service: str, resource: str, name: str, arn_format: ArnFormat) -> str:
        return self._stack.format_arn(service=service, resource=resource, resource_name=name, arn_format=arn_format)
