import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Cli, golden, startCli } from '../testing/cli.ts'

let cli: Cli
beforeAll(async () => {
  cli = await startCli()
  await cli.run('db create shop --wait -q')
})
afterAll(() => cli?.close())

test('creates a branch, uses it in the folder, and deletes it', async () => {
  expect(await cli.run('branch list shop')).toMatchObject({ out: '', err: expect.stringContaining('no branches yet') })
  const created = await cli.run('branch create Preview -d shop --wait -q')
  expect(created).toMatchObject({ code: 0, out: expect.stringMatching(/^shop-[0-9a-f]{8}\n$/), err: '' })
  const name = created.out.trim()
  expect(await cli.run('branch checkout Preview --database shop')).toMatchObject({
    code: 0,
    out: `wrote ${join(cli.directory, '.espalier')}: commands in this folder use ${name}\n`,
  })
  expect(readFileSync(join(cli.directory, '.espalier'), 'utf8')).toBe(`{"database":"shop","branch":"${name}"}\n`)
  // Commands now use the database in `.espalier`, and print its name.
  const path = join(cli.directory, '.espalier')
  for (const line of ['branch list', 'allow list'])
    expect((await cli.run(line)).err.startsWith(`using shop, from ${path}\n`)).toBe(true)
  expect((await cli.run('env')).err.startsWith(`using shop (${name}), from ${path}\n`)).toBe(true)
  for (const line of ['branch list -q', 'branch list --json', 'branch list shop', 'branch list -d shop'])
    expect((await cli.run(line)).err).not.toContain('using')
  expect(golden((await cli.run('branch list')).out)).toMatchInlineSnapshot(`
    "   NAME           DISPLAY NAME  STATUS     COPY OF  CREATED  EXPIRES
    *  shop-XXXXXXXX  Preview       available  shop     AGO   -
    "
  `)
  expect(JSON.parse((await cli.run('branch list --json')).out)).toMatchObject([{ name, display_name: 'Preview' }])
  expect((await cli.run('tasks')).out).toMatch(new RegExp(`^create-branch +branch ${name} `, 'm'))
  const nested = await cli.run(['branch', 'create', 'Of it', '--from', 'Preview', '-q', '--wait'])
  expect(nested.code).toBe(0)
  expect((await cli.run('branch checkout')).out).toContain('use shop\n')
  expect(await cli.run(`branch delete ${nested.out.trim()} --yes`)).toMatchObject({
    code: 0,
    out: `${nested.out.trim()} is being deleted\n`,
  })
  expect(await cli.run('db delete shop --yes')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/shop has (a branch|2 branches): delete (it|them) first, or add --force/),
  })
  expect(await cli.run('branch delete none')).toMatchObject({
    code: 3,
    err: expect.stringContaining('there is no branch "none"'),
  })
})

test('a new branch is shown with its names, its id and the next step', async () => {
  await cli.run('db create open --allow-me --wait -q')
  const { out, err } = await cli.run('branch create Review -d open --wait')
  const [, name = '', id] = /^Review is available: name (open-[0-9a-f]{8}), id ([0-9a-f-]{36})\n$/.exec(out) ?? []
  expect(err).toContain(`\nConnect: espalier connect open --branch ${name}\n`)
  const json = JSON.parse((await cli.run('branch create Review -d open --wait --json')).out)
  expect(json).toMatchObject({ display_name: 'Review', name: expect.stringMatching(/^open-/), status: 'available' })
  expect((await cli.run('branch create -d open')).out).toMatch(/^open-[0-9a-f]{8} is \w+: id [0-9a-f-]{36}\n$/)
  // Two branches now have this display name: no command chooses one of them.
  for (const line of ['env open -b Review', 'branch delete Review -d open --yes', 'branch checkout Review -d open']) {
    const refused = await cli.run(line)
    expect(refused).toMatchObject({ code: 2, out: '' })
    for (const one of [id, name, json.id, json.name]) expect(refused.err).toContain(one)
  }
  expect((await cli.run(`branch delete ${id} -d open --yes`)).code).toBe(0)
  await cli.run('db create closed --wait -q')
  expect((await cli.run('branch create x -d closed --wait')).err).toContain('No address may connect to the branch')
})

test("if the folder's database or branch was deleted, the error names the file", async () => {
  const path = join(cli.directory, '.espalier')
  writeFileSync(path, '{"database":"shop","branch":"gone"}')
  const hint = `(the name is from ${path}; to change the file: espalier branch checkout --database NAME)\n`
  expect(await cli.run('env')).toMatchObject({ code: 3, err: expect.stringContaining('there is no branch "gone"') })
  expect((await cli.run('env')).err.endsWith(hint)).toBe(true)
  expect((await cli.run('env --branch none')).err).not.toContain('the name is from')
  for (const line of ['branch list', 'db get', 'tasks']) expect(await cli.run(line)).toMatchObject({ code: 0 })
  expect((await cli.run('branch checkout')).out).toContain('use shop\n')
  expect((await cli.run('branch list')).out).not.toContain('*')
  writeFileSync(path, '{"database":"gone"}')
  expect((await cli.run('allow list')).err.endsWith(hint)).toBe(true)
})

test('env prints shell variables for the database of the folder', async () => {
  writeFileSync(join(cli.directory, '.espalier'), '{"database":"shop"}')
  const { code, out } = await cli.run('env')
  expect(code).toBe(0)
  const file = /^export PGSSLROOTCERT=(.*)$/m.exec(out)?.[1] ?? ''
  expect(out.replaceAll(file, 'FILE').replaceAll(encodeURIComponent(file), 'FILE')).toMatchInlineSnapshot(`
    "export DATABASE_URL='postgresql://app:password-of-app@127.0.0.1:15432/app?sslmode=verify-full&sslrootcert=FILE'
    export PGHOST=127.0.0.1
    export PGPORT=15432
    export PGUSER=app
    export PGPASSWORD=password-of-app
    export PGDATABASE=app
    export PGSSLMODE=verify-full
    export PGSSLROOTCERT=FILE
    "
  `)
  expect((await cli.run('env --no-export --role admin')).out).toMatch(/^PGUSER=admin$/m)
  expect(JSON.parse((await cli.run('env --json')).out)).toMatchObject({ PGUSER: 'app', PGSSLMODE: 'verify-full' })
  expect(await cli.run('env --role postgres')).toMatchObject({
    code: 2,
    err: expect.stringContaining('app, admin, app_read_only'),
  })
})
