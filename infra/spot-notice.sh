#!/bin/bash
# Waits for the notice that this Spot host will be reclaimed, and tells its workers with a SIGTERM: they commit what is
# finished and give their leases back. ECS drains such a host by itself, but lets the tasks of AWS Batch run until the
# machine stops under them.
set -u

metadata=http://169.254.169.254/latest
while true; do
    token=$(curl --silent --fail --max-time 2 --request PUT \
        --header 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token")
    # 404 while there is no notice, and always on an On-Demand host.
    if curl --silent --fail --max-time 2 --output /dev/null \
        --header "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/spot/instance-action"; then
        docker ps --quiet --filter label=com.amazonaws.ecs.task-arn | xargs --no-run-if-empty docker kill --signal TERM
        exit 0
    fi
    sleep 5
done
