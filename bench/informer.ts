/**
 * Measures the informer with 5,000 and 50,000 objects: the time to its first list, watch events per second and memory.
 * The baseline is a Map with names as keys, filled from the same pages and the same stream. A separate process measures
 * each figure of memory, with objects that it parses from text, as from an API server. `shared` is the embedded
 * installation, whose store has the same objects: the informer adds only the transform's copies, maps and indexes.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import type { Cluster, ConfigMap, ListOptions, WatchEvent, WatchOptions } from '../cluster/index.ts'
import { createInformer } from '../cluster/informer/index.ts'
import { against, median, print } from './statistics.ts'

const events = 100_000
const rounds = 5
const logger = pino({ level: 'silent' })

/** Returns an object of about 1.5 kB. A third of it is managedFields, as in a Service of a database. */
function textOf(index: number, version: number): string {
  const fields = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`f:field-${n}`, {}]))
  const entry = { operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', time: '2030-01-01T00:00:00Z' }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: `object-${index}`,
      namespace: `tenant-${index % 500}`,
      uid: `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
      resourceVersion: String(version),
      creationTimestamp: '2030-01-01T00:00:00Z',
      labels: { 'espalier.dev/database': `database-${index % 5000}`, 'espalier.dev/component': 'postgres' },
      managedFields: [
        { manager: 'espalier-operator', ...entry, fieldsV1: { 'f:data': fields } },
        { manager: 'espalier-runtime', ...entry, fieldsV1: { 'f:status': fields } },
      ],
    },
    data: Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`key-${n}`, `value ${n} of object ${index}`])),
  })
}

/** Lists `texts` in pages, and then streams this number of changes. `parse` decides whether readers share objects. */
function source(texts: string[], changes: number, parse: (text: string) => ConfigMap): Cluster {
  const port = {
    list: async (_kind: string, { limit = texts.length, continueToken = '0' }: ListOptions = {}) => {
      const from = Number(continueToken)
      const items = texts.slice(from, from + limit).map(parse)
      const more = from + limit < texts.length
      return { items, resourceVersion: '1000000', ...(more && { continueToken: String(from + limit) }) }
    },
    watch: async function* (_kind: string, { signal }: WatchOptions): AsyncGenerator<WatchEvent<ConfigMap>> {
      for (let n = 0; n < changes && !signal.aborted; n++) {
        const before = parse(texts[n % texts.length] ?? '')
        const metadata = { ...before.metadata, resourceVersion: String(1_000_001 + n) }
        yield { type: 'MODIFIED', object: { ...before, metadata } }
      }
      yield { type: 'BOOKMARK', resourceVersion: '9999999' }
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
    },
  }
  // The informer requests only ConfigMaps, but the type of a Cluster requires every kind.
  return port as unknown as Cluster
}

type Reading = { syncMs: number; eventsPerSecond: number; stop: () => Promise<void> }

/** Reads the pages and the stream into a Map: the baseline. */
async function readIntoMap(cluster: Cluster): Promise<Reading> {
  const map = new Map<string, ConfigMap>()
  const startedAt = performance.now()
  let continueToken: string | undefined
  do {
    const page = await cluster.list('ConfigMap', { limit: 500, continueToken })
    for (const object of page.items) map.set(`${object.metadata.namespace}/${object.metadata.name}`, object)
    continueToken = page.continueToken
  } while (continueToken)
  const syncedAt = performance.now()
  const controller = new AbortController()
  for await (const event of cluster.watch('ConfigMap', { resourceVersion: '1', signal: controller.signal })) {
    if (event.type === 'BOOKMARK') break
    map.set(`${event.object.metadata.namespace}/${event.object.metadata.name}`, event.object)
  }
  const seconds = (performance.now() - syncedAt) / 1000
  return { syncMs: syncedAt - startedAt, eventsPerSecond: events / seconds, stop: async () => map.clear() }
}

/** Reads the pages and the stream with an informer like the operator's, with two indexes and a handler. */
async function readIntoInformer(cluster: Cluster): Promise<Reading> {
  const all = Promise.withResolvers<void>()
  const informer = createInformer(cluster, 'ConfigMap', {
    indexes: {
      database: object => [object.metadata.labels?.['espalier.dev/database'] ?? ''],
      component: object => [object.metadata.labels?.['espalier.dev/component'] ?? ''],
    },
    logger,
  })
  let changed = 0
  informer.onChange(({ previous }) => {
    if (previous && ++changed === events) all.resolve()
  })
  const startedAt = performance.now()
  await informer.start()
  const syncedAt = performance.now()
  await all.promise
  const seconds = (performance.now() - syncedAt) / 1000
  return {
    syncMs: syncedAt - startedAt,
    eventsPerSecond: events / seconds,
    stop: () => informer.stop(),
  }
}

const heapBytes = (): number => {
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

type Holder = 'map' | 'informer' | 'informer shared'

/** Measures in a child process the bytes per object that remain allocated while the holder exists. */
async function measureBytes(holder: Holder, objects: number): Promise<void> {
  const texts = textsOf(objects)
  const parsed = new Map(holder === 'informer shared' ? texts.map(text => [text, JSON.parse(text)]) : [])
  const cluster = source(texts, events, text => parsed.get(text) ?? JSON.parse(text))
  const before = heapBytes()
  const reading = await (holder === 'map' ? readIntoMap(cluster) : readIntoInformer(cluster))
  console.log((heapBytes() - before) / objects)
  await reading.stop()
}

const bytesEach = (holder: Holder, objects: number): number =>
  Number(
    execFileSync(process.execPath, ['--expose-gc', fileURLToPath(import.meta.url), holder, String(objects)], {
      encoding: 'utf8',
    }),
  )

const textsOf = (objects: number): string[] => Array.from({ length: objects }, (_, n) => textOf(n, n + 1))

async function compare(objects: number): Promise<void> {
  const texts = textsOf(objects)
  const parsed = new Map(texts.map(text => [text, JSON.parse(text) as ConfigMap]))
  const cluster = source(texts, events, text => parsed.get(text) ?? JSON.parse(text))
  const bare: Reading[] = []
  const ours: Reading[] = []
  for (let round = 0; round < rounds; round++) {
    for (const [read, readings] of [
      [readIntoMap, bare],
      [readIntoInformer, ours],
    ] as const) {
      const reading = await read(cluster)
      await reading.stop()
      readings.push(reading)
    }
  }
  const sync = (readings: Reading[]) => median(readings.map(({ syncMs }) => syncMs))
  const rate = (readings: Reading[]) => median(readings.map(({ eventsPerSecond }) => eventsPerSecond))
  const name = `${objects.toLocaleString('en')} objects`
  print(`${name}, first list`, `${sync(ours).toFixed(0)} ms, Map ${sync(bare).toFixed(0)} ms`)
  print(
    `${name}, events`,
    `${(rate(ours) / 1000).toFixed(0)} k/s, ${against(rate(ours) / rate(bare), 0.2, 'at least')} of a Map's`,
  )
  const [mapBytes, ourBytes] = [bytesEach('map', objects), bytesEach('informer', objects)]
  print(
    `${name}, memory of each`,
    `${ourBytes.toFixed(0)} B, ${against(ourBytes / mapBytes, 0.6, 'at most')} of a Map's`,
  )
  print(
    `${name}, memory of each, shared`,
    `${bytesEach('informer shared', objects).toFixed(0)} B in addition to the store`,
  )
}

const [holder, objects] = process.argv.slice(2)
if (holder === 'map' || holder === 'informer' || holder === 'informer shared')
  await measureBytes(holder, Number(objects))
else for (const count of [5_000, 50_000]) await compare(count)
