/** Does what a plan names to the database itself; what concerns its Postgres is the workload's to do. */
// @ts-nocheck

import { labels, type ManagedDatabase, teardownFinalizer } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { type Done, type Executor, type Pass, perform as performInstance } from '../workload/execute.ts'
import type { Action } from './actions.ts'
import { finishDeletion } from './release.ts'

export async function perform(
  executor: Executor & { newId: IdSource },
  pass: Pass,
  database: ManagedDatabase,
  action: Action,
): Promise<Done | 'released'> {
  switch (action.do) {
    case 'identify':
      await executor.cluster.replace('ManagedDatabase', identified(database, action.id ?? executor.newId()))
      return 'done'
    case 'finish-deletion':
      return finishDeletion(executor.cluster, database)
    default:
      return performInstance(executor, pass, action)
  }
}

function identified(database: ManagedDatabase, id: string): ManagedDatabase {
  const { metadata } = database
  const finalizers = new Set(metadata.finalizers)
  // Nothing can hold back an object that is on its way out already.
  if (metadata.deletionTimestamp === undefined) finalizers.add(teardownFinalizer)
  return {
    ...database,
    metadata: { ...metadata, labels: { ...metadata.labels, [labels.id]: id }, finalizers: [...finalizers] },
  }
}
