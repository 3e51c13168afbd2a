/**
 * Maintains a file with the names of Services, in the format of /etc/hosts: `<address> <service>.<namespace>.svc`, one
 * line per serving address. Pods of the embedded installation have no cluster DNS, so their servers read this file
 * (images/service-names.mjs). It contains the namespaces of such servers, and is written only when their names change.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Pod } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { servicesImage } from '../images/services.ts'
import type { Endpoints, EndpointsFeed } from './endpoints.ts'

/** The delay between a change and its write, and the minimum interval between two writes. */
const delays = { changeMs: 10, betweenMs: 100 }

type NamesFile = {
  put(changes: Endpoints[]): void
  /** Adds a namespace whose pods read the file. */
  use(namespace: string): void
}

/**
 * `onFailure` is called if the file could not be written; the next change retries. The directory is created only once.
 * If the home directory is deleted, a later write must not create it again.
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

/** Updates the file after each report of the runtime. Starting a server takes longer than writing the file. */
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
