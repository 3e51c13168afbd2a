/** Does what a plan names. What the cluster refuses for good is an answer, not an error. */
// @ts-nocheck

import { type Cluster, ClusterError, isClusterError, KindNotServedError } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import { type Backup, labels, teardownFinalizer } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import type { PostgresAccess } from '../workload/access.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Observation } from './observe.ts'
import type { CutOf } from './observed.ts'
import type { Action } from './plan/index.ts'
import type { Refusal } from './plan/refusal.ts'
import { snapshotDraft } from './snapshot.ts'

type Executor = {
  /** Every write goes through it. */
  cluster: Cluster
  checkpoints: Checkpoints
  access: () => PostgresAccess | undefined
  newId: IdSource
}

/** @returns why the backup has failed by it */
export async function perform(
  { cluster, checkpoints, access, newId }: Executor,
  { observed, target }: Observation,
  action: Action,
): Promise<Refusal | undefined> {
  const { backup } = observed
  switch (action.do) {
    case 'identify':
      await cluster.replace('Backup', identified(backup, action.id ?? newId()))
      return undefined
    case 'checkpoint': {
      const way = access()
      if (way !== undefined && target !== undefined)
        checkpoints.ask({ key: keyOf(backup), uid: backup.metadata.uid ?? '' }, way, target)
      return undefined
    }
    case 'create-snapshot':
      return createSnapshot(cluster, observed, action.of)
    case 'delete-snapshot': {
      const { namespace } = backup.metadata
      await cluster.delete('VolumeSnapshot', { namespace, name: action.name }, { uid: action.uid })
      return undefined
    }
    case 'release': {
      const finalizers = backup.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
      await cluster.replace('Backup', { ...backup, metadata: { ...backup.metadata, finalizers } })
      return undefined
    }
  }
}

function identified(backup: Backup, id: string): Backup {
  const { metadata } = backup
  const finalizers = [...new Set([...(metadata.finalizers ?? []), teardownFinalizer])]
  return { ...backup, metadata: { ...metadata, labels: { ...metadata.labels, [labels.id]: id }, finalizers } }
}

/** Of the very claim that Postgres runs on, by the cluster's own word: a snapshot names a claim, and no uid. */
async function createSnapshot(
  cluster: Cluster,
  { backup, id, source }: Observation['observed'],
  of: CutOf,
): Promise<Refusal | undefined> {
  if (id === undefined || source?.region === undefined)
    throw new ClusterError('Conflict', 'the region of the database is not there')
  const { namespace } = backup.metadata
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: of.claim })
  if (claim?.metadata.uid !== of.claimUid || claim.metadata.deletionTimestamp !== undefined)
    return { reason: 'OtherData', message: `the volume claim ${of.claim} is not what it was, or is being deleted` }
  try {
    await cluster.create('VolumeSnapshot', snapshotDraft(backup, id, source.region, of))
    return undefined
  } catch (error) {
    // Made by another pass: the next one finds it.
    if (isClusterError(error, 'AlreadyExists')) return undefined
    if (error instanceof KindNotServedError || isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest'))
      return { reason: 'SnapshotRefused', message: `the cluster refuses the snapshot: ${error.message}` }
    throw error
  }
}
