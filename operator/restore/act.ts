/** Executes the actions of a plan in order. If one fails, the later actions and the status update are skipped. */
import type { Cluster, Draft } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  labels,
  managedByEspalier,
  memberOfClaim,
  type Restore,
  renderRequestedRestore,
  teardownFinalizer,
} from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { type MemberExecutor, type MemberPass, performMember } from '../member/act.ts'
import { lock } from '../member/pod/lock.ts'
import { withFinalizer, withoutFinalizer } from '../objects/finalizer.ts'
import { createTaken, takenBy } from '../objects/operator-backups.ts'
import type { Action } from './actions.ts'
import type { Observed } from './observed.ts'

type Executor = { cluster: Cluster; candidate: MemberExecutor; newId: IdSource }

/** `pass`: the state of the candidate's reconcile; undefined without a candidate. */
export async function perform(
  executor: Executor,
  observed: Observed,
  pass: MemberPass | undefined,
  action: Action,
): Promise<void> {
  const { cluster } = executor
  const { restore } = observed
  const { namespace, name, uid } = restore.metadata
  switch (action.do) {
    case 'add-finalizer':
      await cluster.replace('Restore', withFinalizer(restore))
      return
    case 'request-on-database':
      return requestOfDatabase(executor, observed)
    case 'take-backup':
      return takeBackup(executor, restore, action)
    case 'candidate':
      // It accepts no clients, so it gets no passwords.
      if (pass !== undefined) await performMember(executor.candidate, pass, action.action, undefined)
      return
    case 'lock':
      return lock(cluster, { namespace, id: restore.spec.databaseId, ...previousOf(restore) }, restore)
    case 'delete':
      await cluster.delete(
        action.leftover.kind,
        { namespace, name: action.leftover.name },
        { uid: action.leftover.uid },
      )
      return
    case 'remove-finalizer':
      await cluster.replace('Restore', withoutFinalizer(restore))
      return
    case 'delete-restore':
      await cluster.delete('Restore', { namespace, name }, { uid })
  }
}

/** The old Postgres, which the restore replaces. */
const previousOf = ({ status }: Restore) => ({
  incarnation: status?.previous?.incarnation ?? 0,
  number: memberOfClaim(status?.previous?.claim),
})

/**
 * Sets the restore annotation on the observed version of the database. After a conflict, the next pass decides again.
 */
async function requestOfDatabase({ cluster }: Executor, { restore, database }: Observed): Promise<void> {
  if (database === undefined) return
  const { discardPrevious, target } = restore.spec
  const requested = renderRequestedRestore({ name: restore.metadata.name, ...target, discardPrevious })
  const metadata = {
    ...database.metadata,
    annotations: { ...database.metadata.annotations, [annotations.restore]: requested },
  }
  await cluster.replace('ManagedDatabase', { ...database, metadata })
}

async function takeBackup(
  { cluster, newId }: Executor,
  restore: Restore,
  { name, purpose }: Extract<Action, { do: 'take-backup' }>,
): Promise<void> {
  const { metadata } = restore
  const { namespace = '' } = metadata
  const step = takenBy(restore, purpose)
  const tenant = metadata.labels?.[labels.tenant]
  const newLabels = { [labels.id]: newId(), [labels.managedBy]: managedByEspalier }
  const draft: Draft<'Backup'> = {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name,
      namespace,
      labels: { ...newLabels, ...(tenant === undefined ? {} : { [labels.tenant]: tenant }) },
      finalizers: [teardownFinalizer],
    },
    spec: { ...step, kind: 'hot' },
  }
  await createTaken(cluster, draft, step)
}
