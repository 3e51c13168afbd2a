/**
 * Measures how the operator scales with the number of databases, with real objects and a fake workload, without
 * Postgres. The operator is a separate process (scale-operator.ts), whose memory is measured. This process has the
 * object store and the fakes, in place of an API server. The benchmark compares 1,000 and 5,000 databases with 100 in
 * the same run; arguments set other counts. With `services` as the last argument, it repeats each count with databases
 * that have three services.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fillingFlags } from '../bin/lean.mjs'
import {
  apiVersion,
  childNames,
  desiredHash,
  desiredStateOf,
  labels,
  type ManagedDatabase,
  managedByEspalier,
} from '../crds/index.ts'
import {
  databaseDraft,
  editSpec,
  type Installation,
  openInstallation,
  testConfiguration,
  testNamespace,
} from '../operator/testing/installation.ts'
import { serve } from './remote.ts'
import { providerKeys, services } from './services.ts'
import { against, median, percentile, print } from './statistics.ts'

const counts = [100, 1000, 5000]
/** The aims for each number of databases. */
const aimsFor = new Map([
  [1000, { memory: 256, sync: 10, p95: 250 }],
  [10_000, { memory: 512, sync: 10, p95: 250 }],
])
/** The compile cache of the operator: like in an image, the operator does not load the TypeScript compiler. */
const compiled = mkdtempSync(join(tmpdir(), 'espalier-bench-compiled-'))
/** The images. Databases without services do not use the image `services`. */
const images = { ...testConfiguration.images, services: 'espalier' }
const inFlight = 32
const changes = 200
const restMs = 20_000
/** The number of Tasks that a database has after a month, including the Task of its creation. */
const tasksOfEach = 10

type Figures = {
  count: number
  hasServices: boolean
  createSeconds: number
  rss: number
  restartPeak: number
  peak: number
  syncSeconds: number
  p50: number
  p95: number
}

/** Reads the memory of the process in MiB from the kernel. */
function memoryOf(child: ChildProcess, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}

async function startChild({ store, workload }: Installation): Promise<ChildProcess> {
  if (workload === undefined) throw new Error('the installation has no workload')
  const script = fileURLToPath(new URL('scale-operator.ts', import.meta.url))
  const env = { ...process.env, NODE_COMPILE_CACHE: compiled }
  const child = fork(script, [JSON.stringify({ ...testConfiguration, images })], { execArgv: fillingFlags, env })
  const synced = new Promise<void>(resolve => {
    child.on('message', message => {
      if (message === 'synced') resolve()
    })
  })
  serve(child, store.connect('espalier-operator'), workload.postgres.access)
  await synced
  return child
}

async function stopChild(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.send('stop')
  await exited
}

const isApplied = (database: ManagedDatabase): boolean =>
  database.status?.phase === 'available' && database.status.appliedHash === desiredHash(desiredStateOf(database))

/** Follows all databases with one watch, and reports when the status of a database covers its spec. */
async function followStatus({ cluster }: Installation) {
  const waiting = new Map<string, () => void>()
  const stopped = new AbortController()
  const { resourceVersion } = await cluster.list('ManagedDatabase')
  const watching = (async () => {
    for await (const event of cluster.watch('ManagedDatabase', { resourceVersion, signal: stopped.signal })) {
      if (event.type === 'BOOKMARK' || !isApplied(event.object)) continue
      waiting.get(event.object.metadata.name)?.()
      waiting.delete(event.object.metadata.name)
    }
  })()
  return {
    reconciled: (name: string) => new Promise<void>(resolve => waiting.set(name, resolve)),
    stop: async () => {
      stopped.abort()
      await watching
    },
  }
}
type Follower = Awaited<ReturnType<typeof followStatus>>

/** Creates the databases. @returns the seconds until all are available */
async function createAll(
  { cluster }: Installation,
  { reconciled }: Follower,
  names: string[],
  spec: Partial<ManagedDatabase['spec']>,
): Promise<number> {
  const queue = [...names]
  const start = performance.now()
  const work = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const done = reconciled(name)
      await cluster.create('ManagedDatabase', databaseDraft(name, spec))
      await done
    }
  }
  await Promise.all(Array.from({ length: inFlight }, work))
  return (performance.now() - start) / 1000
}

/** Changes databases one after another. @returns the ms from each write of a spec to the status that covers it */
async function changeSome({ cluster }: Installation, { reconciled }: Follower, names: string[]): Promise<number[]> {
  const latencies: number[] = []
  for (let change = 0; change < changes; change++) {
    const name = names[randomInt(names.length)] ?? ''
    const done = reconciled(name)
    const cidr = `198.51.${randomInt(256)}.${randomInt(256)}/32`
    const start = performance.now()
    await editSpec(cluster, name, spec => ({ ...spec, ipAllowlist: { rules: [{ cidr }] } }))
    await done
    latencies.push(performance.now() - start)
  }
  return latencies
}

