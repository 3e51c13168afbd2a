/** The backups that the operator takes as a step of a branch or a restore. Their names alone do not identify them. */
import { type Cluster, ClusterError, type Draft } from '../../cluster/index.ts'
import { type Backup, labels, type ManagedDatabase, managedByEspalier, type Restore } from '../../crds/index.ts'
import { createIfAbsent } from './create.ts'

export type RestorePurpose = 'prerestore' | 'postrestore'
type Step = Pick<Backup['spec'], 'databaseName' | 'databaseId' | 'sourceBranch'> & {
  purpose: 'prebranch' | RestorePurpose
}

/** The backup that a restore of this database takes. */
export const takenFor = <P extends RestorePurpose>({ metadata }: Pick<ManagedDatabase, 'metadata'>, purpose: P) => ({
  ...{ databaseName: metadata.name, databaseId: metadata.labels?.[labels.id] ?? '', purpose },
})

/** The backup that this restore takes. */
export const takenBy = <P extends RestorePurpose>({ spec }: Restore, purpose: P) => ({
  ...{ databaseName: spec.databaseName, databaseId: spec.databaseId, purpose },
})

/** The restore that takes the backup with this name before it begins. Undefined for a name in another format. */
export const restoreNameOf = (backupName: string): string | undefined =>
  /^(.+)-[0-9a-f]{8}-prerestore$/.exec(backupName)?.[1]

/**
 * Whether the backup has the operator's label, and is for this step. A user may have created another backup with this
 * name.
 */
export const isTakenFor = ({ metadata, spec }: Backup, step: Step): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier &&
  spec.kind === 'hot' &&
  spec.purpose === step.purpose &&
  spec.databaseName === step.databaseName &&
  spec.databaseId === step.databaseId &&
  spec.sourceBranch?.id === step.sourceBranch?.id

/**
 * Creates the backup, unless an earlier pass created it. @throws ClusterError `Conflict` if another owner's backup has
 * its name
 */
export async function createTaken(cluster: Cluster, draft: Draft<'Backup'>, step: Step): Promise<void> {
  if (await createIfAbsent(cluster, 'Backup', draft)) return
  const { namespace, name } = draft.metadata
  const found = await cluster.get('Backup', { namespace, name })
  if (found === undefined || !isTakenFor(found, step))
    throw new ClusterError('Conflict', `the backup ${name} already exists, and the operator did not create it`)
}
