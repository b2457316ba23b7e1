"""Send a file of requests and get a file of answers back, with the official OpenAI SDK and nothing else.

OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=sk-local python examples/quickstart.py requests.jsonl
"""

import sys
import time
from pathlib import Path

from openai import OpenAI

client = OpenAI(timeout=60)

with Path(sys.argv[1]).open("rb") as requests:
    batch_input = client.files.create(file=requests, purpose="batch")
batch = client.batches.create(input_file_id=batch_input.id, endpoint="/v1/chat/completions", completion_window="24h")
while batch.status not in {"completed", "failed", "expired", "cancelled"}:
    time.sleep(2)
    batch = client.batches.retrieve(batch.id)

print(batch.id, batch.status, batch.request_counts)
for file_id in (batch.output_file_id, batch.error_file_id):
    if file_id:
        print(client.files.content(file_id).text, end="")