/** Creates the finished Tasks that each database has after a month. */
async function addTasks({ cluster }: Installation, names: string[]): Promise<void> {
  const finishedAt = new Date(Date.now() - 24 * 3600_000).toISOString()
  const { items } = await cluster.list('ManagedDatabase')
  const databases = new Map(items.map(({ metadata }) => [metadata.name, metadata.labels?.[labels.id] ?? '']))
  for (const name of names) {
    const id = databases.get(name) ?? ''
    for (let index = 1; index < tasksOfEach; index++) {
      const taskId = randomUUID()
      const task = await cluster.create('Task', {
        apiVersion,
        kind: 'Task',
        metadata: {
          name: childNames.task(taskId),
          namespace: testNamespace,
          labels: { [labels.managedBy]: managedByEspalier, [labels.id]: taskId, [labels.subject]: id },
        },
        spec: {
          name: 'update-managed-ip-allowlists',
          subject: { kind: 'database', id, name },
          request: { ip_allowlist: { rules: [{ cidr: '198.51.100.7/32', description: 'office' }] } },
        },
      })
      const message = (text: string, step: string) => ({ time: finishedAt, level: 'info' as const, text, step })
      await cluster.replaceStatus('Task', {
        ...task,
        status: {
          phase: 'succeeded',
          updatedAt: finishedAt,
          finishedAt,
          messages: [
            message('the rules are being applied', 'OpeningEndpoint'),
            message('waiting for gateway-one, gateway-two', 'OpeningEndpoint'),
            message('everything requested is applied', 'Completed'),
          ],
        },
      })
    }
  }
}

async function measure(count: number, hasServices: boolean): Promise<Figures> {
  const installation = await openInstallation()
  const follower = await followStatus(installation)
  const names = Array.from({ length: count }, (_, index) => `d${index}`)
  const first = await startChild(installation)
  await installation.cluster.create('Secret', providerKeys)
  const createSeconds = await createAll(installation, follower, names, hasServices ? { services } : {})
  const latencies = await changeSome(installation, follower, names)
  const peak = memoryOf(first, 'VmHWM')
  await stopChild(first)

  await addTasks(installation, names)

  const start = performance.now()
  const second = await startChild(installation)
  const syncSeconds = (performance.now() - start) / 1000
  // The operator now reconciles every database for the first time. The idle memory is measured after that.
  await new Promise(resolve => setTimeout(resolve, restMs))
  const rss = memoryOf(second, 'VmRSS')
  const restartPeak = memoryOf(second, 'VmHWM')
  await stopChild(second)
  await follower.stop()
  await installation.close()
  return {
    count,
    hasServices,
    createSeconds,
    rss,
    restartPeak,
    peak,
    syncSeconds,
    p50: median(latencies),
    p95: percentile(latencies, 0.95),
  }
}

function report(figures: Figures, smallest: Figures): void {
  const { count, hasServices, createSeconds, rss, restartPeak, peak, syncSeconds, p50, p95 } = figures
  const figure = (value: number, aim: number | undefined, unit: string) =>
    aim === undefined ? `${value.toFixed(2)}${unit}` : against(value, aim, 'at most', unit)
  const aims = aimsFor.get(count)
  const times = (value: number, base: number) => `${(value / base).toFixed(2)} times ${smallest.count}`
  print(
    `${count} databases${hasServices ? ' with three services each' : ''}, all available after`,
    `${createSeconds.toFixed(1)} s, ${(count / createSeconds).toFixed(0)} a second`,
  )
  print(
    '  operator memory, maximum',
    `${figure(Math.max(peak, restartPeak), aims?.memory, ' MiB')}, ${times(peak, smallest.peak)}`,
  )
  print(
    `  operator memory, after a restart, with ${tasksOfEach} Tasks of each`,
    `${rss.toFixed(0)} MiB, at most ${restartPeak.toFixed(0)} MiB, ${times(rss, smallest.rss)}`,
  )
  print(
    '  from restart to synced, including the start of Node',
    `${figure(syncSeconds, aims?.sync, ' s')}, ${times(syncSeconds, smallest.syncSeconds)}`,
  )
  print(
    '  from change to status, p95',
    `${figure(p95, aims?.p95, ' ms')}, p50 ${p50.toFixed(1)} ms, ${times(p50, smallest.p50)}`,
  )
}

try {
  const all: Figures[] = []
  const wanted = process.argv
    .slice(2)
    .filter(argument => argument !== 'services')
    .map(Number)
  const modes = process.argv.includes('services') ? [false, true] : [false]
  for (const count of wanted.length > 0 ? wanted : counts)
    for (const hasServices of modes) all.push(await measure(count, hasServices))
  for (const figures of all) report(figures, all[0] ?? figures)
} finally {
  rmSync(compiled, { recursive: true })
}
