/** Executes the actions that only the plan of a database has. */
import type { Cluster, Draft } from '../../cluster/index.ts'
import type { EventRecorder } from '../../controller/index.ts'
import { annotations, canonicalJson, type ManagedDatabase, type ManagedDatabaseStatus } from '../../crds/index.ts'
import { createIfAbsent } from '../objects/create.ts'
import type { Pass, Result } from '../owner/kind.ts'
import type { OwnAction } from './actions.ts'
import { writeConnectionSecret } from './connection-secrets.ts'
import { type Importer, performImport } from './import/act.ts'
import type { Observed } from './observed.ts'
import { orphan, orphanedEvent } from './orphan.ts'
import { deletePrevious } from './previous-volume.ts'

export async function perform(
  { cluster, events, importer }: { cluster: Cluster; events: EventRecorder; importer: Omit<Importer, 'cluster'> },
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
    case 'record-deletion':
      await recordDeletion(cluster, action.draft)
      return 'done'
    case 'start-import':
    case 'end-import':
    case 'delete-import-source': {
      const ca = keys.authority?.accepted ?? ''
      return performImport({ ...importer, cluster }, { observed, passwords, keys, ca }, action)
    }
    case 'remove-force':
      await cluster.replace('ManagedDatabase', withoutForce(database))
      return 'replaced'
    case 'orphan':
      await orphan(cluster, database, owned.routes)
      events.record(database, ...orphanedEvent(database))
      return 'replaced'
  }
}

async function recordDeletion(cluster: Cluster, draft: Draft<'ConfigMap'>): Promise<void> {
  if (await createIfAbsent(cluster, 'ConfigMap', draft)) return
  const found = await cluster.get('ConfigMap', draft.metadata)
  const data = draft.data ?? {}
  // The cache that the plan read may lag behind an earlier pass.
  if (found !== undefined && canonicalJson(found.data) !== canonicalJson(data))
    await cluster.replace('ConfigMap', { ...found, data })
}

function withoutForce(database: ManagedDatabase): ManagedDatabase {
  const { [annotations.force]: _, ...rest } = database.metadata.annotations ?? {}
  return { ...database, metadata: { ...database.metadata, annotations: rest } }
}
