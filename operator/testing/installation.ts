/**
 * A complete installation in memory for tests and benchmarks. Store and operator are real; workload, Postgres and
 * gateway are fakes. A test can stop, crash and start the operator while the rest runs.
 */
import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { type Cluster, type Draft, isClusterError } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import {
  apiVersion,
  type Backup,
  declarations,
  labels,
  type ManagedDatabase,
  type SizeShape,
  systemNamespace,
  type Tenant,
  tenantName,
} from '../../crds/index.ts'
import { openStore } from '../../embedded/store/index.ts'
import { authoritySecret, sealingKeySecret } from '../../sealing/credentials.ts'
import type { ArchiveWays } from '../archive/ways.ts'
import { type Operator, type OperatorConfiguration, operatorConfiguration, startOperator } from '../index.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { createAuthority } from '../pki/index.ts'
import { createFakeArchive } from './fake-archive.ts'
import { type FakeDeployments, startFakeDeployments } from './fake-deployments.ts'
import { type FakeGateway, startFakeGateway } from './fake-gateway.ts'
import { type FakeImporter, startFakeImporter } from './fake-importer.ts'
import { type FakeWorkload, startFakeWorkload } from './fake-workload.ts'
import { smallShape } from './samples.ts'

export const testNamespace = 'databases'
const testRegion = 'here'
const testPorts = { first: 20000, last: 29999 }

/** A format that a user may write. The API server stores `1`. */
const testShape: SizeShape = { ...smallShape, cpuLimit: '1000m' }

export const testConfiguration: OperatorConfiguration = operatorConfiguration.parse({
  images: { postgres: { 16: 'postgres:16', 17: 'postgres:17', 18: 'postgres:18' } },
  leaderElection: false,
  // At any time of day.
  backups: { schedules: false },
})

export const silent = pino({ level: process.env.ESPALIER_TEST_LOG ?? 'silent' })

const namespaceDraft = (name: string): Draft<'Namespace'> => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name },
})

const keyDraft = (name: string, values: Record<string, string | Uint8Array>): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  metadata: { name, namespace: systemNamespace },
  data: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])),
})

export const sizeDraft = (name: string, shape: Partial<SizeShape> = {}): Draft<'Size'> => ({
  apiVersion,
  kind: 'Size',
  metadata: { name: `${name}-v1` },
  spec: {
    id: '00000000-0000-4000-8000-000000000000',
    name,
    version: 1,
    displayName: name,
    shape: { ...testShape, ...shape },
    status: 'active',
  },
})

export const regionDraft = (ports = testPorts): Draft<'Region'> => ({
  apiVersion,
  kind: 'Region',
  metadata: { name: testRegion },
  spec: {
    domain: 'db.test',
    gateway: { host: '127.0.0.1', externalIpAddress: '127.0.0.1', ports, https: { port: 443 } },
  },
})

/** A database as `kubectl apply` sends it. `id`: the label that the API would set. */
export function databaseDraft(
  name: string,
  spec: Partial<ManagedDatabase['spec']> = {},
  id?: string,
): Draft<'ManagedDatabase'> {
  return {
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { name, namespace: testNamespace, ...(id === undefined ? {} : { labels: { [labels.id]: id } }) },
    spec: { region: testRegion, size: { name: 'small', version: 1 }, pgVersion: '18', ...spec },
  }
}

export const tenantDraft = (tenantId: string): Draft<'Tenant'> => ({
  apiVersion,
  kind: 'Tenant',
  metadata: { name: tenantName(tenantId) },
  spec: { tenantId } as Tenant['spec'], // the rest has defaults
})

/** Enables snapshots for the region's volumes. By default each is of one instant. */
export async function giveSnapshots(cluster: Cluster, atomic = true): Promise<void> {
  const snapshotClass = { name: 'fast', atomic }
  for (;;) {
    const region = await cluster.get('Region', { name: testRegion })
    if (region === undefined) throw new Error('there is no region')
    try {
      await cluster.replace('Region', { ...region, spec: { ...region.spec, snapshotClass } })
      return
    } catch (error) {
      // The operator may write the status of regions at the same time.
      if (!isClusterError(error, 'Conflict')) throw error
    }
  }
}

/** A backup as `kubectl apply` sends it. `id`: the label that the API would set. */
export function backupDraft(
  name: string,
  database: { name: string; id: string },
  spec: Partial<Backup['spec']> = {},
  id?: string,
): Draft<'Backup'> {
  return {
    apiVersion,
    kind: 'Backup',
    metadata: { name, namespace: testNamespace, ...(id === undefined ? {} : { labels: { [labels.id]: id } }) },
    spec: { databaseName: database.name, databaseId: database.id, kind: 'hot', ...spec },
  }
}

/** Computed once, because it takes longer than the rest of an installation. */
const definitions = Object.values(declarations).map(definitionOf)

/** For an installation with an archive. */
export const withArchive: Partial<OperatorConfiguration> = {
  pods: { ...testConfiguration.pods, archive: { url: 'https://espalier-archive.espalier-system.svc:8443' } },
  archiving: { lookMs: 20 },
}

