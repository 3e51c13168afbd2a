/**
 * Around the whole suite: what is there at its end that was not there at its beginning was left behind, and fails it.
 * Where a test has failed, all objects and logs are written down first.
 */
// @ts-nocheck

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from '../client.ts'
import { readSettings } from '../kind/settings.ts'
import { startKind } from '../providers/kind.ts'

/** What a database consists of. Tasks and tenants outlive it by design: the one for 30 days, the other until it is removed. */
const kinds = [
  'manageddatabases.espalier.dev',
  'backups.espalier.dev',
  'statefulsets.apps',
  'pods',
  'persistentvolumeclaims',
  'persistentvolumes',
  'volumesnapshots.snapshot.storage.k8s.io',
  'networkpolicies.networking.k8s.io',
]

export default async function setup(): Promise<() => Promise<void>> {
  const { kubectl, stop } = await startKind()
  const everything = async (): Promise<string[]> => {
    const lines = await Promise.all(
      kinds.map(async kind => {
        const format = 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
        const text = await kubectl(['get', kind, '--all-namespaces', '--output', format])
        return text
          .split('\n')
          .filter(line => line !== '')
          .map(line => `${kind} ${line}`)
      }),
    )
    // Pods of Deployments get new names when they are replaced; the chart's own tests look after those.
    return lines.flat().filter(line => !line.startsWith('pods ') || line.includes('/db-'))
  }
  const before = new Set(await everything())

  const dump = async () => {
    const directory = join(readSettings(process.env).home, 'dump')
    await mkdir(directory, { recursive: true })
    await kubectl(['cluster-info', 'dump', '--all-namespaces', '--output-directory', directory])
    const own = ['manageddatabases', 'backups', 'tasks', 'tenants', 'sizes', 'regions']
      .map(kind => `${kind}.espalier.dev`)
      .join(',')
    await writeFile(
      join(directory, 'espalier.yaml'),
      await kubectl(['get', own, '--all-namespaces', '--output', 'yaml']),
    )
    console.error(`what the cluster held stands in ${directory}`)
  }

  return async () => {
    let left: string[] = []
    const isClean = async () => {
      left = (await everything()).filter(line => !before.has(line))
      return left.length === 0
    }
    try {
      await eventually('everything is gone', isClean, 90_000)
    } catch {
      await dump()
      throw new Error(`left behind:\n${left.join('\n')}`)
    } finally {
      await stop()
    }
  }
}
