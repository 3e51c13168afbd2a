/** Shared by the tests of this folder. */
import { mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import type { Cluster, PersistentVolumeClaim, Pod, StatefulSet } from '../../../cluster/index.ts'
import { postgresDirectory } from '../../../operator/postgres/testing/directory.ts'
import { openStore, type Store } from '../../store/index.ts'
import type { Owner } from '../directories.ts'
import { type ImageResolver, type Runtime, type RuntimeOptions, startRuntime } from '../index.ts'
import type { PodSpec } from '../pods/environment.ts'

/** Polls until the condition holds. @throws if it does not before the deadline */
export async function until(
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 20_000,
  what = 'condition',
): Promise<void> {
  const end = performance.now() + deadlineMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what}: not met within ${deadlineMs} ms`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** A directory for the running test, deleted at its end. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(postgresDirectory, 'espalier-runtime-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }))
  return directory
}

/** The user for a test's workloads: an unprivileged user if the test is root, otherwise the test's user. */
export const testOwner = (): Owner | undefined => (process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined)

export const testLogger = pino({ level: process.env.ESPALIER_TEST_LOG ?? 'silent' })
export const namespace = 'test'

/** Resolves one image: `node`, with node on its path. */
export const nodeImage: ImageResolver = async image => {
  if (image !== 'node') throw new Error(`no image ${image}`)
  return { path: [dirname(process.execPath)], commands: {} }
}

/** A cluster in memory with a namespace. */
export async function openTestStore(): Promise<{ store: Store; cluster: Cluster }> {
  const store = await openStore({ definitions: [], logger: testLogger })
  onTestFinished(() => store.close())
  const cluster = store.connect('test')
  await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  return { store, cluster }
}

/** Starts a runtime for the running test. It stops at the end of the test. */
export async function startTestRuntime(
  store: Store,
  options: Partial<RuntimeOptions> & { directory: string },
): Promise<Runtime> {
  const runtime = await startRuntime({
    cluster: store.connect('runtime'),
    images: nodeImage,
    logger: testLogger,
    ...options,
  })
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= runtime.stop()
    return stopped
  }
  onTestFinished(stop)
  return { ...runtime, stop }
}

/** A store with a runtime. */
export async function openTestCluster(options: Partial<RuntimeOptions> = {}) {
  const directory = options.directory ?? temporaryDirectory()
  const { store, cluster } = await openTestStore()
  const runtime = await startTestRuntime(store, { ...options, directory })
  return { store, cluster, runtime, directory }
}

type Containers = Pick<PodSpec, 'containers'> & Partial<PodSpec>

/** A container that runs a Node script. */
export const script = (source: string, more: object = {}): PodSpec['containers'][number] => ({
  name: 'main',
  image: 'node',
  command: ['node', '-e', source],
  ...more,
})

/** Prints a line and waits for SIGTERM. */
export const staying = `console.log('up', process.pid); setInterval(() => {}, 1000)`

export function statefulSet(name: string, spec: Containers, more: Partial<StatefulSet['spec']> = {}): StatefulSet {
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name, namespace },
    spec: {
      serviceName: name,
      replicas: 1,
      updateStrategy: { type: 'OnDelete' },
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { terminationGracePeriodSeconds: 5, ...spec } },
      ...more,
    },
  }
}

export const pod = (name: string, spec: Containers): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace },
  spec: { terminationGracePeriodSeconds: 5, ...spec },
})

export const claim = (name: string, spec: object = {}) => ({
  apiVersion: 'v1' as const,
  kind: 'PersistentVolumeClaim' as const,
  metadata: { name, namespace },
  spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } }, ...spec },
})

/** Waits until a pod matches, and returns it. */
export async function untilPod(
  cluster: Cluster,
  name: string,
  condition: (pod: Pod) => boolean,
  deadlineMs?: number,
): Promise<Pod> {
  let found: Pod | undefined
  await until(
    async () => {
      found = await cluster.get('Pod', { namespace, name })
      return found !== undefined && condition(found)
    },
    deadlineMs,
    `pod ${name}`,
  ).catch(error => {
    throw new Error(`${error.message}; it is ${JSON.stringify(found?.status)}`)
  })
  if (found === undefined) throw new Error(`pod ${name} is not there`)
  return found
}

export const ready = (object: Pod): boolean =>
  object.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
export const phase =
  (wanted: string) =>
  (object: Pod): boolean =>
    object.status?.phase === wanted

/** A log line without its time. */
export const text = (line: string): string => line.slice(line.indexOf(' ') + 1)

/** The process of the newest container that printed `up <pid>`. */
export async function processOf(runtime: Runtime, name: string): Promise<number> {
  const lines = (await runtime.logs({ namespace, name })).map(text)
  return Number(lines.findLast(line => line.startsWith('up '))?.slice(3))
}

export const key = (name: string) => ({ namespace, name })

/** Waits until a claim matches (by default: until it is bound), and returns it. */
export async function untilClaim(
  cluster: Cluster,
  name: string,
  condition: (claim: PersistentVolumeClaim) => boolean = ({ status }) => status?.phase === 'Bound',
): Promise<PersistentVolumeClaim> {
  let found: PersistentVolumeClaim | undefined
  await until(async () => {
    found = await cluster.get('PersistentVolumeClaim', key(name))
    return found !== undefined && condition(found)
  }).catch(error => {
    throw new Error(`${error.message}; it is ${JSON.stringify(found?.status)}`)
  })
  if (found === undefined) throw new Error(`claim ${name} is not there`)
  return found
}
