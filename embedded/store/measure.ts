/**
 * Measures the store at its intended size: `node embedded/store/measure.ts [databases]` creates that many databases
 * (default 5,000) with about ten objects each, on disk, and prints the cost of reads, writes, watches and a restart.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import type { Draft } from '../../cluster/port.ts'
import { definitionOf } from '../../crds/definition.ts'
import { apiVersion, declarations, labels, type ObjectMeta } from '../../crds/index.ts'
import { openStore, type Store } from './index.ts'

const databases = Number(process.argv[2] ?? 5000)
const tenants = 5
const directory = mkdtempSync(join(tmpdir(), 'espalier-measure-'))
const open = (): Promise<Store> =>
  openStore({
    directory,
    definitions: Object.values(declarations).map(definitionOf),
    logger: pino({ level: 'warn' }),
  })
const print = (what: string, value: number, unit: string): void =>
  console.log(`${what.padEnd(48)} ${value < 10 ? value.toFixed(2) : Math.round(value)} ${unit}`)

async function time(what: string, count: number, unit: 'µs' | 'ms', run: () => Promise<unknown>): Promise<void> {
  const start = performance.now()
  await run()
  const each = (performance.now() - start) / count
  print(what, unit === 'µs' ? each * 1000 : each, `${unit} each`)
}

const megabytes = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 2 ** 20
}

const namespaceOf = (index: number): string => `espalier-t-${index % tenants}`

function statefulSet(namespace: string, name: string, metadata: Partial<ObjectMeta>, image = 'postgres:18') {
  const security = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true }
  const mounts = ['data', 'configuration', 'tls', 'temporary'].map(volume => ({
    name: volume,
    mountPath: `/${volume}`,
  }))
  const fromPod = (path: string) => ({ valueFrom: { fieldRef: { fieldPath: path } } })
  const container = {
    image,
    env: [
      { name: 'POD_IP', ...fromPod('status.podIP') },
      { name: 'PGDATA', value: '/data/pgdata' },
    ],
    volumeMounts: mounts,
    securityContext: security,
    resources: { requests: { cpu: '100m', memory: '256Mi' }, limits: { cpu: '1', memory: '512Mi' } },
  }
  const probe = { tcpSocket: { port: 5432 }, periodSeconds: 5, failureThreshold: 60 }
  const draft: Draft<'StatefulSet'> = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { ...metadata, namespace, name },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: { [labels.database]: name } },
      updateStrategy: { type: 'OnDelete' },
      template: {
        metadata: { labels: { [labels.database]: name, [labels.component]: 'postgres' } },
        spec: {
          automountServiceAccountToken: false,
          securityContext: { fsGroup: 26, fsGroupChangePolicy: 'OnRootMismatch', runAsUser: 26 },
          initContainers: [{ ...container, name: 'prepare', command: ['espalier', 'instance', 'prepare'] }],
          containers: [
            {
              ...container,
              name: 'postgres',
              command: ['postgres'],
              args: ['-D', '/data/pgdata', '-c', 'listen_addresses=$(POD_IP)'],
              ports: [{ name: 'postgres', containerPort: 5432 }],
              startupProbe: probe,
              readinessProbe: probe,
            },
          ],
          volumes: [
            { name: 'data', persistentVolumeClaim: { claimName: `${name}-data` } },
            { name: 'configuration', configMap: { name: `${name}-config` } },
            { name: 'tls', secret: { secretName: `${name}-tls`, defaultMode: 0o440 } },
            { name: 'temporary', emptyDir: {} },
          ],
        },
      },
    },
  }
  return draft
}

/** One database and the objects that its operator creates. */
async function makeDatabase(cluster: Cluster, index: number): Promise<void> {
  const namespace = namespaceOf(index)
  const name = `d${index}`
  const owner = await cluster.create('ManagedDatabase', {
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { namespace, name, labels: { [labels.id]: crypto.randomUUID() }, finalizers: ['espalier.dev/teardown'] },
    spec: { region: 'local', size: { name: 'small', version: 1 }, pgVersion: '18' },
  })
  const metadata: Partial<ObjectMeta> = {
    labels: { [labels.database]: name, [labels.managedBy]: 'espalier' },
    ownerReferences: [{ apiVersion, kind: 'ManagedDatabase', name, uid: owner.metadata.uid ?? '', controller: true }],
  }
  const within = (suffix: string) => ({ ...metadata, namespace, name: `${name}-${suffix}` })
  const condition = { status: 'True' as const, reason: 'Serves', message: 'a client was answered' }
  const lastTransitionTime = '2026-01-02T03:04:05Z'
  const text = 'x'.repeat(1200)
  await Promise.all([
    cluster.apply('StatefulSet', statefulSet(namespace, `${name}-1`, metadata)),
    cluster.apply('Service', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: within('service'),
      spec: { clusterIP: 'None', ports: [{ name: 'postgres', port: 5432, protocol: 'TCP' }] },
    }),
    cluster.apply('ConfigMap', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: within('config'),
      data: { 'postgresql.conf': text, 'pg_hba.conf': text.slice(0, 300), 'instance.json': text.slice(0, 300) },
    }),
    cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: within('credentials'),
      data: { admin: btoa(text.slice(0, 120)), app: btoa(text.slice(0, 120)), app_read_only: btoa(text.slice(0, 120)) },
    }),
    cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: within('tls'),
      data: { 'tls.crt': btoa(text), 'tls.key': btoa(text.slice(0, 240)), 'ca.crt': btoa(text.slice(0, 800)) },
    }),
    cluster.apply('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: within('data'),
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '10Gi' } } },
    }),
    cluster.apply('ConfigMap', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: 'espalier-system', name: `route-${10000 + index}`, labels: metadata.labels ?? {} },
      data: { route: text.slice(0, 400) },
    }),
    cluster.create('Pod', {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...within('1-0'), ownerReferences: metadata.ownerReferences ?? [] },
      spec: statefulSet(namespace, name, {}).spec?.template.spec ?? { containers: [] },
    }),
    cluster.create('Task', {
      apiVersion,
      kind: 'Task',
      metadata: within('task'),
      spec: { name: 'create-managed', subject: { kind: 'database', id: owner.metadata.uid ?? '', name } },
    }),
    cluster.replaceStatus('ManagedDatabase', {
      ...owner,
      status: {
        phase: 'available',
        conditions: ['Ready', 'EndpointReady', 'CredentialsReady'].map(type => ({
          type,
          ...condition,
          lastTransitionTime,
        })),
      },
    }),
  ])
}

