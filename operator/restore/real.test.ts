/**
 * Restores with real Postgres servers. The operator is killed after various actions and started again; each time the
 * database ends with the backed-up data, at the same address with the same password.
 */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { annotations, childNames, labels, renderRequestedRestore, systemNamespace } from '../../crds/index.ts'
import { applicationDatabase, open, sealingKeySecret, secretLocation } from '../../sealing/credentials.ts'
import type { Operator } from '../index.ts'
import { createAccess } from '../member/postgres/access.ts'
import { type CrashPoint, createCrashPoint } from '../testing/crash-point.ts'
import {
  backupDraft,
  databaseDraft,
  editSpec,
  eventually,
  giveSnapshots,
  type Installation,
  silent,
  startTestOperator,
  testNamespace,
} from '../testing/installation.ts'
import { openRealInstallation } from '../testing/real-installation.ts'
import { spread } from '../testing/soak.ts'

const withinMs = 90_000
let installation: Installation
let operator: Operator | undefined
beforeAll(async () => {
  installation = await openRealInstallation(4)
  await giveSnapshots(installation.cluster)
})
afterAll(async () => {
  await operator?.stop()
  await installation.close()
})

const at = (name: string) => ({ namespace: testNamespace, name })
const start = async (crashPoint: CrashPoint = createCrashPoint()) => {
  const access = createAccess({ authority: installation.authority, now: Date.now, logger: silent })
  operator = await startTestOperator(installation, {
    wrap: crashPoint.cluster,
    administrator: crashPoint.access(access),
  })
}
const database = () => installation.cluster.get('ManagedDatabase', at('one'))
const untilReconciled = () =>
  eventually(database, found => found?.status?.phase === 'available' && found.status.operation === undefined, {
    withinMs,
  })

/** As a user's client, through the gateway, with the password that the API returns. */
async function query(sql: string): Promise<unknown[]> {
  const { cluster, authority } = installation
  const { metadata, status } = (await database()) ?? {}
  const name = childNames.credentials(metadata?.labels?.[labels.id] ?? '')
  const sealing = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  const secret = await cluster.get('Secret', at(name))
  const sealed = Buffer.from(secret?.data?.app ?? '', 'base64').toString('utf8')
  const key = Buffer.from(sealing?.data?.key ?? '', 'base64')
  const client = new pg.Client({
    host: '127.0.0.1',
    port: status?.endpoint?.port ?? 0,
    user: 'app',
    database: applicationDatabase,
    password: open(key, secretLocation(testNamespace, name, 'app'), sealed),
    ssl: { ca: authority.cert },
  })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

test('complete wherever the operator is killed', async () => {
  const { cluster } = installation
  await start()
  await cluster.create('ManagedDatabase', databaseDraft('one', { ipAllowlist: { rules: [{ cidr: '127.0.0.1' }] } }))
  const made = await untilReconciled()
  const port = made?.status?.endpoint?.port
  await query("CREATE TABLE fruit AS SELECT 'pear' AS name")
  const id = made?.metadata.labels?.[labels.id] ?? ''
  await cluster.create('Backup', backupDraft('one-1', { name: 'one', id }))
  await eventually(
    () => cluster.get('Backup', at('one-1')),
    found => found?.status?.phase === 'completed',
    { withinMs },
  )
  for (const after of spread([2, 5, 8, 11, 14, 17, 20], 3, 1)) {
    await query(`DROP TABLE fruit; CREATE TABLE mistake_${after} (n int)`)
    await operator?.stop()
    const crashPoint = createCrashPoint(after)
    await start(crashPoint)
    const restore = renderRequestedRestore({ name: `back-${after}`, backupName: 'one-1' })
    await editSpec(cluster, 'one', spec => spec, { [annotations.restore]: restore })
    const ended = async () => (await cluster.get('Restore', at(`back-${after}`)))?.status?.finishedAt !== undefined
    await eventually(
      async () => crashPoint.hasCrashed || (await ended()),
      over => over,
      { withinMs },
    )
    expect(crashPoint.hasCrashed, `${crashPoint.effects.length} effects`).toBe(true)
    await operator?.stop()
    await start()
    const done = await eventually(
      () => cluster.get('Restore', at(`back-${after}`)),
      found => found?.status?.finishedAt !== undefined,
      { withinMs },
    )
    const where = `after effect ${after}, ${crashPoint.effects.at(-1)}`
    expect([done?.status?.phase, done?.status?.error], where).toEqual(['completed', undefined])
    expect((await untilReconciled())?.status?.endpoint?.port, where).toBe(port)
    expect(await query('TABLE fruit'), where).toEqual([{ name: 'pear' }])
    expect(await query(`SELECT to_regclass('mistake_${after}') AS found`), where).toEqual([{ found: null }])
    const { anchor = '' } = done?.status ?? {}
    expect((await cluster.get('Backup', at(anchor)))?.status?.phase, where).toBe('completed')
    await eventually(
      async () => (await cluster.list('StatefulSet', { labels: { [labels.database]: id } })).items.length,
      count => count === 1,
      { withinMs },
    )
  }
}, 600_000)
