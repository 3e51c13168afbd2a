/** Both stores must behave the same. The last tests are about one store only. */
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ownAddress } from '../../postgres/own-tables.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { PostgresConversations } from './postgres.ts'
import { SqliteConversations } from './sqlite.ts'
import { type ConversationStore, mostOfOneUser } from './store.ts'

const directory = mkdtempSync(join(tmpdir(), 'espalier-mcp-conversations-'))
let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('18')
})
afterAll(async () => {
  await postgres.stop()
  rmSync(directory, { recursive: true, force: true })
})

const empty = { provider: '', model: '', connection: '' }
const userMessage = (content: string) => ({ role: 'user', content, timestamp: '2030-01-31T00:00:00Z' })
const inPostgres = () => new PostgresConversations(ownAddress(postgres.uri('postgres'), {}))

describe.each([
  ['SQLite', (now?: () => number) => new SqliteConversations(join(directory, 'data'), now)],
  ['Postgres', (now?: () => number) => new PostgresConversations(ownAddress(postgres.uri('postgres'), {}), now)],
])('in %s', (_, open) => {
  let store: ConversationStore
  beforeAll(() => {
    store = open()
  })
  afterAll(() => store.close())

  test('stores, changes and deletes a conversation, which another process can read', async () => {
    const made = await store.create('alice', {
      provider: 'p',
      model: 'm',
      connection: 'c',
      messages: [userMessage('first')],
    })
    expect(made).toMatchObject({ username: 'alice', title: 'first', provider: 'p', messages: [userMessage('first')] })
    const other = open()
    expect(await other.find('alice', made.id)).toEqual(made)
    const changed = await other.replace('alice', made.id, { model: 'n', messages: [userMessage('second')] })
    expect(changed).toMatchObject({ title: 'first', provider: 'p', model: 'n', messages: [userMessage('second')] })
    expect(await store.rename('alice', made.id, 'renamed')).toBe(true)
    other.close()
    expect(await store.find('alice', made.id)).toMatchObject({ title: 'renamed', model: 'n' })
    expect(await store.list('alice', 10, 0)).toMatchObject([{ id: made.id, title: 'renamed', preview: 'second' }])
    expect(await store.remove('alice', made.id)).toBe(true)
    expect(await store.remove('alice', made.id)).toBe(false)
    expect(await store.rename('alice', made.id, 'x')).toBe(false)
    expect(await store.replace('alice', made.id, { messages: [userMessage('x')] })).toBeUndefined()
    expect(await store.find('alice', made.id)).toBeUndefined()
  })

  test('a user cannot find the conversations of another user', async () => {
    const { id } = await store.create('alice', { ...empty, messages: [userMessage('mine')] })
    expect(await store.find('bob', id)).toBeUndefined()
    expect(await store.list('bob', 10, 0)).toEqual([])
    expect(await store.rename('bob', id, 'x')).toBe(false)
    expect(await store.replace('bob', id, { messages: [userMessage('x')] })).toBeUndefined()
    expect(await store.remove('bob', id)).toBe(false)
    expect(await store.removeAll('bob')).toBe(0)
    expect(await store.find('alice', id)).toMatchObject({ title: 'mine', messages: [userMessage('mine')] })
    expect(await store.removeAll('alice')).toBe(1)
  })

  test('lists the last changed conversation first, independent of clocks', async () => {
    const late = open(() => 4_000_000_000_000)
    const early = open(() => 1_000_000_000_000)
    const one = await late.create('erin', { ...empty, messages: [userMessage('1')] })
    late.close()
    const next = await early.create('erin', { ...empty, messages: [userMessage('2')] })
    expect((await early.list('erin', 10, 0)).map(({ id }) => id)).toEqual([next.id, one.id])
    await early.rename('erin', one.id, 'again')
    expect((await early.list('erin', 1, 0)).map(({ id }) => id)).toEqual([one.id])
    expect((await early.list('erin', 1, 1)).map(({ id }) => id)).toEqual([next.id])
    early.close()
  })

  test('titles and previews are the first words of the user, in whole characters', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 150 }), async text => {
        const messages = [{ ...userMessage('system'), role: 'system' }, userMessage(text)]
        const { id, title } = await store.create('carol', { ...empty, messages })
        const [summary] = await store.list('carol', 1, 0)
        await store.remove('carol', id)
        expect([...title].length).toBeLessThanOrEqual(50)
        expect([...(summary?.preview ?? '')].length).toBeLessThanOrEqual(100)
        expect(title.isWellFormed()).toBe(true)
        const plain = text.replaceAll(/\s+/g, ' ').trim()
        expect(plain === '' ? title : `${title}`.replace(/\.\.\.$/, '')).toBe(
          plain === ''
            ? 'New conversation'
            : [...plain].length > 50
              ? [...plain].slice(0, 47).join('')
              : plain.replace(/\.\.\.$/, ''),
        )
      }),
      { numRuns: 40 },
    )
  })

  test('executes no text as a statement, and loses no text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async text => {
        fc.pre(text.isWellFormed())
        const made = await store.create('dave', {
          provider: text,
          model: '',
          connection: '',
          messages: [userMessage(text)],
        })
        expect(await store.find('dave', made.id)).toEqual(made)
        expect(await store.find(`dave' OR '1'='1`, made.id)).toBeUndefined()
        expect(await store.find('dave', text)).toBeUndefined()
        await store.remove('dave', made.id)
      }),
      { numRuns: 40 },
    )
  })

  test("limits a user's conversations, also during concurrent creation", async () => {
    await fill('frank', mostOfOneUser - 2)
    const created = await Promise.allSettled(
      Array.from({ length: 6 }, () => store.create('frank', { ...empty, messages: [userMessage('x')] })),
    )
    expect(created.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    for (const one of created)
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ fault: { kind: 'too many' } })
    await store.create('grace', { ...empty, messages: [userMessage('x')] })
    expect(await store.removeAll('frank')).toBe(mostOfOneUser)
  })

  async function fill(username: string, number: number): Promise<void> {
    const values = `'', '', '', '', '', '[]', '', ''`
    if (store instanceof SqliteConversations) {
      const { DatabaseSync } = await import('node:sqlite')
      const database = new DatabaseSync(join(directory, 'data', 'conversations.db'))
      const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${number})`
      database.exec(`INSERT INTO conversations ${numbers} SELECT 'f' || i, '${username}', ${values}, i FROM n`)
      database.close()
    } else {
      const numbers = `generate_series(1, ${number}) i`
      await postgres.run(
        `INSERT INTO espalier_conversations SELECT 'f' || i, '${username}', ${values}, i FROM ${numbers}`,
      )
    }
  }
})

test('conversations survive a restart, in a file that only the owner can read', async () => {
  const folder = join(directory, 'again')
  const first = new SqliteConversations(folder)
  const made = await first.create('alice', { ...empty, messages: [userMessage('x')] })
  first.close()
  const second = new SqliteConversations(folder)
  expect(await second.find('alice', made.id)).toEqual(made)
  second.close()
  expect(statSync(join(folder, 'conversations.db')).mode & 0o777).toBe(0o600)
})

test('the store opens its folder at first use; a read-only folder is a storage error', async () => {
  writeFileSync(join(directory, 'file'), '')
  const unusable = new SqliteConversations(join(directory, 'file'))
  await expect(unusable.list('alice', 1, 0)).rejects.toThrow(
    expect.objectContaining({ fault: expect.objectContaining({ kind: 'storage' }) }),
  )
})

test('conversations are unavailable while Postgres is down, and available after it restarts', async () => {
  const store = inPostgres()
  const { id } = await store.create('heidi', { ...empty, messages: [userMessage('kept')] })
  await postgres.crash()
  const away = await store.find('heidi', id).catch((error: unknown) => error)
  expect(away).toMatchObject({ fault: { kind: 'unavailable' } })
  await postgres.start()
  expect(await store.find('heidi', id)).toMatchObject({ title: 'kept' })
  store.close()
})

test('creates deleted tables again', async () => {
  const store = inPostgres()
  await store.create('ivan', { ...empty, messages: [userMessage('x')] })
  await postgres.run('DROP TABLE espalier_conversations')
  expect(await store.list('ivan', 10, 0)).toEqual([])
  expect(await store.create('ivan', { ...empty, messages: [userMessage('y')] })).toMatchObject({ title: 'y' })
  store.close()
})

test('servers that start at the same time create the tables once', async () => {
  await postgres.run('DROP TABLE IF EXISTS espalier_conversations')
  const stores = Array.from({ length: 8 }, inPostgres)
  await Promise.all(stores.map(store => store.create('judy', { ...empty, messages: [userMessage('x')] })))
  expect(await stores[0]?.list('judy', 100, 0)).toHaveLength(8)
  for (const store of stores) store.close()
})
