// The official Node SDK, unchanged, through the whole cycle of one contract. Run by tests/e2e/test_node_sdk.py, which sets:
//
//   BASE_URL     the contract's mount of a running stack
//   NARROW_URL   the same, as a Lambda serves it: contents come by redirect to the store
//   OPEN_BATCHES how many unfinished batches the organization may have there, empty where it has many

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import OpenAI, { toFile } from 'openai';

const { BASE_URL, NARROW_URL, OPEN_BATCHES } = process.env;
const ENDED = new Set(['completed', 'failed', 'expired', 'cancelled']);
const JSONL = 'application/jsonl';

const calls = []; // every request that the SDK sends: a repetition is one more
const counting = (url, init) => {
  calls.push(`${init.method.toUpperCase()} ${new URL(url).pathname}`);
  return fetch(url, init);
};
const client = new OpenAI({ baseURL: BASE_URL, apiKey: 'sk-local', fetch: counting });
const narrow = new OpenAI({ baseURL: NARROW_URL, apiKey: 'sk-local' });
const made = [];

const line = (id, text) =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'echo', messages: [{ role: 'user', content: text }], max_tokens: 64 },
  }) + '\n';
const lines = (count) => Array.from({ length: count }, (_, index) => line(`line-${index}`, `number ${index}`)).join('');

const upload = async (content) =>
  client.files.create({ file: await toFile(Buffer.from(content), 'requests.jsonl'), purpose: 'batch' });

const create = async (fileId, options) => {
  const batch = await client.batches.create(
    { input_file_id: fileId, endpoint: '/v1/chat/completions', completion_window: '24h' },
    options,
  );
  made.push(batch.id);
  return batch;
};

const until = async (batch) => {
  while (!ENDED.has(batch.status)) {
    await sleep(100);
    batch = await client.batches.retrieve(batch.id);
  }
  return batch;
};

const rows = (text) => Object.fromEntries(text.trimEnd().split('\n').map(JSON.parse).map((row) => [row.custom_id, row]));

// The refusal that a call is answered with: its class, status, code and param, and how many requests it took.
const refusal = async (call) => {
  const before = calls.length;
  const error = await call().then(() => assert.fail('it was not refused'), (error) => error);
  assert.equal(error.type, 'invalid_request_error');
  assert.match(error.requestID, /^req_/);
  return [error.constructor.name, error.status, error.code, error.param, calls.length - before];
};

after(async () => {
  for (const id of made) await until(await client.batches.retrieve(id));
});

test('a file from a stream becomes a batch, whose answers come back', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'node-sdk-')), 'requests.jsonl');
  await writeFile(path, lines(3000));
  const file = await client.files.create({ file: createReadStream(path), purpose: 'batch' });
  assert.deepEqual([file.filename, file.status, file.bytes], ['requests.jsonl', 'processed', lines(3000).length]);

  const batch = await until(await create(file.id));
  assert.equal(batch.status, 'completed');
  assert.deepEqual(batch.request_counts, { total: 3000, completed: 3000, failed: 0 });
  assert.equal(batch.error_file_id, null);

  const answer = await client.files.content(batch.output_file_id);
  assert.equal(answer.headers.get('content-type'), JSONL);
  const found = rows(await answer.text());
  assert.equal(Object.keys(found).length, 3000);
  assert.equal(found['line-2999'].response.body.choices[0].message.content, 'echo: number 2999');
});

test('a content that does not fit into an answer comes by redirect', async () => {
  const file = await upload(lines(40));
  const whole = await narrow.files.content(file.id);
  assert.ok(whole.redirected);
  assert.notEqual(new URL(whole.url).host, new URL(NARROW_URL).host);
  assert.equal(await whole.text(), lines(40));
  const rest = await narrow.files.content(file.id, { headers: { Range: 'bytes=100-' } });
  assert.deepEqual([rest.status, await rest.text()], [206, lines(40).slice(100)]);
  const small = await narrow.files.content(file.id, { headers: { Range: 'bytes=0-9' } });
  assert.deepEqual([small.redirected, small.status, await small.text()], [false, 206, lines(40).slice(0, 10)]);
});

test('a file from a buffer lives as long as it was told', async () => {
  const seconds = 8 * 86400;
  const file = await client.files.create({
    file: await toFile(Buffer.from(lines(2)), 'requests.jsonl'),
    purpose: 'batch',
    expires_after: { anchor: 'created_at', seconds },
  });
  assert.equal(file.expires_at - file.created_at, seconds);
  assert.equal(await (await client.files.content(file.id)).text(), lines(2));
});

test('a file goes up in parts', async () => {
  const content = Buffer.from(lines(300));
  const pieces = [content.subarray(0, 20_000), content.subarray(20_000)];
  const upload = await client.uploads.create({
    filename: 'requests.jsonl',
    purpose: 'batch',
    bytes: content.length,
    mime_type: JSONL,
  });
  assert.equal(upload.status, 'pending');
  const parts = await Promise.all(
    pieces.map(async (data) => client.uploads.parts.create(upload.id, { data: await toFile(data, 'part') })),
  );
  const done = await client.uploads.complete(upload.id, {
    part_ids: parts.map((part) => part.id),
    md5: createHash('md5').update(content).digest('hex'),
  });
  assert.deepEqual([done.status, done.file.bytes, done.file.status], ['completed', content.length, 'processed']);
  assert.equal(await (await client.files.content(done.file.id)).text(), content.toString());

  const given = await client.uploads.create({ filename: 'a.jsonl', purpose: 'batch', bytes: 9, mime_type: JSONL });
  assert.equal((await client.uploads.cancel(given.id)).status, 'cancelled');
});

