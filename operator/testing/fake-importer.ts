/** Acts like a node that runs import pods. They end with the outcome that a test sets. */
import type { Cluster, Pod } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import type { ImportOutcome } from '../../instance/import/contract.ts'
import { importContainer } from '../managed-database/import/facts.ts'

const completeImport: ImportOutcome = {
  result: { sourceVersion: '16.4', tables: 3, rows: 1_000, bytes: 9_000_000, leftOut: ['EVENT TRIGGER audit'] },
}

export type FakeImporter = Awaited<ReturnType<typeof startFakeImporter>>

export async function startFakeImporter(cluster: Cluster) {
  const stopped = new AbortController()
  /** The results of the next imports. Without any, they end successfully. `runs`: the import does not end. */
  const endings: (ImportOutcome | 'runs')[] = []
  const seen: Pod[] = []
  const selection = { labels: { [labels.component]: 'import' } } as const
  const end = async (pod: Pod, outcome: ImportOutcome) => {
    const exitCode = 'result' in outcome ? 0 : 1
    const terminated = { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error', message: JSON.stringify(outcome) }
    const containerStatuses = [
      { name: importContainer, image: '', imageID: '', ready: false, restartCount: 0, state: { terminated } },
    ]
    const status = { phase: exitCode === 0 ? 'Succeeded' : 'Failed', containerStatuses } as const
    await cluster.replaceStatus('Pod', { ...pod, status: status as NonNullable<Pod['status']> }).catch(() => {})
  }
  const { resourceVersion } = await cluster.list('Pod', selection)
  const watching = (async () => {
    for await (const event of cluster.watch('Pod', { ...selection, resourceVersion, signal: stopped.signal })) {
      if (event.type !== 'ADDED') continue
      seen.push(event.object)
      const ending = endings.shift() ?? completeImport
      if (ending !== 'runs') await end(event.object, ending)
    }
  })()
  return {
    endings,
    seen,
    end,
    stop: async () => {
      stopped.abort()
      await watching
    },
  }
}
