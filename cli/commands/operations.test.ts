/** Tests commands that change or read one database, with the API. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { reconcile } from '../../api/testing/harness.ts'
import { type Cli, golden, startCli } from '../testing/cli.ts'
import { rulesWith, rulesWithout } from './allow.ts'
import { newEntries, nextPauseMs, sinceTime } from './logs.ts'
import { linesOf } from './metrics.ts'

let cli: Cli
beforeAll(async () => {
  cli = await startCli()
  await cli.run('db create shop --wait -q')
})
afterAll(() => cli?.close())

const out = async (line: string | string[]) => {
  const { code, out: text, err } = await cli.run(line)
  expect(err).toBe('')
  expect(code).toBe(0)
  return golden(text)
}

/** Reconciles a changed database as the operator does: the fake operator of this test reconciles only new objects. */
const reconciled = async (name: string) => {
  await reconcile(cli.api.cluster, 'acme', name)
  const isAvailable = async () => (await cli.run(`db get ${name} --json`)).out.includes('"status": "available"')
  await expect.poll(isAvailable).toBe(true)
}

test('backups are taken, listed and deleted', async () => {
  expect(await cli.run('backup list shop')).toMatchObject({
    code: 0,
    out: '',
    err: expect.stringContaining('No backups yet'),
  })
  const name = (await cli.run('backup create shop -q')).out.trim()
  expect(name).toMatch(/^shop-/)
  const text = await out('backup list')
  expect(text.replace(/shop-\w+-\d+-\w+/, 'BACKUP').replace(/ {2,}/g, '  ')).toMatchInlineSnapshot(`
    "NAME  DATABASE  KIND  STATUS  PURPOSE  CREATED
    BACKUP  shop  hot  completed  user  AGO
    "
  `)
  expect(JSON.parse((await cli.run('backup list --json')).out)).toMatchObject([{ name, kind: 'hot' }])
  expect(await cli.run(`backup delete ${name}`)).toMatchObject({ code: 2, err: expect.stringContaining('--yes') })
  expect(await cli.run('backup delete none --yes')).toMatchObject({ code: 3 })
  expect(await cli.run(`backup delete ${name} --yes`)).toMatchObject({ code: 0, out: `${name} is being deleted\n` })
})

test('a restore needs a backup, a time or a branch, and asks for confirmation', async () => {
  const name = (await cli.run('backup create shop -q --wait')).out.trim()
  expect(await cli.run('restore shop')).toMatchObject({
    code: 2,
    err: expect.stringContaining('use exactly one of --backup, --to or --branch'),
  })
  expect(await cli.run(`restore shop --backup ${name} --to now`)).toMatchObject({ code: 2 })
  expect(await cli.run('restore shop --branch none --yes')).toMatchObject({ code: 3 })
  const branch = (await cli.run('branch create -d shop -q --wait')).out.trim()
  expect(await cli.run(`restore shop --branch ${branch} --yes`)).toMatchObject({
    code: 2,
    err: expect.stringContaining('--branch: the branch was created without a target'),
  })
  expect(await cli.run(`restore shop --backup ${name}`, { typed: 'no\n' })).toMatchObject({
    code: 1,
    err: expect.stringContaining('This replaces the data of shop; the current data are kept as a backup.'),
  })
  expect(await cli.run(`restore shop --backup ${name} --yes`)).toMatchObject({ code: 0, out: 'shop is restoring\n' })
})

test('resizes, rotates and suspends a database, and lists its operations', async () => {
  await cli.run('db create plain --wait -q')
  expect(await out('size list')).toMatchInlineSnapshot(`
    "NAME   VERSION  STATUS  CPU  MEMORY  STORAGE  CONNECTIONS  PRICE
    small        2  active    1   256Mi      1Gi           50  15.00 EUR a month
    large        1  active    1   256Mi      1Gi          200  -
    "
  `)
  expect(await out('size set large plain')).toMatch(/^plain is \w+, size large\n$/)
  await reconciled('plain')
  expect(await cli.run('size set huge plain')).toMatchObject({ code: 2, err: expect.stringContaining('<size>: ') })
  expect(await out('rotate plain --role admin')).toMatch(/^plain is \w+\n$/)
  expect(await cli.run('rotate plain --role postgres')).toMatchObject({ code: 2 })
  await reconciled('plain')
  expect(await out('suspend plain')).toBe('plain is suspending\n')
  expect((await cli.run('tasks plain -q')).out.trim().split('\n').length).toBeGreaterThan(2)
  const [title, first] = (await out('tasks plain')).split('\n')
  expect(first).toContain('database plain ')
  expect(await out('tasks')).toContain('database plain ')
  expect(title?.split(/ {2,}/)).toEqual(['OPERATION', 'SUBJECT', 'STATUS', 'STARTED', 'MESSAGE'])
})

