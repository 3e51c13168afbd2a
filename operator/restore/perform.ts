/** Does what a plan names, one after the other: what fails keeps what comes after it, and the status, from being written. */
import { type Cluster, ClusterError, type Draft } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  memberOfClaim,
  mostPreviousListed,
  type PreviousVolume,
  type Restore,
  renderAskedRestore,
  teardownFinalizer,
} from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { timestamp } from '../../values/time.ts'
import { createTaken, takenBy } from '../backup/taken.ts'
import { nextConditions } from '../managed-database/conditions.ts'
import { type MemberExecutor, type MemberPass, performMember } from '../member/act.ts'
import { lock } from '../member/pod/lock.ts'
import { no } from '../objects/conditions.ts'
import { withUpdatedAt } from '../objects/updated-at.ts'
import type { Action } from './actions.ts'
import type { Observed } from './observed.ts'

type Executor = { cluster: Cluster; candidate: MemberExecutor; newId: IdSource; now: () => number }

/** `pass`: of the candidate; undefined where there is none. */
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
    case 'identify':
      await cluster.replace(
        'Restore',
        withFinalizers(restore, [...(restore.metadata.finalizers ?? []), teardownFinalizer]),
      )
      return
    case 'ask':
      return ask(executor, observed, action.backupName)
    case 'take-backup':
      return takeBackup(executor, restore, action)
    case 'candidate':
      // It accepts no clients, so it gets no passwords.
      if (pass !== undefined) await performMember(executor.candidate, pass, action.action, undefined)
      return
    case 'lock':
      return lock(cluster, { namespace, id: restore.spec.databaseId, ...previousOf(restore) }, restore)
    case 'switch':
      return change(executor, observed, action)
    case 'delete':
      await cluster.delete(action.left.kind, { namespace, name: action.left.name }, { uid: action.left.uid })
      return
    case 'release':
      await cluster.replace(
        'Restore',
        withFinalizers(restore, restore.metadata.finalizers?.filter(one => one !== teardownFinalizer) ?? []),
      )
      return
    case 'forget':
      await cluster.delete('Restore', { namespace, name }, { uid })
  }
}

/** The member that the restore replaces. */
const previousOf = ({ status }: Restore) => ({
  incarnation: status?.previous?.incarnation ?? 0,
  number: memberOfClaim(status?.previous?.claim),
})

const withFinalizers = (restore: Restore, finalizers: string[]): Restore => ({
  ...restore,
  metadata: { ...restore.metadata, finalizers },
})

/** On the database as it was looked at: whoever changed it meanwhile has it looked at again. */
async function ask({ cluster }: Executor, { restore, database }: Observed, backupName: string): Promise<void> {
  if (database === undefined) return
  const { discardPrevious } = restore.spec
  const asked = renderAskedRestore({ name: restore.metadata.name, backupName, discardPrevious })
  const metadata = {
    ...database.metadata,
    annotations: { ...database.metadata.annotations, [annotations.restore]: asked },
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
  const marks = { [labels.id]: newId(), [labels.managedBy]: managedByEspalier }
  const draft: Draft<'Backup'> = {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name,
      namespace,
      labels: { ...marks, ...(tenant === undefined ? {} : { [labels.tenant]: tenant }) },
      finalizers: [teardownFinalizer],
    },
    spec: { ...step, kind: 'hot' },
  }
  await createTaken(cluster, draft, step)
}

/** Incarnation and volume in one write, on the database as the cluster has it: a crash leaves the one or the other. */
async function change(
  { cluster, now }: Executor,
  { restore, anchor }: Observed,
  { from, to, volume }: Extract<Action, { do: 'switch' }>,
): Promise<void> {
  const { metadata, spec } = restore
  const database = await cluster.get('ManagedDatabase', { namespace: metadata.namespace, name: spec.databaseName })
  const { status = {}, metadata: current } = database ?? {}
  const isIt = current?.labels?.[labels.id] === spec.databaseId && current.deletionTimestamp === undefined
  if (database === undefined || !isIt || (status.incarnation ?? 1) !== from)
    throw new ClusterError('Conflict', 'the database is not what it was: its volume is not changed')
  // How large a volume was that grows by itself is of the old one.
  const { storage: _, ...rest } = status
  const findings = { Ready: no('Restoring', 'the restored data are made ready') }
  const conditions = nextConditions(status.conditions ?? [], findings, status.observedGeneration, now())
  const replaced = replacedVolume(restore, anchor, status, timestamp(now()))
  const previous = [...(status.previous ?? []), ...replaced].slice(-mostPreviousListed)
  await cluster.replaceStatus('ManagedDatabase', {
    ...database,
    status: withUpdatedAt(
      status,
      { ...rest, conditions, incarnation: to, volume, ...(previous.length === 0 ? {} : { previous }) },
      now(),
    ),
  })
}

/** The volume that served, as the database keeps it from now on. */
function replacedVolume(
  { metadata, spec }: Restore,
  anchor: Observed['anchor'],
  { incarnation = 1, volume, storageUsedBytes }: NonNullable<ManagedDatabase['status']>,
  replacedAt: string,
): PreviousVolume[] {
  if (volume === undefined) return []
  const isAnchored = anchor?.status?.phase === 'completed'
  return [
    {
      ...{ incarnation, claim: volume.claim, uid: volume.uid, replacedAt },
      ...{ restore: metadata.name, restoreUid: metadata.uid },
      ...(isAnchored ? { backup: anchor.metadata.name, backupUid: anchor.metadata.uid } : {}),
      ...(spec.discardPrevious ? { discard: true } : {}),
      ...(storageUsedBytes === undefined ? {} : { bytes: storageUsedBytes }),
    },
  ]
}
