/** Which backups the operator takes by itself as a step of something else. A name alone does not show that one is of those. */
import { type Cluster, ClusterError, type Draft } from '../../cluster/index.ts'
import { type Backup, labels, type ManagedDatabase, managedByEspalier, type Restore } from '../../crds/index.ts'
import { createIfAbsent } from '../objects/create.ts'

export type RestorePurpose = 'prerestore' | 'postrestore'
type Step = Pick<Backup['spec'], 'databaseName' | 'databaseId' | 'sourceBranch'> & {
  purpose: 'prebranch' | RestorePurpose
}

/** What a restore takes of its database. */
export const takenFor = <P extends RestorePurpose>({ metadata }: Pick<ManagedDatabase, 'metadata'>, purpose: P) => ({
  ...{ databaseName: metadata.name, databaseId: metadata.labels?.[labels.id] ?? '', purpose },
})

/** What a restore takes. */
export const takenBy = <P extends RestorePurpose>({ spec }: Restore, purpose: P) => ({
  ...{ databaseName: spec.databaseName, databaseId: spec.databaseId, purpose },
})

/** Whether a backup is marked as the operator's, and is of just this: what stands under its name may be anybody's. */
export const isTakenFor = ({ metadata, spec }: Backup, step: Step): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier &&
  spec.kind === 'hot' &&
  spec.purpose === step.purpose &&
  spec.databaseName === step.databaseName &&
  spec.databaseId === step.databaseId &&
  spec.sourceBranch?.id === step.sourceBranch?.id

/** One that is there already is the one where another pass made it. @throws ClusterError `Conflict` where it is somebody else's */
export async function createTaken(cluster: Cluster, draft: Draft<'Backup'>, step: Step): Promise<void> {
  if (await createIfAbsent(cluster, 'Backup', draft)) return
  const { namespace, name } = draft.metadata
  const found = await cluster.get('Backup', { namespace, name })
  if (found === undefined || !isTakenFor(found, step))
    throw new ClusterError('Conflict', `the backup ${name} is there already, and was made by somebody else`)
}
