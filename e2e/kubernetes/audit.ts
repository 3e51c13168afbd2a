/**
 * Runs around the complete suite. Objects that exist at its end but not at its beginning are leftovers and fail it.
 * After a failed test, all objects and logs are first written to files.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from '../client.ts'
import { readSettings } from '../kind/settings.ts'
import { startKind } from '../providers/kind.ts'

/** The objects of a database. Tasks and tenants stay by design: a Task for 30 days, a tenant until it is removed. */
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
    // Pods of Deployments get new names when they are replaced. The chart's tests check these pods.
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
    console.error(`the cluster's objects and logs are in ${directory}`)
  }

  return async () => {
    let remaining: string[] = []
    const isClean = async () => {
      remaining = (await everything()).filter(line => !before.has(line))
      return remaining.length === 0
    }
    try {
      await eventually('every new object of the cluster is deleted', isClean, 90_000)
    } catch {
      await dump()
      throw new Error(`left behind:\n${remaining.join('\n')}`)
    } finally {
      await stop()
    }
  }
}
