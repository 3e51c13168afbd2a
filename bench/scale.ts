/**
 * How the operator grows with the number of databases: its objects and a fake workload, no Postgres. Each size runs in
 * a process of its own, which holds the object store as well, so its memory is an upper bound of the operator's; what
 * the operator itself takes is told by what is freed when it stops.
 */
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { ManagedDatabase } from '../crds/index.ts'
import { desiredHash } from '../crds/index.ts'
import { databaseDraft, editSpec, openInstallation, startTestOperator } from '../operator/testing/installation.ts'
import { against, median, percentile, print } from './statistics.ts'

const sizes = [100, 1000, 5000]
const inFlight = 32
const changes = 200

const mebibytes = (bytes: number): number => bytes / 2 ** 20
const collect = (): void => {
  for (let round = 0; round < 3; round++) globalThis.gc?.()
}
const isApplied = (database: ManagedDatabase): boolean =>
  database.status?.phase === 'available' && database.status.appliedHash === desiredHash(database.spec)

async function measure(count: number): Promise<void> {
  const installation = await openInstallation()
  const { cluster } = installation
  collect()
  const empty = process.memoryUsage()
  let operator = await startTestOperator(installation)
  await operator.synced()

  /** Tells, by one watch, when each database's status has caught up with its spec. */
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
  const settled = (name: string) => new Promise<void>(resolve => waiting.set(name, resolve))

  const names = Array.from({ length: count }, (_, index) => `d${index}`)
  const queue = [...names]
  const start = performance.now()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
        const done = settled(name)
        await cluster.create('ManagedDatabase', databaseDraft(name))
        await done
      }
    }),
  )
  const created = (performance.now() - start) / 1000

  const latencies: number[] = []
  for (let change = 0; change < changes; change++) {
    const name = names[randomInt(count)] ?? ''
    const done = settled(name)
    const cidr = `198.51.${randomInt(256)}.${randomInt(256)}/32`
    const asked = performance.now()
    await editSpec(cluster, name, spec => ({ ...spec, ipAllowlist: { rules: [{ cidr }] } }))
    await done
    latencies.push(performance.now() - asked)
  }

  collect()
  const busy = process.memoryUsage()
  await operator.stop()
  collect()
  const without = process.memoryUsage()
  const restart = performance.now()
  operator = await startTestOperator(installation)
  await operator.synced()
  const synced = (performance.now() - restart) / 1000
  console.log(
    JSON.stringify({
      count,
      rss: mebibytes(busy.rss),
      operatorHeap: mebibytes(busy.heapUsed - without.heapUsed),
      emptyRss: mebibytes(empty.rss),
      created,
      synced,
      p50: median(latencies),
      p95: percentile(latencies, 0.95),
    }),
  )
  stopped.abort()
  await operator.stop()
  await watching
  await installation.close()
}

type Figures = Record<'count' | 'rss' | 'operatorHeap' | 'emptyRss' | 'created' | 'synced' | 'p50' | 'p95', number>

function inChild(count: number): Figures {
  const path = fileURLToPath(import.meta.url)
  const { stdout, status } = spawnSync(process.execPath, ['--expose-gc', path, String(count)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`the run with ${count} databases ended with ${status}`)
  return JSON.parse(stdout)
}

function report(figures: Figures, smallest: Figures): void {
  const { count, rss, operatorHeap, emptyRss, created, synced, p50, p95 } = figures
  const isAim = count === 1000
  print(`${count} databases`, `all available after ${created.toFixed(1)} s, ${(count / created).toFixed(0)} a second`)
  const memory = isAim ? against(rss, 256, 'at most', ' MiB') : `${rss.toFixed(0)} MiB`
  print('  memory, operator and store in one process', `${memory}; ${emptyRss.toFixed(0)} MiB empty`)
  print('  heap that the operator alone holds', `${operatorHeap.toFixed(0)} MiB`)
  print('  restart to synced', isAim ? against(synced, 10, 'at most', ' s') : `${synced.toFixed(2)} s`)
  const latency = isAim ? against(p95, 250, 'at most', ' ms') : `${p95.toFixed(1)} ms`
  print(
    '  change to status, p95',
    `${latency}; p50 ${p50.toFixed(1)} ms, ${(p50 / smallest.p50).toFixed(2)} times that of ${smallest.count}`,
  )
}

const [argument] = process.argv.slice(2)
if (argument === undefined) {
  const all = sizes.map(inChild)
  for (const figures of all) report(figures, all[0] ?? figures)
} else await measure(Number(argument))
