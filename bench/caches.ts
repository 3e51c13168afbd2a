/**
 * Measures the memory that the deduplication of cached objects saves (operator/deduplicator.ts): the heap of the
 * operator's objects with and without it. The first argument is the number of databases (default: 10,000). The objects
 * are copies of one test database's objects with other ids. They are parsed from text, as from an API server, and
 * trimmed as in the caches. A separate process measures each figure. With `services` as the second argument, each
 * database also has three services.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { AnyObject, KindName, Kinds } from '../cluster/index.ts'
import { withoutManagedFields } from '../cluster/informer/index.ts'
import { labels } from '../crds/index.ts'
import { createDeduplicator } from '../operator/deduplicator.ts'
import { trimVolume } from '../operator/member/storage/persistent-volume.ts'
import { withForeignFields } from '../operator/objects/foreign-fields.ts'
import { withoutConfiguration } from '../operator/service/trim.ts'
import {
  databaseDraft,
  databaseWhen,
  openInstallation,
  startTestOperator,
  testConfiguration,
  testNamespace,
} from '../operator/testing/installation.ts'
import { trimPod } from '../operator/trim.ts'
import { providerKeys, services } from './services.ts'
import { print } from './statistics.ts'

type Slimmed = { [K in KindName]?: (object: Kinds[K]) => Kinds[K] }

const slimmed: Slimmed = {
  ManagedDatabase: withoutManagedFields,
  Pod: trimPod,
  PersistentVolume: trimVolume,
  PersistentVolumeClaim: withoutManagedFields,
  Secret: withoutConfiguration,
  Deployment: withForeignFields,
  StatefulSet: withForeignFields,
  Service: withForeignFields,
  NetworkPolicy: withForeignFields,
  ConfigMap: withForeignFields,
}
const kinds = Object.keys(slimmed) as (keyof typeof slimmed)[]

/** Returns the id of one database, and its objects as text. */
async function templates(hasServices: boolean): Promise<{ id: string; texts: Map<KindName, string[]> }> {
  const installation = await openInstallation()
  const images = { ...testConfiguration.images, services: 'espalier' }
  const operator = await startTestOperator(installation, { configuration: { images } })
  const { cluster } = installation
  await cluster.create('Secret', providerKeys)
  await cluster.create('ManagedDatabase', databaseDraft('shop', hasServices ? { services } : {}))
  const database = await databaseWhen(cluster, 'shop', found => found?.status?.phase === 'available')
  const id = database?.metadata.labels?.[labels.id] ?? ''
  const texts = new Map<KindName, string[]>()
  for (const kind of kinds) {
    const { items } = await cluster.list(kind, kind === 'ManagedDatabase' ? { namespace: testNamespace } : {})
    texts.set(
      kind,
      items.map(item => JSON.stringify(item)).filter(text => text.includes(id)),
    )
  }
  await operator.stop()
  await installation.close()
  return { id, texts }
}

/** Returns the text of another database's object, with different ids, names, versions and secret values. */
function another(text: string, id: string, own: string, number: number): string {
  const digits = (of: string) => of.replaceAll('-', '').slice(0, 16)
  return text
    .replaceAll(id, own)
    .replaceAll(digits(id), digits(own))
    .replaceAll('shop', `shop${number}`)
    .replaceAll('route-20000', `route-${20_000 + number}`)
    .replace(
      /"(uid|volumeName)":"([^"]{24})/g,
      (_, name, start) => `"${name}":"${own.slice(0, 24).padEnd(start.length)}`,
    )
    .replace(/"resourceVersion":"\d+"/g, `"resourceVersion":"${number * 37 + 1000}"`)
    .replace(/":"[A-Za-z0-9+/]{64,}={0,2}"/g, value => {
      const length = value.length - 4
      return `":"${Buffer.from(own.repeat(Math.ceil(length / 36)))
        .toString('base64')
        .slice(0, length)}"`
    })
}

const heapBytes = (): number => {
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

/** Measures in a child process the MiB that the objects use, and the processor seconds to read them. */
async function measure(mode: string, count: number): Promise<void> {
  const { id, texts } = await templates(mode === 'services')
  const shares = mode !== 'whole'
  const { share } = createDeduplicator()
  const before = heapBytes()
  const cpu = process.cpuUsage()
  const cached: AnyObject[] = []
  for (const kind of kinds) {
    const trim = slimmed[kind] as (object: AnyObject) => AnyObject
    for (let number = 0; number < count; number++) {
      const own = randomUUID()
      for (const text of texts.get(kind) ?? []) {
        const object = trim(JSON.parse(another(text, id, own, number)))
        cached.push(shares ? share(object) : object)
      }
    }
  }
  const { user } = process.cpuUsage(cpu)
  console.log(
    JSON.stringify({ mebibytes: (heapBytes() - before) / 2 ** 20, seconds: user / 1e6, objects: cached.length }),
  )
}

const child = (mode: string, count: number): { mebibytes: number; seconds: number; objects: number } =>
  JSON.parse(
    execFileSync(
      process.execPath,
      ['--expose-gc', '--max-old-space-size=3000', fileURLToPath(import.meta.url), mode, String(count)],
      { encoding: 'utf8' },
    ),
  )

const [mode = '10000', count] = process.argv.slice(2)
if (count !== undefined && count !== 'services') await measure(mode, Number(count))
else {
  const [shared, unshared] = [child('shared', Number(mode)), child('whole', Number(mode))]
  print(`${Number(mode).toLocaleString('en')} databases`, `${shared.objects.toLocaleString('en')} objects`)
  print('heap, shared', `${shared.mebibytes.toFixed(0)} MiB, read in ${shared.seconds.toFixed(1)} s of a core`)
  if (count === 'services') {
    const { mebibytes, objects } = child('services', Number(mode))
    print('heap with three services each', `${mebibytes.toFixed(0)} MiB, ${objects.toLocaleString('en')} objects`)
  }
  print('heap, not shared', `${unshared.mebibytes.toFixed(0)} MiB, read in ${unshared.seconds.toFixed(1)} s of a core`)
}
