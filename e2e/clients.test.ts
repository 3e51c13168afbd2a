/**
 * Clients that are generated from the API's description, in TypeScript and Python. Each manages a database through its
 * life cycle.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkout } from '../embedded/settings.ts'
import { madeOnce, run } from '../services/testing/made-once.ts'
import { pythonLibrary } from '../services/testing/python-package.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

const execute = promisify(execFile)
const besides = (name: string) => fileURLToPath(new URL(`clients/${name}`, import.meta.url))
const bare = { PATH: process.env.PATH, HOME: process.env.HOME }

/** The generator and the client library of e2e/clients/package.json; undefined if they are not installed. */
function typescriptPackages(): string | undefined {
  const lock = readFileSync(besides('package-lock.json'))
  const name = `generated-client-${createHash('sha256').update(lock).digest('hex').slice(0, 16)}`
  return madeOnce(name, making => {
    const installed = join(making, 'installed')
    mkdirSync(installed)
    for (const file of ['package.json', 'package-lock.json', '.npmrc']) cpSync(besides(file), join(installed, file))
    return run('npm', ['ci', '--prefix', installed, '--prefer-offline']) ? installed : undefined
  })
}

const packages = typescriptPackages()
const generator = pythonLibrary('openapi-python-client', '0.29.1')

let provider: Provider
let scratch: string
let environment: Record<string, string | undefined>
beforeAll(async () => {
  if (packages === undefined && generator === undefined) return
  provider = await startProvider()
  scratch = await mkdtemp(join(tmpdir(), 'espalier-generated-'))
  const description = await fetch(`${provider.api}/managed/v1/openapi.json`)
  await writeFile(join(scratch, 'openapi.json'), await description.text())
  environment = { ...bare, API: provider.api, TOKEN: await provider.token() }
})
afterAll(async () => {
  await provider?.stop()
  if (scratch !== undefined) await rm(scratch, { recursive: true, force: true })
})

const lifetime = {
  created: 'available',
  year: true,
  listed: true,
  user: 'app',
  refused: [400, expect.stringMatching(/^region: /)],
  deleted: [204, 404],
}

/** A user's program with the types. `@ts-expect-error` marks the lines where the compiler must report an error. */
const program = `
import createClient from 'openapi-fetch'
import type { components, paths } from './schema.ts'

type Schemas = components['schemas']
const client = createClient<paths>({
  baseUrl: process.env.API ?? '',
  headers: { authorization: 'Bearer ' + process.env.TOKEN },
})
const header = { Prefer: 'wait=60' }
const rules: Schemas['IPAllowlistRule'][] = [{ cidr: '127.0.0.1', label: 'this machine' }]

const wanted: Schemas['CreateManagedDatabaseInput'] = {
  name: 'fromtypescript', region: 'local', size: 'nano', pg_version: '17', ip_allowlist: { rules },
}
const { data: made } = await client.POST('/managed/v1/databases', { body: wanted, params: { header } })
if (made === undefined) throw new Error('nothing was made')
const { data: listed = [] } = await client.GET('/managed/v1/databases', { params: { query: { limit: 10, descending: true } } })
const params = { path: { id: made.id }, header }
const { data: read } = await client.GET('/managed/v1/databases/{id}', { params: { ...params, query: { user_type: 'application' } } })
if (read === undefined) throw new Error('nothing was read')

// Sends the allowlist back with one more rule.
const ip_allowlist = { ...read.ip_allowlist, rules: [...read.ip_allowlist.rules, { cidr: '192.0.2.0/24' }] }
const { data: changed } = await client.PATCH('/managed/v1/databases/{id}', { params, body: { display_name: 'From TypeScript', ip_allowlist } })
const { error: refused } = await client.POST('/managed/v1/databases', { body: { name: 'other', region: 'nowhere', size: 'nano' } })
const deleted = await client.DELETE('/managed/v1/databases/{id}', { params })
const gone = await client.GET('/managed/v1/databases/{id}', { params })
console.log(JSON.stringify({
  created: made.status, year: new Date(made.created_at).getFullYear() >= 2026, listed: listed.some(({ id }) => id === made.id),
  user: read.connection?.username, changed: [changed?.display_name, changed?.ip_allowlist.rules.map(({ cidr }) => cidr)],
  refused: [refused?.code, refused?.message], deleted: [deleted.response.status, gone.response.status],
}))

// A field with a default can be omitted, and each type of service has its own configuration.
const rest: Schemas['ServiceConfigInput'] = { service_type: 'rest', rest_config: { db_schemas: 'public', db_anon_role: 'web' } }
// @ts-expect-error
const wrong: Schemas['ServiceConfigInput'] = { service_type: 'rest', mcp_config: {} }
// @ts-expect-error
const incomplete: Schemas['CreateManagedDatabaseInput'] = { name: 'other', region: 'local' }
// A status of a later version is not an error for today's client.
const status: Schemas['ManagedDatabase']['status'] = 'a status of tomorrow'
`

