/**
 * Keeps a file of the names of Services, as /etc/hosts has them: `<address> <service>.<namespace>.svc`, one line for each
 * address that serves. Pods of the embedded default have no DNS of the cluster's; their servers read this file
 * (images/service-names.mjs). A change is written within some milliseconds.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Endpoints } from './endpoints.ts'

const delayMs = 10

/**
 * Returns what is called with each change. `onFailure`: the file could not be written; the next change tries again. Its directory is made
 * once, so that a write after the home was removed makes nothing anew.
 */
export function createNamesFile(path: string, onFailure: (error: unknown) => void): (changes: Endpoints[]) => void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  const lines = new Map<string, string>()
  let isDue = false
  const write = (): void => {
    isDue = false
    try {
      writeFileSync(`${path}.new`, [...lines.values()].join(''), { mode: 0o644 })
      renameSync(`${path}.new`, path)
    } catch (error) {
      onFailure(error)
    }
  }
  return changes => {
    for (const { namespace, service, ports } of changes) {
      const name = `${service}.${namespace}.svc`
      const hosts = new Set(ports.flatMap(({ addresses }) => addresses.map(({ host }) => host)))
      if (hosts.size === 0) lines.delete(name)
      else lines.set(name, [...hosts].map(host => `${host} ${name}\n`).join(''))
    }
    if (isDue) return
    isDue = true
    setTimeout(write, delayMs)
  }
}
