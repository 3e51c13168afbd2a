/** Executes the actions of a plan. A permanent refusal by the cluster is returned, not thrown. */
import { type Cluster, ClusterError, isClusterError, isRefused, KindNotServedError } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import type { IdSource } from '../../values/id.ts'
import type { ArchiveWays } from '../archive/ways.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { withoutFinalizer } from '../objects/finalizer.ts'
import type { Checkpoints } from './checkpoints.ts'
import { deleteArchived } from './durable.ts'
import { identifiedBackup } from './id.ts'
import type { Observation } from './observe.ts'
import type { SnapshotSource } from './observed.ts'
import type { Action } from './plan/actions.ts'
import type { Refusal } from './plan/refusal.ts'
import { snapshotDraft } from './snapshot.ts'
import { beginVerification, endVerification, type Verifier } from './verification/act.ts'

type Executor = Verifier & {
  cluster: Cluster
  checkpoints: Checkpoints
  access: () => PostgresAccess | undefined
  reportUnreachable: (kind: 'ManagedDatabase' | 'Branch', key: string) => void
  newId: IdSource
  archive: () => ArchiveWays | undefined
  /** Aborts long work. */
  signal: AbortSignal
}

/**
 * @returns the refusal, if the cluster permanently refuses the action. Only a refused verification does not fail the
 * backup.
 */
export async function perform(
  { cluster, checkpoints, access, reportUnreachable, newId, archive, signal, ...verifier }: Executor,
  { observed, target, agent }: Observation,
  action: Action,
): Promise<Refusal | undefined> {
  const { backup } = observed
  switch (action.do) {
    case 'identify':
      await cluster.replace('Backup', identifiedBackup(backup, action.id ?? newId()))
      return undefined
    case 'checkpoint': {
      const { checkpoint, source } = observed
      if (checkpoint.state === 'unanswered' && source !== undefined)
        reportUnreachable(source.database.kind, keyOf(source.database))
      const postgres = access()
      if (postgres !== undefined && target !== undefined)
        checkpoints.request({ key: keyOf(backup), uid: backup.metadata.uid ?? '' }, postgres, target)
      return undefined
    }
    case 'create-snapshot':
      return createSnapshot(cluster, observed, action.of)
    case 'delete-snapshot': {
      const { namespace } = backup.metadata
      await cluster.delete('VolumeSnapshot', { namespace, name: action.name }, { uid: action.uid })
      return undefined
    }
    case 'begin-verification':
      return beginVerification({ cluster, ...verifier }, observed)
    case 'end-verification':
      await endVerification({ cluster }, observed)
      return undefined
    case 'begin-durable': {
      const { id } = observed
      // An agent that is busy with another backup ignores this request. The next pass repeats it.
      if (agent !== undefined && id !== undefined) await archive()?.begin(agent, id, signal)
      return undefined
    }
    case 'delete-archived': {
      const ways = archive()
      if (ways === undefined) throw new ClusterError('Conflict', 'the installation has no archive at the moment')
      await deleteArchived(ways, { backup, id: observed.id, target: agent }, signal)
      return undefined
    }
    case 'remove-finalizer':
      await cluster.replace('Backup', withoutFinalizer(backup))
      return undefined
  }
}

/** Compares the claim's uid in the cluster first, because a VolumeSnapshot names the claim without its uid. */
async function createSnapshot(
  cluster: Cluster,
  { backup, id, source }: Observation['observed'],
  of: SnapshotSource,
): Promise<Refusal | undefined> {
  if (id === undefined || source?.region === undefined)
    throw new ClusterError('Conflict', 'the region of the database does not exist')
  const { namespace } = backup.metadata
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: of.claim })
  if (claim?.metadata.uid !== of.claimUid || claim.metadata.deletionTimestamp !== undefined)
    return { reason: 'OtherData', message: `the volume claim ${of.claim} was replaced, or is being deleted` }
  try {
    await cluster.create('VolumeSnapshot', snapshotDraft(backup, id, source.region, of))
    return undefined
  } catch (error) {
    // Created by another pass: the next pass finds it.
    if (isClusterError(error, 'AlreadyExists')) return undefined
    if (error instanceof KindNotServedError || isRefused(error))
      return { reason: 'SnapshotRefused', message: `the cluster refuses the snapshot: ${error.message}` }
    throw error
  }
}