/** Starts everything except the operator. */
export async function openInstallation({ fakes = true, ports = testPorts } = {}) {
  const store = await openStore({ definitions, logger: silent })
  const cluster = store.connect('test')
  for (const name of [systemNamespace, testNamespace]) await cluster.create('Namespace', namespaceDraft(name))
  const authority = createAuthority()
  await Promise.all([
    cluster.create('Secret', keyDraft(sealingKeySecret, { key: randomBytes(32) })),
    cluster.create('Secret', keyDraft(authoritySecret, { 'tls.crt': authority.cert, 'tls.key': authority.key })),
    cluster.create('Size', sizeDraft('small')),
    cluster.create('Size', sizeDraft('large', { memoryLimit: '512Mi', storageSize: '2Gi' })),
    cluster.create('Region', regionDraft(ports)),
  ])
  const workload: FakeWorkload | undefined = fakes
    ? await startFakeWorkload({ cluster: store.connect('fake-workload'), logger: silent })
    : undefined
  const deployments: FakeDeployments | undefined = fakes
    ? await startFakeDeployments({ cluster: store.connect('fake-deployments'), logger: silent })
    : undefined
  const importer: FakeImporter | undefined = fakes ? await startFakeImporter(store.connect('fake-importer')) : undefined
  const gateway: FakeGateway | undefined = fakes
    ? await startFakeGateway({ cluster: store.connect('fake-gateway'), logger: silent })
    : undefined
  return {
    store,
    cluster,
    workload,
    deployments,
    gateway,
    archive: fakes ? createFakeArchive() : undefined,
    importer,
    authority,
    close: async () => {
      await workload?.stop()
      await deployments?.stop()
      await gateway?.stop()
      await importer?.stop()
      await store.close()
    },
  }
}

export type Installation = Awaited<ReturnType<typeof openInstallation>>

export async function startTestOperator(
  { store, workload, archive: fake }: Pick<Installation, 'store' | 'workload'> & Partial<Pick<Installation, 'archive'>>,
  options: {
    wrap?: (cluster: Cluster) => Cluster
    administrator?: PostgresAccess
    archive?: ArchiveWays
    configuration?: Partial<OperatorConfiguration>
    now?: () => number
    machine?: Parameters<typeof startOperator>[0]['machine']
  } = {},
): Promise<Operator> {
  const { wrap = cluster => cluster, administrator = workload?.postgres.access, archive = fake?.ways } = options
  const { configuration, now, machine } = options
  const own = store.connect('espalier-operator')
  return startOperator({
    cluster: wrap(workload?.volumes.admitting(own) ?? own),
    configuration: { ...testConfiguration, ...configuration },
    identity: 'test',
    logger: silent,
    ...(administrator === undefined ? {} : { administrator }),
    ...(archive === undefined ? {} : { archive }),
    ...(now === undefined ? {} : { now }),
    // If a test sets the clock, time has passed.
    machine: machine ?? (() => ({ wall: 0, elapsed: 0, boot: 'test' })),
  })
}

/**
 * Waits until `isExpected` accepts the result of `read`, or until `read` returns true. Calls `read` at once and then
 * often, up to a deadline.
 */
export async function eventually<T>(
  read: () => Promise<T> | T,
  isExpected: (value: T) => boolean = value => value === true,
  { withinMs = 10_000, everyMs = 5 } = {},
): Promise<T> {
  const until = Date.now() + withinMs
  for (;;) {
    const value = await read()
    if (isExpected(value)) return value
    if (Date.now() > until)
      throw new Error(`did not happen within ${withinMs} ms; last: ${JSON.stringify(value, undefined, 1)}`)
    await new Promise(resolve => setTimeout(resolve, everyMs))
  }
}

/** Waits until the status of the database is as expected. */
export const databaseWhen = (
  cluster: Cluster,
  name: string,
  isExpected: (database: ManagedDatabase | undefined) => boolean,
  withinMs?: number,
): Promise<ManagedDatabase | undefined> =>
  eventually(() => cluster.get('ManagedDatabase', { namespace: testNamespace, name }), isExpected, {
    ...(withinMs === undefined ? {} : { withinMs }),
  })

/** Changes a database's spec like `kubectl edit`, despite concurrent writers. */
export async function editSpec(
  cluster: Cluster,
  name: string,
  change: (spec: ManagedDatabase['spec']) => ManagedDatabase['spec'],
  annotations: Record<string, string> = {},
): Promise<ManagedDatabase> {
  for (;;) {
    const database = await cluster.get('ManagedDatabase', { namespace: testNamespace, name })
    if (database === undefined) throw new Error(`there is no database ${name}`)
    const metadata = { ...database.metadata, annotations: { ...database.metadata.annotations, ...annotations } }
    try {
      return await cluster.replace('ManagedDatabase', { ...database, metadata, spec: change(database.spec) })
    } catch (error) {
      if (!isClusterError(error, 'Conflict')) throw error
    }
  }
}
