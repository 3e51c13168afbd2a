/** A fake operator that completes every object immediately, for tests with many objects. */
import { pino } from 'pino'
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { type Harness, reconcile } from './harness.ts'

type Completed = 'ManagedDatabase' | 'Backup' | 'Branch'

const now = () => new Date().toISOString()
const backupStatus = (): NonNullable<Kinds['Backup']['status']> => ({
  phase: 'completed',
  finishedAt: now(),
  cutAt: now(),
})
const branchStatus = (): NonNullable<Kinds['Branch']['status']> => ({
  phase: 'available',
  connectableAt: now(),
  endpoint: { host: '127.0.0.1', port: 15433 },
})

/** Completes databases, backups and branches of the default tenant until it is stopped. */
export async function startStandIn({ cluster }: Harness): Promise<() => Promise<void>> {
  const logger = pino({ level: 'silent' })
  const watch = <K extends Completed>(kind: K, complete: (object: Kinds[K]) => Promise<unknown>) => {
    const informer = createInformer(cluster, kind, { logger })
    informer.onChange(async ({ type, object }) => {
      if (type !== 'set' || object.metadata.deletionTimestamp !== undefined) return
      try {
        await complete(object)
      } catch (error) {
        // If the object was changed or deleted in the meantime, another event follows.
        if (!isClusterError(error, 'Conflict', 'NotFound') && (await stillThere(kind, object))) throw error
      }
    })
    return informer
  }
  const stillThere = async <K extends Completed>(kind: K, { metadata: { name, namespace = '' } }: Kinds[K]) =>
    (await cluster.get(kind, { name, namespace })) !== undefined
  const informers = [
    watch('ManagedDatabase', async database => {
      if (database.status?.phase !== 'available') await reconcile(cluster, 'acme', database.metadata.name)
    }),
    watch('Backup', async backup => {
      if (backup.status?.phase !== 'completed')
        await cluster.replaceStatus('Backup', { ...backup, status: backupStatus() })
    }),
    watch('Branch', async branch => {
      if (branch.status?.phase !== 'available')
        await cluster.replaceStatus('Branch', { ...branch, status: branchStatus() })
    }),
  ]
  for (const informer of informers) await informer.start()
  return async () => {
    for (const informer of informers) await informer.stop()
  }
}
