/** Both stores must behave the same. Also tests the signing keys. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectionAddress } from '../../postgres/address.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { loadKeys, rotateKeys } from './keys.ts'
import { loadKeysInState, rotateKeysInState } from './keys-in-state.ts'
import { hashOf, Store } from './records.ts'
import { openPostgresStore } from './store-postgres.ts'
import { openSqliteStore } from './store-sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'espalier-oauth-'))
const sqlite = join(folder, 'state.sqlite')
let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('16')
  // The table as versions without the owner column created it.
  const columns = 'kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, uses INTEGER NOT NULL DEFAULT 0'
  const rest = 'expires_at BIGINT NOT NULL, PRIMARY KEY (kind, key)'
  const table = (name: string, strict: string) => `CREATE TABLE ${name} (${columns}, ${rest}) ${strict}`
  const row = `VALUES ('refresh', 'of before', '{"grant":"g"}', 9000000)`
  const database = new DatabaseSync(sqlite)
  database.exec(table('oauth_records', 'STRICT, WITHOUT ROWID').replace('BIGINT', 'INTEGER'))
  database.exec(`INSERT INTO oauth_records (kind, key, value, expires_at) ${row}`)
  database.close()
  await postgres.run(table('espalier_oauth_records', ''))
  await postgres.run(`INSERT INTO espalier_oauth_records (kind, key, value, expires_at) ${row}`)
})
afterAll(async () => {
  await postgres.stop()
  rmSync(folder, { recursive: true })
})

let now = 1_000_000
const grant = { clientId: 'c', subject: 'alice', username: 'alice', scopes: ['mcp:read' as const], resource: 'r' }

const client = { clientName: 'n', redirectUris: [], issuedAt: 0 }
const offered = (owner: string, at: number) =>
  ({ kind: 'client', owner, key: `client ${at}`, value: client, lifetimeSeconds: 60 }) as const
const small = { ofOwner: 3, all: 7 }
const bounds = { client: small, transaction: small, consent: small }

describe.each([
  ['SQLite', async () => openSqliteStore(sqlite)],
  ['Postgres', () => openPostgresStore(connectionAddress(postgres.uri('postgres')))],
])('in %s', (_, open) => {
  let store: Store
  beforeAll(async () => {
    store = new Store(await open(), () => now, bounds)
  })
  afterAll(() => store.close())

  const storedAre = async (...numbers: number[]) => {
    const found = await Promise.all(numbers.map(at => store.get('client', `client ${at}`)))
    return numbers.filter((_, at) => found[at] !== undefined)
  }

  test('reads records of an older version', async () => {
    expect(await store.get('refresh', 'of before')).toEqual({ grant: 'g' })
  })

  test('inserts a key once', async () => {
    expect(await store.insert('grant', 'once', grant, 60)).toBe(true)
    expect(await store.insert('grant', 'once', { ...grant, subject: 'mallory' }, 60)).toBe(false)
    expect(await store.get('grant', 'once')).toEqual(grant)
    expect(await store.get('refresh', 'once')).toBeUndefined()
  })

  test('exactly one of many concurrent uses is the first', async () => {
    await store.insert('refresh', 'many', { grant: 'g' }, 60)
    const uses = await Promise.all(Array.from({ length: 20 }, () => store.use('refresh', 'many')))
    expect(uses.filter(use => use?.isFirst)).toHaveLength(1)
    expect(uses.filter(use => use?.value.grant === 'g')).toHaveLength(20)
  })

  test('exactly one of many concurrent callers takes a record', async () => {
    await store.insert('refresh', 'taken', { grant: 'g' }, 60)
    const taken = await Promise.all(Array.from({ length: 20 }, () => store.take('refresh', 'taken')))
    expect(taken.filter(one => one !== undefined)).toEqual([{ grant: 'g' }])
  })

  test('does not return an expired record, whether it was swept or not', async () => {
    await store.insert('grant', 'short', grant, 10)
    await store.insert('grant', 'long', grant, 10)
    expect(await store.extend('grant', 'long', 100)).toBe(true)
    now += 10_001
    expect(await store.get('grant', 'short')).toBeUndefined()
    expect(await store.use('grant', 'short')).toBeUndefined()
    expect(await store.take('grant', 'short')).toBeUndefined()
    expect(await store.extend('grant', 'short', 100)).toBe(false)
    expect(await store.get('grant', 'long')).toEqual(grant)
    await store.sweep()
    expect(await store.insert('grant', 'short', grant, 10)).toBe(true)
  })

  test('an owner at its limit loses its oldest record, and other owners lose none', async () => {
    for (const [at, owner] of ['a', 'b', 'a', 'a', 'a'].entries()) {
      now += 1_000
      expect(await store.offer(offered(owner, at))).toBe(true)
    }
    expect(await storedAre(0, 1, 2, 3, 4)).toEqual([1, 2, 3, 4])
  })

  test('at the total limit, the largest owner loses records, and used records remain', async () => {
    await store.extend('client', 'client 2', 1_000_000)
    for (const [at, owner] of ['c', 'd', 'd', 'd'].entries()) {
      now += 1_000
      expect(await store.offer(offered(owner, 10 + at))).toBe(true)
    }
    // The limit is seven, so one of eight records must be evicted. The owners `a` and `d` have three unused records
    // each. The oldest unused record of `a` is older than the oldest record of `d`.
    expect(await storedAre(1, 2, 3, 4, 10, 11, 12, 13)).toEqual([1, 2, 4, 10, 11, 12, 13])
    for (const at of [1, 4, 10, 11, 12, 13]) await store.extend('client', `client ${at}`, 1_000_000)
    expect(await store.offer(offered('e', 20))).toBe(false)
  })

  test('another process finds written records', async () => {
    await store.insert('refresh', 'shared', { grant: 'g' }, 60)
    const other = new Store(await open(), () => now)
    expect(await other.get('refresh', 'shared')).toEqual({ grant: 'g' })
    await other.close()
  })
})

test('only the owner can read the state file, and it contains no secret', async () => {
  const store = new Store(openSqliteStore(sqlite), () => now)
  await store.insert('refresh', hashOf('the-secret'), { grant: 'g' }, 60)
  expect(statSync(sqlite).mode & 0o777).toBe(0o600)
  await store.close()
  expect(readFileSync(sqlite).includes('the-secret')).toBe(false)
})

test('a new key signs, old keys remain published, and only the owner can read the key file', async () => {
  const path = join(folder, 'keys.json')
  const first = await loadKeys(path)
  expect((await loadKeys(path)).kid).toBe(first.kid)
  const kid = await rotateKeys(path)
  const second = await loadKeys(path)
  expect(second.kid).toBe(kid)
  expect(second.published.keys.map(key => key.kid)).toEqual([kid, first.kid])
  chmodSync(path, 0o644)
  await expect(loadKeys(path)).rejects.toThrow(/0600/)
  writeFileSync(path, '{}')
  chmodSync(path, 0o600)
  await expect(loadKeys(path)).rejects.toThrow(/no usable key/)
})

test('bridges that start at the same time sign with the same key', async () => {
  const at = join(folder, 'of-several.json')
  const keys = await Promise.all(Array.from({ length: 4 }, () => loadKeys(at)))
  expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1)
  expect((await loadKeys(at)).kid).toBe(keys[0]?.kid)
  expect(readdirSync(folder).filter(name => name.startsWith('of-several'))).toEqual(['of-several.json'])
})

describe.each([
  ['SQLite', async () => openSqliteStore(sqlite)],
  ['Postgres', () => openPostgresStore(connectionAddress(postgres.uri('postgres')))],
])('signing keys in %s', (_, open) => {
  const secret = 's'.repeat(32)

  test('are created once by bridges that start at the same time, and are replaced by a rotation', async () => {
    const stores = await Promise.all(Array.from({ length: 4 }, open))
    const keys = await Promise.all(stores.map(store => loadKeysInState(store, secret)))
    const [first] = keys
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1)
    const [store] = stores
    if (store === undefined || first === undefined) throw new Error('the object is missing')
    const kid = await rotateKeysInState(store, secret)
    const after = await loadKeysInState(store, secret)
    expect(after.kid).toBe(kid)
    expect(after.published.keys.map(key => key.kid)).toEqual([kid, first.kid])
    expect((await loadKeysInState(store, 't'.repeat(32))).published.keys).toHaveLength(1)
    await Promise.all(stores.map(one => one.close()))
  })
})

test('the state does not reveal a signing key, and the bridge refuses a modified key', async () => {
  const { rows } = await postgres.run(`SELECT key, value FROM espalier_oauth_records WHERE kind = 'signing_key'`)
  expect(rows.length).toBeGreaterThan(0)
  for (const { value } of rows) expect(Buffer.from(value, 'base64').toString('latin1')).not.toContain('"kty"')
  await postgres.run(`UPDATE espalier_oauth_records SET value = 'AAAA' || substr(value, 5) WHERE kind = 'signing_key'`)
  const store = await openPostgresStore(connectionAddress(postgres.uri('postgres')))
  await expect(loadKeysInState(store, 's'.repeat(32))).rejects.toThrow()
  await store.close()
})

test("the state's address means the same as in libpq", async () => {
  // The server has no TLS. So `prefer` must connect and `require` must not, whatever the client library's own rules
  // are.
  const uri = new URL(postgres.uri('postgres'))
  uri.searchParams.set('sslmode', 'prefer')
  await (await openPostgresStore(connectionAddress(uri.href))).close()
  uri.searchParams.set('sslmode', 'require')
  await expect(openPostgresStore(connectionAddress(uri.href))).rejects.toThrow('does not support SSL')
  uri.searchParams.set('sslmode', 'no-verify')
  expect(() => connectionAddress(uri.href)).toThrow('sslmode')
})
