/** Kills on an embedded installation: `espalier run` with all its processes, or the postmaster of one database. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { definitionOf } from '../../crds/definition.ts'
import { declarations } from '../../crds/index.ts'
import { pathsOf } from '../../embedded/settings.ts'
import { openStore } from '../../embedded/store/index.ts'
import { createApiClient, eventually } from '../client.ts'
import { createHome, processTree } from '../process.ts'
import type { Kill, Target } from './target.ts'

const kinds = [
  'ManagedDatabase',
  'Branch',
  'Backup',
  'Restore',
  'StatefulSet',
  'Pod',
  'PersistentVolumeClaim',
  'PersistentVolume',
  'VolumeSnapshot',
] as const

type Postmaster = { pid: number; databaseId: string }

/** The postmasters below a process. The identity file of their volume names the database. */
async function postmastersBelow(pid: number): Promise<Postmaster[]> {
  const found: Postmaster[] = []
  for (const member of await processTree(pid)) {
    const text = (path: string) => readFile(path, 'utf8').catch(() => '')
    const directory = /\0-D\0([^\0]+)\/pgdata\0/.exec(await text(join('/proc', String(member), 'cmdline')))?.[1]
    const identity = directory === undefined ? '' : await text(join(directory, 'espalier-identity.json'))
    const databaseId = /"databaseId":"([^"]+)"/.exec(identity)?.[1]
    if (databaseId !== undefined) found.push({ pid: member, databaseId })
  }
  return found
}

/** Names of entries at this depth below a directory. */
async function entries(directory: string, depth: number): Promise<string[]> {
  const names = (await readdir(directory).catch(() => [])).map(name => join(directory, name))
  return depth === 1 ? names : (await Promise.all(names.map(name => entries(name, depth - 1)))).flat()
}

/** Directories of volumes, snapshot images, and unfinished copies. */
async function directoriesOf(runtime: string): Promise<string[]> {
  const directories = [runtime, join(runtime, 'pool')].flatMap(root => [
    ...['volumes', 'snapshots', 'deferred'].map(name => entries(join(root, name), 2)),
    entries(join(root, 'staging'), 1),
  ])
  const found = [...(await Promise.all(directories)).flat(), ...(await entries(join(runtime, 'pods'), 1))]
  return found.filter(path => !path.endsWith('/espalier-probe'))
}

async function objectsOf(home: string): Promise<string[]> {
  const logger = pino({ level: 'silent' })
  const definitions = Object.values(declarations).map(definitionOf)
  const store = await openStore({ directory: pathsOf(home).store, definitions, logger })
  try {
    const cluster = store.connect('e2e')
    const lists = await Promise.all(kinds.map(async kind => (await cluster.list(kind)).items))
    const { items: tasks } = await cluster.list('Task')
    const open = tasks.filter(({ status }) => status?.finishedAt === undefined)
    return [...lists.flat(), ...open].map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)
  } finally {
    await store.close()
  }
}

export async function startEmbeddedTarget(): Promise<Target> {
  const home = await createHome()
  let running = await home.run()
  const { runtime } = pathsOf(home.path)

  async function killTree(): Promise<boolean> {
    await home.kill()
    running = await home.run()
    return true
  }
  const postmaster = (name: string, isWanted: (postmaster: Postmaster) => boolean): Kill => ({
    name,
    async strike(chance) {
      const { pid } = running.process
      const [first, ...others] = pid === undefined ? [] : (await postmastersBelow(pid)).filter(isWanted)
      if (first === undefined) return false
      try {
        return process.kill(chance.of([first, ...others]).pid, 'SIGKILL')
      } catch {
        // The process has just ended by itself.
        return false
      }
    },
  })

  return {
    api: async () => createApiClient(running.api, running.token),
    clientAddress: '127.0.0.1',
    killsWithinMs: 2_500,
    kills: ids => [
      { name: 'the process tree', strike: killTree },
      { name: 'the process tree', strike: killTree },
      postmaster('the postmaster of a database with writers', ({ databaseId }) => ids.includes(databaseId)),
      postmaster('any postmaster', () => true),
    ],
    async leftover() {
      let remaining: string[] = []
      const isClean = async () => {
        remaining = await directoriesOf(runtime)
        return remaining.length === 0
      }
      await eventually('every directory of a volume, snapshot or pod is deleted', isClean).catch(() => {})
      await home.stop()
      return [...remaining, ...(await objectsOf(home.path))]
    },
    stop: () => home.remove(),
  }
}
