/** The Restore that the database's annotation requests. The API writes this annotation. Pure. */
import type { Draft } from '../../../cluster/index.ts'
import { apiVersion, isRestoreRequested, labels, managedByEspalier, requestedRestore } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

/** Creates the requested Restore if it does not exist. */
export function restoreRecording(
  { database, previous }: Pick<Observed, 'database' | 'previous'>,
  { id }: Owner,
): Action[] {
  const requested = isRestoreRequested(database) ? requestedRestore(database) : undefined
  if (requested === undefined || previous.restores.some(({ metadata }) => metadata.name === requested.name)) return []
  const { name, id: restoreId, discardPrevious, ...target } = requested
  const { name: databaseName, namespace = '', labels: objectLabels } = database.metadata
  const tenant = objectLabels?.[labels.tenant]
  const draft: Draft<'Restore'> = {
    apiVersion,
    kind: 'Restore',
    metadata: {
      name,
      namespace,
      labels: {
        [labels.managedBy]: managedByEspalier,
        ...(restoreId === undefined ? {} : { [labels.id]: restoreId }),
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
    },
    spec: {
      databaseName,
      databaseId: id,
      target,
      ...(discardPrevious ? { discardPrevious: true } : {}),
    },
  }
  return [{ do: 'record-restore', draft }]
}