async function fill(cluster: Cluster): Promise<void> {
  for (const name of ['espalier-system', ...Array.from({ length: tenants }, (_, index) => namespaceOf(index))]) {
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  for (let start = 0; start < databases; start += 50) {
    const end = Math.min(databases, start + 50)
    await Promise.all(Array.from({ length: end - start }, (_, index) => makeDatabase(cluster, start + index)))
  }
}

async function measureReads(cluster: Cluster): Promise<void> {
  const keys = Array.from({ length: 100_000 }, (_, index) => {
    const database = index % databases
    return { namespace: namespaceOf(database), name: `d${database}` }
  })
  await time('get', keys.length, 'µs', async () => {
    for (const key of keys) await cluster.get('ManagedDatabase', key)
  })
  await time(`list of ${databases / tenants} in a namespace`, 100, 'ms', async () => {
    for (let run = 0; run < 100; run++) await cluster.list('ManagedDatabase', { namespace: namespaceOf(run) })
  })
  await time('page of 100 in a namespace', 100, 'ms', async () => {
    for (let run = 0; run < 100; run++) await cluster.list('Secret', { namespace: namespaceOf(run), limit: 100 })
  })
  await time(`list by label among ${databases}`, 100, 'ms', async () => {
    const selector = { [labels.database]: 'd7' }
    for (let run = 0; run < 100; run++) {
      await cluster.list('ConfigMap', { namespace: 'espalier-system', labels: selector })
    }
  })
}

async function measureWrites(cluster: Cluster, where: string): Promise<void> {
  const drafts = Array.from({ length: Math.min(1000, databases) }, (_, index) =>
    statefulSet(namespaceOf(index), `d${index}-1`, {}, `postgres:18.${Math.random()}`),
  )
  await time(`apply of a StatefulSet, one after another, ${where}`, drafts.length, 'ms', async () => {
    for (const draft of drafts) await cluster.apply('StatefulSet', draft)
  })
  await time(`the same again, nothing changed, ${where}`, drafts.length, 'ms', async () => {
    for (const draft of drafts) await cluster.apply('StatefulSet', draft)
  })
  const changed = drafts.map(draft => ({ ...draft, metadata: { ...draft.metadata, labels: { changed: 'yes' } } }))
  await time(`apply of a StatefulSet, 100 at once, ${where}`, drafts.length, 'ms', async () => {
    for (let start = 0; start < changed.length; start += 100) {
      await Promise.all(changed.slice(start, start + 100).map(draft => cluster.apply('StatefulSet', draft)))
    }
  })
}

/** Cost of a write without the disk. */
async function measureInMemory(): Promise<void> {
  const store = await openStore({ definitions: Object.values(declarations).map(definitionOf), logger: pino() })
  const cluster = store.connect('espalier-operator')
  for (let index = 0; index < tenants; index++) {
    const metadata = { name: namespaceOf(index) }
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata })
  }
  await measureWrites(cluster, 'in memory (first)')
  await measureWrites(cluster, 'in memory')
  await store.close()
}

async function measureWatches(cluster: Cluster): Promise<void> {
  const watchers = 20
  const writes = 2000
  const { resourceVersion } = await cluster.list('ConfigMap', { namespace: 'default' })
  const { signal } = new AbortController()
  const start = performance.now()
  const watching = Array.from({ length: watchers }, async () => {
    let seen = 0
    for await (const event of cluster.watch('ConfigMap', { namespace: 'default', resourceVersion, signal })) {
      if (event.type !== 'BOOKMARK') seen++
      if (seen === writes) return
    }
  })
  const draft = (index: number): Draft<'ConfigMap'> => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'default', name: `watched-${index}` },
    data: { a: 'b' },
  })
  for (let done = 0; done < writes; done += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, index) => cluster.create('ConfigMap', draft(done + index))))
  }
  await Promise.all(watching)
  print(`watch events to ${watchers} watchers`, (writes * watchers * 1000) / (performance.now() - start), 'a second')
}

try {
  const empty = megabytes()
  const store = await open()
  const cluster = store.connect('espalier-operator')
  await time(`create one database's objects (${databases} databases)`, databases, 'ms', () => fill(cluster))
  print('heap with all objects (needs --expose-gc)', megabytes() - empty, 'MiB')
  await measureReads(cluster)
  await measureWrites(cluster, 'on disk')
  await measureWatches(cluster)
  await store.close()
  await measureInMemory()
  const opening = performance.now()
  const reopened = await open()
  print('reopen the store', performance.now() - opening, 'ms')
  print('heap after the reopening (needs --expose-gc)', megabytes() - empty, 'MiB')
  await reopened.close()
} finally {
  rmSync(directory, { recursive: true })
}
