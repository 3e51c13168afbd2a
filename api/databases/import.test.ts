/** `source` of a new database, on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { importSourceField, labels, tenantNamespace } from '../../crds/index.ts'
import { sealingKeySecret } from '../../sealing/credentials.ts'
import { openImportSource } from '../../sealing/import-source.ts'
import { type Client, expectError, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const uri = 'postgresql://shop:hidden%2Fsecret@db.example.com:5433/shop?sslmode=verify-full'
const make = (name: string, source: unknown, more = {}) =>
  client.call('POST', '/databases', { body: { name, region: 'local', size: 'small', source, ...more } })

test('a create encrypts the source URI in a Secret, and never returns it', async () => {
  const made = await make('imported', { uri })
  expect(made).toMatchObject({ status: 200, body: { status: 'creating' } })
  const database = await storedDatabase(client, 'imported')
  const { secretName = '' } = database.spec.import ?? {}
  const secret = await client.cluster.get('Secret', { namespace, name: secretName })
  const key = await client.cluster.get('Secret', { namespace: 'espalier-system', name: sealingKeySecret })
  if (secret === undefined) throw new Error('there is no Secret')
  expect(secret.metadata.labels).toMatchObject({ [labels.database]: made.body.id, [labels.component]: 'import-source' })
  expect(Buffer.from(secret.data?.[importSourceField] ?? '', 'base64').toString()).not.toContain('hidden')
  expect(openImportSource(Buffer.from(key?.data?.key ?? '', 'base64'), secret)).toBe(uri)
  const task = await client.call('GET', `/tasks/${made.headers['x-task-id']}`)
  const shown = await client.call('GET', `/databases/${made.body.id}`)
  for (const answer of [made, task, shown, database]) expect(JSON.stringify(answer)).not.toMatch(/hidden|db\.example/)
})

test('returns progress, result and error', async () => {
  const made = await make('shown', { uri })
  const database = await storedDatabase(client, 'shown')
  const startedAt = '2026-01-01T00:00:00Z'
  const failed = { phase: 'failed' as const, attempt: 2, startedAt, finishedAt: startedAt }
  await client.cluster.replaceStatus('ManagedDatabase', {
    ...database,
    status: {
      ...database.status,
      import: { ...failed, reason: 'ExtensionMissing', message: 'no "postgis"', tables: 3 },
    },
  })
  const read = async () => (await client.call('GET', `/databases/${made.body.id}`)).body
  await until(async () => (await read()).import !== undefined)
  expect((await read()).import).toEqual({
    ...{ status: 'failed', attempt: 2, started_at: startedAt, finished_at: startedAt, tables: 3 },
    error: 'ExtensionMissing: no "postgis"',
  })
})

test('an invalid source is refused with field and rule, but without the URI', async () => {
  const refused = async (source: unknown, rule: RegExp, more = {}) => {
    const answer = await make('refused', source, more)
    expectError(answer, 400, rule)
    expect(JSON.stringify(answer)).not.toContain('hidden')
  }
  await refused({ uri: 'mysql://u:hidden@h/d' }, /^source\.uri: must begin with "postgresql:\/\/"$/)
  await refused({ uri: 'postgresql://u:hidden@h.example.com/d?sslmode=prefer' }, /^source\.uri: must have an sslmode/)
  await refused({ uri: 'x'.repeat(2_001) }, /source\.uri/)
  await refused({ uri, other: 1 }, /source/)
  await refused({}, /source\.uri/)
  await refused({ uri }, /^source: cannot be combined with source_backup_id$/, {
    source_backup_id: crypto.randomUUID(),
  })
  expect(await client.cluster.get('ManagedDatabase', { namespace, name: 'refused' })).toBeUndefined()
})
