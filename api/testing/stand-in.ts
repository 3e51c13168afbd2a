/** A stand-in for the operator that settles whatever it sees at once, for tests that ask for more than they can settle one by one. */
import { pino } from 'pino'
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { type Harness, settle } from './harness.ts'

type Settled = 'ManagedDatabase' | 'Backup' | 'Branch'

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

/** Settles databases, backups and branches of the default tenant until it is stopped. */
export async function startStandIn({ cluster }: Harness): Promise<() => Promise<void>> {
  const logger = pino({ level: 'silent' })
  const watch = <K extends Settled>(kind: K, settleOne: (object: Kinds[K]) => Promise<unknown>) => {
    const informer = createInformer(cluster, kind, { logger })
    informer.onChange(async ({ type, object }) => {
      if (type !== 'set' || object.metadata.deletionTimestamp !== undefined) return
      try {
        await settleOne(object)
      } catch (error) {
        // Changed or deleted meanwhile: there is another change to come.
        if (!isClusterError(error, 'Conflict', 'NotFound') && (await stillThere(kind, object))) throw error
      }
    })
    return informer
  }
  const stillThere = async <K extends Settled>(kind: K, { metadata: { name, namespace = '' } }: Kinds[K]) =>
    (await cluster.get(kind, { name, namespace })) !== undefined
  const informers = [
    watch('ManagedDatabase', async database => {
      if (database.status?.phase !== 'available') await settle(cluster, 'acme', database.metadata.name)
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