if (packages === undefined) test.skip('generated clients: need the npm packages of e2e/clients', () => {})
else
  test.concurrent('a client that openapi-typescript generates type-checks, and works', async () => {
    const folder = join(scratch, 'typescript')
    await mkdir(folder)
    await symlink(join(packages, 'node_modules'), join(folder, 'node_modules'))
    const cli = join(packages, 'node_modules/openapi-typescript/bin/cli.js')
    await execute(process.execPath, [cli, join(scratch, 'openapi.json'), '--output', join(folder, 'schema.ts')])
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    await writeFile(join(folder, 'program.ts'), program)
    const options = {
      ...{ strict: true, noEmit: true, module: 'nodenext', target: 'es2024', types: ['node'], skipLibCheck: true },
      ...{ allowImportingTsExtensions: true, typeRoots: [join(checkout, 'node_modules/@types')] },
    }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['program.ts'] }))
    const compiler = join(checkout, 'node_modules/typescript/bin/tsc')
    const checked = await execute(process.execPath, [compiler, '--project', folder]).catch(({ stdout }) => ({ stdout }))
    expect(checked.stdout).toBe('')
    const { stdout } = await execute(process.execPath, [join(folder, 'program.ts')], { env: environment })
    const changed = ['From TypeScript', ['127.0.0.1/32', '192.0.2.0/24']]
    expect(JSON.parse(stdout)).toEqual({ ...lifetime, changed })
  }, 180_000)

if (generator === undefined) test.skip('generated clients: need the Python package openapi-python-client', () => {})
else
  test.concurrent('a client that openapi-python-client generates works, complete except for what is not JSON', async () => {
    const folder = join(scratch, 'python')
    await writeFile(join(scratch, 'python.yaml'), 'post_hooks: []\n')
    const args = [
      '--path',
      join(scratch, 'openapi.json'),
      '--output-path',
      folder,
      '--config',
      join(scratch, 'python.yaml'),
    ]
    const generated = await execute('python3', ['-m', 'openapi_python_client', 'generate', ...args], {
      env: { ...bare, PYTHONPATH: generator },
    })
    const warnings = [...`${generated.stdout}${generated.stderr}`.matchAll(/^WARNING parsing (.+)$/gm)]
    expect(warnings.map(([, what]) => what).toSorted()).toEqual([
      'GET /managed/v1/ca.pem within service.',
      'POST /managed/v1/databases/{id}/branches/{branch_id}/sql within branches.',
      'POST /managed/v1/databases/{id}/sql within databases.',
    ])
    await copyFile(besides('lifetime.py'), join(folder, 'lifetime.py'))
    const { stdout } = await execute('python3', [join(folder, 'lifetime.py')], {
      env: { ...environment, PYTHONPATH: `${generator}:${folder}`, PYTHONDONTWRITEBYTECODE: '1' },
    })
    const changed = ['From Python', ['127.0.0.1/32', '192.0.2.0/24']]
    expect(JSON.parse(stdout)).toEqual({ ...lifetime, changed })
  }, 180_000)
