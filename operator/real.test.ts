/**
 * The operator with real Postgres servers behind the real gateway. In the crash sweep, the operator is killed at a
 * selection of its effects while it creates, opens, restarts and deletes databases, and started again. The data
 * survive, only permitted clients can connect, and the database reaches its requested state. Also tests behaviour that
 * needs a real server: new certificates and new passwords are used.
 */
import { X509Certificate } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { childNames, labels, rotationAnnotations, systemNamespace } from '../crds/index.ts'
import { applicationDatabase, open, sealingKeySecret, secretLocation } from '../sealing/credentials.ts'
import type { Operator } from './index.ts'
import { createAccess } from './member/postgres/access.ts'
import { conditionOf } from './objects/conditions.ts'
import { type CrashPoint, createCrashPoint } from './testing/crash-point.ts'
import {
  editSpec,
  eventually,
  type Installation,
  silent,
  startTestOperator,
  testNamespace,
} from './testing/installation.ts'
import { openRealInstallation } from './testing/real-installation.ts'
import { scenarios } from './testing/scenarios/index.ts'
import { createDatabase } from './testing/scenarios/requests.ts'
import type { Scenario, Subject } from './testing/scenarios/scenario.ts'
import { spread } from './testing/soak.ts'
import { startWitness } from './testing/witness.ts'

const withinMs = 60_000
let installation: Installation
let subjects = 0

beforeAll(async () => {
  installation = await openRealInstallation(40)
})
afterAll(async () => {
  await installation.close()
})

const nextSubject = (): Subject => {
  const number = String(++subjects).padStart(4, '0')
  return {
    name: `real${number}`,
    id: `5e1d${number}-3f0e-4b43-9c0f-0a1b2c3d4e5f`,
    taskId: `1111${number}-2222-4333-8444-555555555555`,
  }
}

const startWith = (crashPoint: CrashPoint = createCrashPoint()): Promise<Operator> => {
  const { authority } = installation
  const access = createAccess({ authority, now: Date.now, logger: silent })
  return startTestOperator(installation, { wrap: crashPoint.cluster, administrator: crashPoint.access(access) })
}

/**
 * Runs `work` with an operator that stops even if the test fails. Two operators at the same time would write
 * conflicting changes.
 */
async function withOperator<T>(work: () => Promise<T>, crashPoint?: CrashPoint): Promise<T> {
  const operator = await startWith(crashPoint)
  try {
    return await work()
  } finally {
    await operator.stop()
  }
}

const get = ({ name }: Subject) => installation.cluster.get('ManagedDatabase', { namespace: testNamespace, name })

async function passwordOf({ id }: Subject): Promise<string> {
  const { cluster } = installation
  const name = childNames.credentials(id)
  const [secret, sealing] = await Promise.all([
    cluster.get('Secret', { namespace: testNamespace, name }),
    cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret }),
  ])
  const key = Buffer.from(sealing?.data?.key ?? '', 'base64')
  const sealed = Buffer.from(secret?.data?.app ?? '', 'base64').toString('utf8')
  return open(key, secretLocation(testNamespace, name, 'app'), sealed)
}

/** Logs in as `app`, like a user's client inside the cluster, and runs a query. */
async function query(subject: Subject, sql: string, given: { password?: string } = {}): Promise<unknown[]> {
  const pod = await installation.cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(subject.id, 1) })
  const client = new pg.Client({
    host: pod?.status?.podIP ?? '',
    user: 'app',
    database: applicationDatabase,
    password: given.password ?? (await passwordOf(subject)),
    ssl: { ca: installation.authority.cert, servername: `${childNames.service(subject.id)}.${testNamespace}.svc` },
  })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query(sql)
  await client.end()
  return rows
}

/** SHA-256 of the certificate that Postgres presents to the operator. */
async function shownCertificate(subject: Subject): Promise<string | undefined> {
  const { authority, cluster } = installation
  const pod = await cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(subject.id, 1) })
  const access = createAccess({ authority, now: Date.now, logger: silent })
  const target = {
    host: pod?.status?.podIP ?? '',
    port: 5432,
    serverName: `${childNames.service(subject.id)}.${testNamespace}.svc`,
    ca: authority.cert,
  }
  const options = { passwords: undefined, commits: false }
  const seen = await access.observe(target, options, AbortSignal.timeout(withinMs))
  return seen.reachable ? seen.certificate : undefined
}

async function prepare(subject: Subject, { before }: Scenario): Promise<void> {
  if (before === undefined) return
  await withOperator(async () => {
    await createDatabase(installation.cluster, { ...subject, taskId: subject.taskId.replace(/^1/, '2') }, before)
    await eventually(
      () => get(subject),
      found => found?.status?.phase === 'available' && found.status.operation === undefined,
      { withinMs },
    )
    await query(subject, 'CREATE TABLE kept AS SELECT 42 AS answer')
  })
}

