import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Cli, golden, startCli } from '../testing/cli.ts'

let cli: Cli
beforeAll(async () => {
  cli = await startCli()
})
afterAll(() => cli?.close())

test('an account without databases gets a hint, and an empty list as JSON', async () => {
  expect(await cli.run('db list')).toEqual({ code: 0, out: '', err: 'No databases yet: espalier db create NAME\n' })
  expect(await cli.run('db list --json')).toEqual({ code: 0, out: '[]\n', err: '' })
  expect(await cli.run('db list --quiet')).toEqual({ code: 0, out: '', err: '' })
})

test('creates, lists, shows and deletes a database', async () => {
  expect(await cli.run('db create shop --allow-me --wait')).toEqual({
    code: 0,
    out: 'shop is available\n',
    err: 'shop is creating\nConnect: espalier connect shop\n',
  })
  const { out } = await cli.run('db list')
  expect(golden(out)).toMatchInlineSnapshot(`
    "NAME  STATUS     SIZE   STORAGE  BRANCHES  POSTGRES  REGION  CREATED
    shop  available  small  4.0 KiB         0  18        local   AGO
    "
  `)
  expect(await cli.run('db ls -q')).toMatchObject({ out: 'shop\n' })
  expect(golden((await cli.run('db get shop')).out)).toMatchInlineSnapshot(`
    "name          shop
    status        available
    id            ID
    size          small
    region        local
    postgres      18
    storage used  4.0 KiB
    branches      0
    allowlist     127.0.0.1/32
    host          127.0.0.1
    port          15432
    created       TIME
    "
  `)
  const { out: json } = await cli.run('db get shop --json')
  expect(JSON.parse(json)).toMatchObject({ name: 'shop', ip_allowlist: { rules: [{ cidr: '127.0.0.1/32' }] } })
  expect(await cli.run('db delete shop')).toEqual({
    code: 2,
    out: '',
    err: 'espalier db: cannot ask for confirmation, because standard input is not a terminal: use --yes\n',
  })
  expect(await cli.run('db delete shop', { typed: 'shoe\n' })).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^This deletes the data of shop\. Its backups .*nothing was changed\n$/s),
  })
  expect(await cli.run('db delete shop', { typed: 'shop\n' })).toMatchObject({
    code: 0,
    out: 'shop is being deleted\n',
  })
})

test('each failure has its exit code and a message', async () => {
  expect(await cli.run('db get none')).toMatchObject({
    code: 3,
    err: expect.stringMatching(/^espalier db: there is no database "none": .*\n$/),
  })
  expect(await cli.run('db get')).toMatchObject({ code: 2, err: expect.stringContaining('name a database') })
  expect(await cli.run('db lst')).toMatchObject({
    code: 2,
    err: "espalier db: unknown command 'lst' (Did you mean one of list, ls?)\n",
  })
  expect(await cli.run('db list --jsn')).toMatchObject({
    code: 2,
    err: "espalier db: unknown option '--jsn' (Did you mean --json?)\n",
  })
  expect(await cli.run('db')).toMatchObject({ code: 2 })
  expect(await cli.run('db create Shop!')).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^espalier db: <name>: must begin with [^\n]*\n$/),
  })
  for (const option of ['--json', '--verbose'])
    expect((await cli.run(`db create Shop! ${option}`)).err).toMatch(
      /^espalier db: <name>: must .*\nrequest: POST .databases; status: 400\n$/,
    )
  expect(await cli.run('db list', { environment: { ESPALIER_TOKEN: 'wrong' } })).toMatchObject({
    code: 4,
    err: expect.stringContaining('run espalier login to store a token'),
  })
  expect(await cli.run('db list', { environment: { ESPALIER_API_URL: 'http://127.0.0.1:1' } })).toMatchObject({
    code: 1,
    err: expect.stringContaining('cannot reach the API'),
  })
})
