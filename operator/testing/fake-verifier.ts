/** Acts like a node that runs the pods which check copies of backups. They end with the output that a test sets. */
import type { Cluster, Pod } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { verifierContainer } from '../backup/verification/drafts.ts'

type VerifierEnding = { exitCode: number; message: string }

export const soundCopy: VerifierEnding = {
  exitCode: 0,
  message: JSON.stringify({
    ...{ version: '18.4', databases: 3, relations: 200, indexes: 500, pages: 4_000, faults: 0, findings: [] },
  }),
}

export async function startFakeVerifier(cluster: Cluster) {
  const stopped = new AbortController()
  const seen: Pod[] = []
  /** The output of the next verifications. `undefined`: they keep running. */
  let ending: VerifierEnding | undefined = soundCopy
  const selection = { labels: { [labels.component]: 'verification' } } as const
  const end = async (pod: Pod, ending: VerifierEnding) => {
    if (pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed') return
    const terminated = { ...ending, reason: ending.exitCode === 0 ? 'Completed' : 'Error' }
    const containerStatuses = [
      { name: verifierContainer, image: '', imageID: '', ready: false, restartCount: 0, state: { terminated } },
    ]
    const status = { phase: ending.exitCode === 0 ? 'Succeeded' : 'Failed', containerStatuses } as const
    await cluster.replaceStatus('Pod', { ...pod, status: status as NonNullable<Pod['status']> }).catch(() => {})
  }
  const { resourceVersion } = await cluster.list('Pod', selection)
  const watching = (async () => {
    for await (const event of cluster.watch('Pod', { ...selection, resourceVersion, signal: stopped.signal })) {
      if (event.type !== 'ADDED') continue
      seen.push(event.object)
      if (ending !== undefined) await end(event.object, ending)
    }
  })()
  return {
    seen,
    says: (next: VerifierEnding | undefined) => {
      ending = next
    },
    /** Ends running verifications successfully. */
    endAll: async () => {
      for (const pod of (await cluster.list('Pod', selection)).items) await end(pod, soundCopy)
    },
    stop: async () => {
      stopped.abort()
      await watching
    },
  }
}