test('lists are walked page by page, each object once, newest first', async () => {
  const files = [];
  for (let index = 0; index < 5; index += 1) files.push(await upload(line(`only-${index}`, 'hi')));
  const walked = [];
  for await (const file of client.files.list({ limit: 2 })) walked.push(file.id);
  assert.equal(new Set(walked).size, walked.length);
  assert.deepEqual(walked.slice(0, 5), files.map((file) => file.id).reverse());

  const batches = [];
  for (const file of files) batches.push((await until(await create(file.id))).id);
  const listed = [];
  for await (const batch of client.batches.list({ limit: 2 })) listed.push(batch.id);
  assert.equal(new Set(listed).size, listed.length);
  assert.deepEqual(listed.slice(0, 5), batches.reverse());
  assert.ok(made.every((id) => listed.includes(id)));
});

test('a batch that is cancelled ends so, with a row for its line', async () => {
  const batch = await create((await upload(line('slow', '[[delay 3]]'))).id);
  assert.ok(['cancelling', 'cancelled'].includes((await client.batches.cancel(batch.id)).status));
  const ended = await until(batch);
  assert.equal(ended.status, 'cancelled');
  const results = await client.files.content(ended.error_file_id ?? ended.output_file_id);
  assert.deepEqual(Object.keys(rows(await results.text())), ['slow']);
});

test('a bad line is told on the batch that it fails', async () => {
  const ended = await until(await create((await upload(line('a', 'hi') + '{"custom_id": "b"}\n')).id));
  assert.equal(ended.status, 'failed');
  assert.deepEqual([ended.errors.data[0].line, ended.errors.data[0].code], [2, 'missing_required_parameter']);
});

test('refusals are the exceptions of the SDK, and are not repeated', async () => {
  const stranger = new OpenAI({ baseURL: BASE_URL, apiKey: 'sk-nobody', fetch: counting });
  const other = new OpenAI({ baseURL: BASE_URL, apiKey: 'sk-limited', fetch: counting });
  const file = await upload(line('a', '[[delay 3]]'));
  const missing = `file-${'0'.repeat(26)}`;

  assert.deepEqual(await refusal(() => stranger.files.list().then()), ['AuthenticationError', 401, 'invalid_api_key', null, 1]);
  assert.deepEqual(await refusal(() => other.files.retrieve(file.id)), ['NotFoundError', 404, 'not_found', null, 1]);
  assert.deepEqual(await refusal(() => create(missing)), ['NotFoundError', 404, 'not_found', null, 1]);
  assert.deepEqual(await refusal(() => client.batches.list({ limit: 101 }).then()), ['BadRequestError', 400, 'integer_above_max_value', 'limit', 1]);
  assert.deepEqual(
    await refusal(async () => client.files.create({ file: await toFile(Buffer.from('\n'), 'a.jsonl'), purpose: 'batch' })),
    ['BadRequestError', 400, 'empty_file', 'file', 1],
  );

  const headers = { 'Idempotency-Key': file.id };
  const batch = await create(file.id, { headers });
  assert.equal((await create(file.id, { headers })).id, batch.id);
  const spare = await upload(line('b', 'hi'));
  assert.deepEqual(await refusal(() => create(spare.id, { headers })), ['ConflictError', 409, 'idempotency_key_reused', 'Idempotency-Key', 1]);
  assert.deepEqual(await refusal(() => client.files.delete(file.id)), ['ConflictError', 409, 'file_in_use', null, 1]);
  await until(batch);
});

test('the limit of unfinished batches is a 429 that is not repeated', { skip: !OPEN_BATCHES && 'no limit of its own' }, async () => {
  const most = Number(OPEN_BATCHES);
  const file = await upload(line('a', '[[delay 3]]'));
  for (let index = 0; index < most; index += 1) await create(file.id);
  const error = await create(file.id).then(() => assert.fail('it was not refused'), (error) => error);
  assert.deepEqual([error.constructor.name, error.code], ['RateLimitError', 'limit_exceeded']);
  assert.deepEqual([error.error.limit.limit, error.error.limit.current], [most, most]);
});

test('a file that is deleted is gone', async () => {
  const file = await upload(lines(1));
  assert.deepEqual(await client.files.delete(file.id), { id: file.id, object: 'file', deleted: true });
  assert.equal((await refusal(() => client.files.retrieve(file.id)))[1], 404);
});

test('models are listed and shown', async () => {
  const found = [];
  for await (const model of client.models.list()) found.push(model.id);
  assert.ok(found.includes('echo'));
  assert.equal((await client.models.retrieve('echo')).object, 'model');
});
