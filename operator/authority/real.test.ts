/**
 * An authority is replaced with real Postgres servers. Open sessions continue. A client that verifies everything and
 * trusts both authorities can always connect. No server is restarted. In the end the old authority's certificates are
 * refused.
 */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { childNames, labels, type PgVersion, systemNamespace } from '../../crds/index.ts'
import {
  applicationDatabase,
  authoritySecret,
  authorityStateSecret,
  nextAuthoritySecret,
  open,
  sealingKeySecret,
  secretLocation,
} from '../../sealing/credentials.ts'
import type { Operator } from '../index.ts'
import { authorityOf } from '../keys.ts'
import { createAccess } from '../member/postgres/access.ts'
import { createAuthority } from '../pki/index.ts'
import { postgresPort } from '../postgres/configuration.ts'
import {
  databaseDraft,
  eventually,
  type Installation,
  silent,
  startTestOperator,
  testNamespace,
} from '../testing/installation.ts'
import { openRealInstallation } from '../testing/real-installation.ts'
import { readState } from './state.ts'

const withinMs = 90_000
const sessionsEach = 10
const versions: PgVersion[] = ['16', '17', '18']
const nextAuthority = createAuthority()
const nameOf = (version: PgVersion) => `on${version}`

let installation: Installation
let operator: Operator

beforeAll(async () => {
  installation = await openRealInstallation(5)
  operator = await startTestOperator(installation, {
    configuration: { authority: { announceMs: 1_000, settleMs: 1_000, lookMs: 50 } },
  })
  for (const version of versions)
    await installation.cluster.create('ManagedDatabase', databaseDraft(nameOf(version), { pgVersion: version }))
  for (const version of versions)
    await eventually(
      () => databaseOf(version),
      found => found?.status?.phase === 'available',
      { withinMs },
    )
})
afterAll(async () => {
  await operator?.stop()
  await installation?.close()
})

const databaseOf = (version: PgVersion) =>
  installation.cluster.get('ManagedDatabase', { namespace: testNamespace, name: nameOf(version) })
const secret = (name: string) => installation.cluster.get('Secret', { namespace: systemNamespace, name })

type Target = { id: string; password: string; host: string; servername: string }

async function targetOf(version: PgVersion): Promise<Target> {
  const { cluster } = installation
  const id = (await databaseOf(version))?.metadata.labels?.[labels.id] ?? ''
  const name = childNames.credentials(id)
  const sealing = Buffer.from((await secret(sealingKeySecret))?.data?.key ?? '', 'base64')
  const credentials = await cluster.get('Secret', { namespace: testNamespace, name })
  const sealed = Buffer.from(credentials?.data?.app ?? '', 'base64').toString('utf8')
  const pod = await cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(id, 1) })
  return {
    id,
    password: open(sealing, secretLocation(testNamespace, name, 'app'), sealed),
    host: pod?.status?.podIP ?? '',
    servername: `${childNames.service(id)}.${testNamespace}.svc`,
  }
}

/** Connects like `sslmode=verify-full` with these root certificates. */
async function connect({ host, password, servername }: Target, ca: string): Promise<pg.Client> {
  const client = new pg.Client({
    ...{ host, password, user: 'app', database: applicationDatabase },
    ssl: { ca, servername },
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

const runOf = async ({ id }: Target) => {
  const pod = await installation.cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(id, 1) })
  return [pod?.metadata.uid, pod?.status?.containerStatuses?.[0]?.restartCount]
}

describe('with real Postgres', () => {
  test('a rotation ends no session, refuses no client that trusts both authorities, restarts nothing and removes the old authority', async () => {
    const old = authorityOf(await secret(authoritySecret))
    if (old === undefined) throw new Error('no authority')
    const both = `${old.cert}${nextAuthority.cert}`
    const targets = await Promise.all(versions.map(targetOf))
    const runs = await Promise.all(targets.map(runOf))
    const sessions = await Promise.all(
      targets.flatMap(target => Array.from({ length: sessionsEach }, () => connect(target, old.cert))),
    )
    const pids = await Promise.all(sessions.map(backendOf))

    let isOver = false
    let connected = 0
    const shown = new Set<string>()
    const reconnecting = targets.map(async target => {
      // On a slow machine the client connects only a few times while the rotation runs. The other connections follow
      // after it.
      while (!isOver || connected <= sessionsEach) {
        const client = await connect(target, both)
        await client.query('SELECT 1')
        await client.end()
        connected++
        shown.add(await issuerOf(target, both))
      }
    })
    await installation.cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: systemNamespace, name: nextAuthoritySecret },
      data: {
        'tls.crt': Buffer.from(nextAuthority.cert).toString('base64'),
        'tls.key': Buffer.from(nextAuthority.key).toString('base64'),
      },
    })
    const rotated = eventually(
      async () => ({ given: authorityOf(await secret(authoritySecret)), next: await secret(nextAuthoritySecret) }),
      ({ given, next }) => given?.cert === nextAuthority.cert && next === undefined,
      { withinMs, everyMs: 50 },
    )
    await Promise.race([rotated, Promise.all(reconnecting)])
    await rotated
    isOver = true
    await Promise.all(reconnecting)

    expect(connected).toBeGreaterThan(sessionsEach)
    expect(shown).toEqual(new Set(['old', 'new']))
    expect(readState(await secret(authorityStateSecret))?.authorities).toHaveLength(1)
    expect(await Promise.all(sessions.map(backendOf)), 'no session was ended').toEqual(pids)
    await Promise.all(sessions.map(session => session.end()))
    expect(await Promise.all(targets.map(runOf)), 'nothing was restarted').toEqual(runs)
    for (const entry of targets) {
      const { host, servername } = entry
      await expect(connect(entry, old.cert)).rejects.toThrow(/certificate/)
      const target = { host, port: postgresPort, serverName: servername, ca: both }
      const observe = (authority: typeof old) =>
        createAccess({ authority, now: Date.now, logger: silent }).observe(
          target,
          { passwords: undefined, commits: false },
          AbortSignal.timeout(10_000),
        )
      expect(await observe(old)).toMatchObject({ reachable: false })
      expect(await observe(nextAuthority)).toMatchObject({ reachable: true })
    }
  })

  const backendOf = async (client: pg.Client): Promise<number> => {
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
    return rows[0].pid
  }

  /**
   * Which of the two authorities signed the server's certificate. A client that trusts only that authority can connect.
   */
  const issuerOf = async (target: Target, both: string): Promise<'old' | 'new'> => {
    try {
      const client = await connect(target, nextAuthority.cert)
      await client.end()
      return 'new'
    } catch {
      const client = await connect(target, both)
      await client.end()
      return 'old'
    }
  }
})
