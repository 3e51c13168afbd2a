/**
 * Keeps a file of the names of Services, as /etc/hosts has them: `<address> <service>.<namespace>.svc`, one line for each
 * address that serves. Pods of the embedded default have no DNS of the cluster's; their servers read this file
 * (images/service-names.mjs). It has the namespaces that such servers run in, and is written only when their names change.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Pod } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { servicesImage } from '../images/services.ts'
import type { Endpoints, EndpointsFeed } from './endpoints.ts'

/** From a change to its write, and at least between two writes. */
const delays = { changeMs: 10, betweenMs: 100 }

type NamesFile = {
  put(changes: Endpoints[]): void
  /** A pod of this namespace reads the file. */
  use(namespace: string): void
}

/**
 * `onFailure`: the file could not be written; the next change tries again. Its directory is made once, so that a write after the home
 * was removed makes nothing anew.
 */
export function createNamesFile(path: string, onFailure: (error: unknown) => void): NamesFile {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  /** By namespace and name. */
  const lines = new Map<string, Map<string, string>>()
  const used = new Set<string>()
  let written: string | undefined
  let writtenAt = Number.NEGATIVE_INFINITY
  let isDue = false
  const write = (): void => {
    isDue = false
    const text = [...used].flatMap(namespace => [...(lines.get(namespace)?.values() ?? [])]).join('')
    if (text === written) return
    try {
      writeFileSync(`${path}.new`, text, { mode: 0o644 })
      renameSync(`${path}.new`, path)
      written = text
      writtenAt = performance.now()
    } catch (error) {
      onFailure(error)
    }
  }
  const plan = (): void => {
    if (isDue) return
    isDue = true
    setTimeout(write, Math.max(delays.changeMs, writtenAt + delays.betweenMs - performance.now()))
  }
  const putOne = ({ namespace, service, ports }: Endpoints): void => {
    const name = `${service}.${namespace}.svc`
    const hosts = new Set(ports.flatMap(({ addresses }) => addresses.map(({ host }) => host)))
    const ofNamespace = lines.get(namespace) ?? new Map<string, string>()
    if (hosts.size > 0) ofNamespace.set(name, [...hosts].map(host => `${host} ${name}\n`).join(''))
    else ofNamespace.delete(name)
    if (ofNamespace.size > 0) lines.set(namespace, ofNamespace)
    else lines.delete(namespace)
    if (used.has(namespace)) plan()
  }
  return {
    put: changes => changes.forEach(putOne),
    use: namespace => {
      if (used.has(namespace)) return
      used.add(namespace)
      plan()
    },
  }
}

/** Keeps the file for as long as the runtime reports. A server takes longer to start than the file to be written. */
export function keepNames(
  path: string,
  { feed, pods, logger }: { feed: EndpointsFeed; pods: Informer<'Pod'>; logger: Logger },
): void {
  const file = createNamesFile(path, error => logger.warn({ err: error }, 'cannot write the names of Services'))
  const use = ({ metadata: { namespace = '' }, spec }: Pod): void => {
    if (spec?.containers.some(({ image }) => image === servicesImage)) file.use(namespace)
  }
  pods.onChange(({ object }) => use(object))
  for (const pod of pods.list()) use(pod)
  feed.follow(file.put)
}
