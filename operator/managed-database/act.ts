/** Performs what a plan requests of the database itself. */
import type { Cluster } from '../../cluster/index.ts'
import type { EventRecorder } from '../../controller/index.ts'
import { annotations, type ManagedDatabase, type ManagedDatabaseStatus } from '../../crds/index.ts'
import { createIfAbsent } from '../objects/create.ts'
import type { Pass, Result } from '../owner/kind.ts'
import type { OwnAction } from './actions.ts'
import { writeConnectionSecret } from './connection-secrets.ts'
import type { Observed } from './observed.ts'
import { orphan, orphanedEvent } from './orphan.ts'
import { deletePrevious } from './previous-volume.ts'

export async function perform(
  { cluster, events }: { cluster: Cluster; events: EventRecorder },
  { observed, passwords, keys }: Pass<Observed>,
  action: OwnAction,
): Promise<Result<ManagedDatabaseStatus>> {
  const { database, owner, owned } = observed
  switch (action.do) {
    case 'delete-previous':
      await deletePrevious(cluster, database, action)
      return 'done'
    case 'write-connection-secret':
      await writeConnectionSecret(cluster, database, action.secret, { owner, passwords, keys })
      return 'done'
    case 'record-restore':
      await createIfAbsent(cluster, 'Restore', action.draft)
      return 'done'
    case 'remove-force':
      await cluster.replace('ManagedDatabase', withoutForce(database))
      return 'replaced'
    case 'orphan':
      await orphan(cluster, database, owned.routes)
      events.record(database, ...orphanedEvent(database))
      return 'replaced'
  }
}

function withoutForce(database: ManagedDatabase): ManagedDatabase {
  const { [annotations.force]: _, ...rest } = database.metadata.annotations ?? {}
  return { ...database, metadata: { ...database.metadata, annotations: rest } }
}
