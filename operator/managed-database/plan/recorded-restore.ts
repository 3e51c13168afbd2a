/** The Restore that records what a database asks for by its annotation, as the API writes it. Pure. */
import type { Draft } from '../../../cluster/index.ts'
import { apiVersion, askedRestore, isRestoreAsked, labels, managedByEspalier } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

/** Creates the Restore that is requested, where it does not exist. */
export function restoreRecording(
  { database, previous }: Pick<Observed, 'database' | 'previous'>,
  { id }: Owner,
): Action[] {
  const asked = isRestoreAsked(database) ? askedRestore(database) : undefined
  if (asked === undefined || previous.restores.some(({ metadata }) => metadata.name === asked.name)) return []
  const { name: databaseName, namespace = '', labels: marks } = database.metadata
  const tenant = marks?.[labels.tenant]
  const draft: Draft<'Restore'> = {
    apiVersion,
    kind: 'Restore',
    metadata: {
      name: asked.name,
      namespace,
      labels: {
        [labels.managedBy]: managedByEspalier,
        ...(asked.id === undefined ? {} : { [labels.id]: asked.id }),
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
    },
    spec: {
      databaseName,
      databaseId: id,
      target: { backupName: asked.backupName },
      ...(asked.discardPrevious ? { discardPrevious: true } : {}),
    },
  }
  return [{ do: 'record-restore', draft }]
}