test('audit filters entries by database and by time', async () => {
  const id = JSON.parse((await cli.run('db get shop --json')).out).id
  expect(await cli.run('db create shop --wait -q')).toMatchObject({ code: 2 })
  cli.api.auditRecorder.write({
    ...{ time: new Date().toISOString(), request_id: 'r', tenant: 'acme', member: 'bob', address: '::1' },
    ...{ method: 'POST', path: `/managed/v1/databases/${id}/sql`, status: 200, outcome: 'accepted' },
    sql: {
      database_id: id,
      mode: 'write',
      role: 'application',
      statements: 2,
      sha256: '',
      result: 'failed',
      sqlstate: '42P01',
    },
  })
  await cli.api.auditRecorder.flush()
  const text = (await cli.run('audit --limit 2')).out.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
  expect(text.replaceAll(id, 'ID').replaceAll(/ {2,}/g, '  ')).toMatchInlineSnapshot(`
    "TIME  MEMBER  OUTCOME  REQUEST  SQL OR SERVICE
    TIME  bob  accepted 200  POST /databases/ID/sql  write as application, 2 statements: failed 42P01
    TIME  ada  refused 400  POST /databases  -
    "
  `)
  const all = JSON.parse((await cli.run('audit --json --limit 1000')).out)
  expect(all.length).toBeGreaterThan(2)
  expect(all.at(-1)).toMatchObject({ outcome: 'accepted', subject_id: id, member: 'ada', address: expect.any(String) })
  const ofShop = JSON.parse((await cli.run('audit -d shop --json')).out)
  expect(ofShop.length).toBeLessThan(all.length)
  expect(ofShop.at(-1)).toMatchObject({ subject_id: id })
  expect((await cli.run('audit -q --since 1h')).out.trim().split('\n')[0]).toBe(all[0].id)
  expect(await cli.run('audit --since 2100-01-01T00:00:00Z')).toMatchObject({ code: 0, out: '' })
  expect(await cli.run('audit --since never')).toMatchObject({ code: 2 })
  expect(await cli.run('audit -d none')).toMatchObject({ code: 3 })
})

test('a change of the allowlist keeps its other rules', async () => {
  await cli.run('db create open --wait -q')
  expect(await cli.run('allow list open')).toMatchObject({
    code: 0,
    err: expect.stringContaining('No address may connect'),
  })
  expect(await cli.run('allow add open 203.0.113.0/24')).toMatchObject({
    code: 2,
    err: expect.stringContaining('203.0.113.0/24 is an address, not a database'),
  })
  expect(await out('allow add 203.0.113.0/24 open --label office')).toBe('open admits 203.0.113.0/24\n')
  await reconciled('open')
  expect(await out('allow me open')).toBe('open admits 203.0.113.0/24, 127.0.0.1/32\n')
  await reconciled('open')
  expect(await out('allow me open')).toBe('open admits 203.0.113.0/24, 127.0.0.1/32\n')
  expect(await out('allow list open')).toBe(
    'ADDRESSES       LABEL\n203.0.113.0/24  office\n127.0.0.1/32    espalier allow me\n',
  )
  expect(await out('allow remove 203.0.113.0/24 open')).toBe('open admits 127.0.0.1/32\n')
  expect(await cli.run('allow remove 203.0.113.0/24 open')).toMatchObject({ code: 3 })
})

