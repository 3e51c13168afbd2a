/** Does what a plan names to the database itself; what concerns its Postgres is the workload's to do. */
import { annotations, type ManagedDatabase } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { identified } from '../objects/held.ts'
import { type Done, type Executor, type Pass, perform as performInstance } from '../workload/act.ts'
import type { Action } from './actions.ts'
import { writeConnectionSecret } from './connection-secrets.ts'
import { orphan } from './orphan.ts'
import { deletePrevious } from './previous.ts'
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
    case 'delete-previous':
      await deletePrevious(executor.cluster, database, action)
      return 'done'
    case 'write-connection-secret': {
      const { passwords, keys, observed } = pass
      await writeConnectionSecret(executor.cluster, database, action.secret, { owner: observed.owner, passwords, keys })
      return 'done'
    }
    case 'remove-force':
      await executor.cluster.replace('ManagedDatabase', withoutForce(database))
      return 'done'
    case 'orphan':
      await orphan(executor.cluster, database, pass.observed.remains.routes)
      return 'released'
    case 'finish-deletion':
      return finishDeletion(executor.cluster, database)
    default:
      return performInstance(executor, pass, action)
  }
}

function withoutForce(database: ManagedDatabase): ManagedDatabase {
  const { [annotations.force]: _, ...rest } = database.metadata.annotations ?? {}
  return { ...database, metadata: { ...database.metadata, annotations: rest } }
}
