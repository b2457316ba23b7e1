"""A GPU host: what it is launched with, and what it does before its first job."""

from pathlib import Path

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

NOTICE = Path(__file__).parent / "spot-notice.sh"

WORKER_UID = 10001
"""The user of the worker's image (`gpu_job/Dockerfile`)."""
STATE = "/var/lib/slackwater"
"""The folder of the host where models are: one worker fetches a model, all later ones of that host find it."""

DISK_GIB = 200
DISK_MIB_PER_SECOND = 500
"""An image of about 25 GiB and a few models; both are read before a worker can begin."""


def launch_template(scope: Construct, construct_id: str) -> ec2.LaunchTemplate:
    """Make the template: IMDSv2 that no container on a network of its own reaches, an encrypted disk, and the set-up."""
    user_data = ec2.MultipartUserData()  # the form that AWS Batch can add its own part to
    user_data.add_part(ec2.MultipartBody.from_user_data(_setup()))
    return ec2.LaunchTemplate(
        scope,
        construct_id,
        user_data=user_data,
        require_imdsv2=True,
        http_put_response_hop_limit=1,
        block_devices=[
            ec2.BlockDevice(
                device_name="/dev/xvda",
                volume=ec2.BlockDeviceVolume.ebs(
                    DISK_GIB, volume_type=ec2.EbsDeviceVolumeType.GP3, throughput=DISK_MIB_PER_SECOND, encrypted=True
                ),
            )
        ],
    )


def _setup() -> ec2.UserData:
    setup = ec2.UserData.for_linux()
    setup.add_commands(
        # No new job for a host that is about to be reclaimed.
        "echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >> /etc/ecs/ecs.config",
        f"install --directory --owner {WORKER_UID} --group {WORKER_UID} --mode 0750 {STATE}",
        f"cat > /usr/local/bin/spot-notice <<'END_OF_SCRIPT'\n{NOTICE.read_text()}END_OF_SCRIPT",
        "chmod 0755 /usr/local/bin/spot-notice",
        "systemd-run --unit=spot-notice /usr/local/bin/spot-notice",
    )
    return setup