test('adding a service keeps the other services, and a service can be removed', async () => {
  await cli.run('db create served --wait -q')
  expect(await cli.run('services list served')).toMatchObject({ err: expect.stringContaining('has no services') })
  expect(await cli.run('services get mcp served')).toMatchObject({ code: 3 })
  await out('services add mcp served --allow-me')
  await reconciled('served')
  const configuration = 'db_schemas: public\ndb_anon_role: web\n'
  expect(await cli.run('services add rest served --config -', { piped: configuration })).toMatchObject({ code: 0 })
  await reconciled('served')
  expect(await cli.run('services add rest served --config -', { piped: '- list' })).toMatchObject({ code: 2 })
  expect(await out('services list served')).toMatchInlineSnapshot(`
    "SERVICE  STATE    ALLOWLIST     ADDRESS
    mcp      pending  127.0.0.1/32  -
    rest     pending  closed        -
    "
  `)
  expect(JSON.parse((await cli.run('services get rest served --json')).out)).toMatchObject({
    rest_config: { db_anon_role: 'web' },
  })
  expect(await cli.run('services remove mcp served')).toMatchObject({ code: 2 })
  expect(await out('services remove mcp served --yes')).toBe('mcp of served is being removed\n')
  expect(await out('services list served -q')).toBe('rest\n')
})

test("open prints the URL of the console, or of a database's page", async () => {
  expect(await cli.run('open --print')).toEqual({ code: 0, out: `${cli.url}/console/\n`, err: '' })
  const { id } = JSON.parse((await cli.run('db get open --json')).out)
  const page = { code: 0, out: `${cli.url}/console/databases/${id}\n` }
  expect(await cli.run('open open --print')).toEqual({ ...page, err: '' })
  expect(await cli.run('open none --print')).toMatchObject({ code: 3, out: '' })
})

test('commands use the database in .espalier', async () => {
  const path = join(cli.directory, '.espalier')
  writeFileSync(path, '{"database":"open"}')
  expect(await out('allow list -q')).toBe('127.0.0.1/32\n')
  expect(await cli.run('open --print')).toMatchObject({
    out: expect.stringContaining('/console/databases/'),
    err: `using open, from ${path}\n`,
  })
})

test('rules are compared as blocks', () => {
  const rules = [{ cidr: '203.0.113.7/32', label: 'office' }]
  expect(rulesWith(rules, { cidr: '203.0.113.7' })).toBeUndefined()
  expect(rulesWith(rules, { cidr: '203.0.113.8' })).toHaveLength(2)
  expect(rulesWithout(rules, '203.0.113.7')).toEqual([])
  expect(rulesWithout(rules, '203.0.113.0/24')).toBeUndefined()
})

test('lines that overlap between two pages are printed once, oldest first', () => {
  const entry = (timestamp: string, message: string) => ({ timestamp, message, level: 'LOG', pid: 1, line_num: 1 })
  const printed = new Set<string>()
  const first = [entry('2026-01-01T00:00:02.000Z', 'two'), entry('2026-01-01T00:00:01.000Z', 'one')]
  expect(newEntries(first, printed).map(({ message }) => message)).toEqual(['one', 'two'])
  const second = [entry('2026-01-01T00:00:02.000Z', 'late'), entry('2026-01-01T00:00:02.000Z', 'two')]
  expect(newEntries(second, printed).map(({ message }) => message)).toEqual(['late'])
  expect(newEntries([], printed)).toEqual([])
  expect(newEntries(second, printed)).toEqual([])
})

test('the pause of logs --follow is short after new lines, and grows while the log is quiet', () => {
  expect(nextPauseMs(2000, true)).toBe(1000)
  let pause = 1000
  for (let read = 0; read < 10; read++) {
    const next = nextPauseMs(pause, false)
    expect(next).toBeGreaterThanOrEqual(pause)
    pause = next
  }
  expect(pause).toBe(5000)
  expect(nextPauseMs(pause, true)).toBe(1000)
})

test('--since is a duration or a time', () => {
  const now = Date.parse('2026-01-31T12:00:00Z')
  expect(['30s', '10m', '2h', '1d'].map(text => sinceTime(text, now).slice(0, 19))).toEqual([
    ...['2026-01-31T11:59:30', '2026-01-31T11:50:00', '2026-01-31T10:00:00', '2026-01-30T12:00:00'],
  ])
  expect(sinceTime('2026-01-31T12:00:00+01:00')).toBe('2026-01-31T11:00:00.000Z')
  for (const text of ['yesterday', '10', '2026', '1w']) expect(() => sinceTime(text)).toThrow('It must be like 10m')
})

test('metrics have a line for each column of numbers', () => {
  const series = [
    {
      name: 'connections',
      columns: ['time', 'active', 'idle'],
      values: [
        ['t', 2, null],
        ['u', 5, null],
      ],
    },
  ]
  expect(linesOf(series)).toEqual([{ series: 'connections', column: 'active', last: 5, least: 2, most: 5, mean: 3.5 }])
})