/** One run of a scenario with a crash after the n-th effect. */
async function crash(scenario: Scenario, after: number): Promise<void> {
  const { cluster } = installation
  const subject = nextSubject()
  await prepare(subject, scenario)
  const witness = await startWitness(cluster, scenario, subject, () => true)
  const crashPoint = createCrashPoint(after)
  const isDone = () => scenario.isDone(cluster, subject)
  await withOperator(async () => {
    await scenario.act(cluster, subject)
    await eventually(
      async () => crashPoint.hasCrashed || (await isDone()),
      over => over,
      { withinMs },
    )
  }, crashPoint)
  await withOperator(async () => {
    await eventually(isDone, done => done, { withinMs })
    const where = `after effect ${after}, ${crashPoint.effects.at(-1)}`
    expect(witness.complaints, where).toEqual([])
    if (scenario.name !== 'delete') {
      const sql = scenario.before ? 'SELECT answer FROM kept' : 'SELECT 42 AS answer'
      expect(await query(subject, sql), where).toEqual([{ answer: 42 }])
    } else await expectNothingRemaining(subject)
    await witness.stop()
    await cluster.delete('ManagedDatabase', { namespace: testNamespace, name: subject.name })
    await eventually(
      () => get(subject),
      found => found === undefined,
      { withinMs },
    )
  })
}

async function expectNothingRemaining({ id }: Subject): Promise<void> {
  for (const kind of ['StatefulSet', 'Pod', 'PersistentVolumeClaim', 'Service', 'ConfigMap', 'Secret'] as const) {
    const { items } = await installation.cluster.list(kind, { labels: { [labels.database]: id } })
    expect(items, kind).toEqual([])
  }
}

const scenarioOf = (name: string): Scenario => {
  const found = scenarios.find(scenario => scenario.name === name)
  if (found === undefined) throw new Error(`there is no scenario ${name}`)
  return found
}

describe('with real Postgres', () => {
  test.each([
    ['create', [6, 12, 15, 18]],
    ['allowlist narrowed', [1]],
    ['size', [3, 5]],
    ['rotation of a password', [2, 4, 5, 6, 7, 8]],
    ['size, while another client deletes the claim', [2, 8]],
    ['size, while another client deletes the volume', [11]],
    ['delete', [3, 8]],
  ])('%s survives crashes at a selection of its effects', async (name, points) => {
    for (const after of spread(points, 2)) await crash(scenarioOf(name), after)
  })
})

describe('new credentials', () => {
  const subject = nextSubject()
  let operator: Operator

  beforeAll(async () => {
    operator = await startWith()
    await createDatabase(installation.cluster, subject, {})
    await eventually(
      () => get(subject),
      found => found?.status?.phase === 'available' && found.status.operation === undefined,
      { withinMs },
    )
  })
  afterAll(() => operator.stop())

  const remove = async (name: string, then: () => Promise<void> = async () => {}) => {
    const key = { namespace: testNamespace, name }
    const before = await installation.cluster.get('Secret', key)
    await installation.cluster.delete('Secret', key)
    await then()
    await eventually(
      () => installation.cluster.get('Secret', key),
      found => found !== undefined && found.metadata.uid !== before?.metadata.uid,
      { withinMs },
    )
  }
  const restarts = async () => {
    const pod = await installation.cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(subject.id, 1) })
    return [pod?.metadata.uid, pod?.status?.containerStatuses?.[0]?.restartCount]
  }

  test('requested new passwords are accepted and the old ones are refused', async () => {
    const old = await passwordOf(subject)
    const { name } = subject
    const isLost = async () => {
      const database = await installation.cluster.get('ManagedDatabase', { namespace: testNamespace, name })
      return conditionOf(database?.status, 'CredentialsReady')?.reason === 'CredentialsLost'
    }
    await remove(childNames.credentials(subject.id), async () => {
      await eventually(isLost, lost => lost, { withinMs })
      await editSpec(installation.cluster, name, spec => spec, { [rotationAnnotations.app]: 'lost' })
    })
    await eventually(
      () => query(subject, 'SELECT 1 AS one').catch(() => []),
      rows => rows.length === 1,
      { withinMs },
    )
    await expect(query(subject, 'SELECT 1', { password: old })).rejects.toThrow(/password authentication failed/)
  })

  test('a new certificate is served without a restart', async () => {
    const before = await restarts()
    await remove(childNames.tls(subject.id))
    const secret = await installation.cluster.get('Secret', {
      namespace: testNamespace,
      name: childNames.tls(subject.id),
    })
    const issued = new X509Certificate(Buffer.from(secret?.data?.['tls.crt'] ?? '', 'base64')).fingerprint256
    await eventually(
      () => shownCertificate(subject),
      shown => shown === issued,
      { withinMs },
    )
    expect(await restarts()).toEqual(before)
  })
})
