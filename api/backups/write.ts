/** Carries out writes of backups: each is one object, which the operator does the rest of. */
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  branchPhase,
  childNames,
  labels,
  managedByEspalier,
  renderOperation,
  teardownFinalizer,
  tenantHash,
} from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { byDatabase, findOwned, idOf, readOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import { conflict, notFound, retryAfter } from '../errors.ts'
import type { Ids } from '../idempotency/claims.ts'
import { guarded, recordTask, timeNow, type Writer } from '../writer.ts'
import { decideBackup, decideVerification } from './decide.ts'

type Backup = Kinds['Backup']
type CreateBackup = { kind: Backup['spec']['kind'] }

/** The database, the time and what tells two of one second apart: the same for the same id, so that a retry makes no second one. */
function nameOf(database: string, id: string): string {
  const time = new Date(timeOfId(id) ?? 0).toISOString().replaceAll(/[-:]/g, '').slice(0, 15).replace('T', '-')
  return `${database}-${time}-${id.slice(-4)}`
}

/** @throws ApiError 400, 404, 409 */
export async function createBackup(
  writer: Writer,
  databaseId: string,
  { kind }: CreateBackup,
  ids: Ids,
): Promise<Backup> {
  const { context, account } = writer
  const { cluster, caches } = context
  const { namespace, tenantId } = account
  const database = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, databaseId)
  if (database === undefined) throw notFound('database')
  const key = { namespace, name: nameOf(database.metadata.name, ids.objectId) }
  const earlier = await cluster.get('Backup', key)
  const finished = async (backup: Backup): Promise<Backup> => {
    caches.Backup.writeThrough(backup)
    const subject = { kind: 'backup' as const, id: ids.objectId, name: key.name }
    await recordTask(writer, { taskId: ids.taskId, name: 'backup-managed', subject, request: { kind } })
    return backup
  }
  // An earlier try with the same ids came as far as this.
  if (earlier !== undefined && idOf(earlier) === ids.objectId) return finished(earlier)
  const region =
    caches.Region.get({ name: database.spec.region }) ?? (await cluster.get('Region', { name: database.spec.region }))
  decideBackup({ kind, database, region, kept: keptOf(context, namespace, databaseId) })
  const marks = {
    [labels.id]: ids.objectId,
    [labels.tenant]: tenantHash(tenantId),
    [labels.managedBy]: managedByEspalier,
  }
  const operation = renderOperation({ taskId: ids.taskId, name: 'backup-managed', hash: '' })
  try {
    const backup = await cluster.create('Backup', {
      apiVersion,
      kind: 'Backup',
      metadata: {
        ...key,
        labels: marks,
        annotations: { [annotations.operation]: operation },
        finalizers: [teardownFinalizer],
      },
      spec: { databaseName: database.metadata.name, databaseId, kind, purpose: 'user' },
    })
    return await finished(backup)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const winner = await cluster.get('Backup', key)
    if (winner === undefined || idOf(winner) !== ids.objectId) throw error
    return finished(winner)
  }
}

const keptOf = ({ caches }: ApiContext, namespace: string, databaseId: string): number =>
  caches.Backup.list({ namespace }).filter(
    ({ spec, status }) => spec.databaseId === databaseId && spec.purpose === 'user' && status?.phase !== 'failed',
  ).length

/** Asks for a check of a copy. @throws ApiError 404, 409 */
export async function verifyBackup({ context, account }: Writer, id: string): Promise<Backup> {
  const { cluster, caches } = context
  const backup = await guarded({ namespace: account.namespace, id, what: 'backup' }, async () => {
    const current = await readOwned(cluster, 'Backup', account.namespace, id)
    if (current === undefined) throw notFound('backup')
    decideVerification(current)
    const marks = { ...current.metadata.annotations, [annotations.verify]: timeNow(context) }
    return cluster.replace('Backup', { ...current, metadata: { ...current.metadata, annotations: marks } })
  })
  caches.Backup.writeThrough(backup)
  return backup
}

/** The branch that is being made from a backup. */
function madeFrom({ caches }: ApiContext, backup: Backup): Kinds['Branch'] | undefined {
  if (backup.spec.purpose !== 'prebranch') return undefined
  return caches.Branch.byIndex(byDatabase, backup.spec.databaseId).find(
    branch => branchPhase(branch) === 'creating' && childNames.prebranch(idOf(branch) ?? '') === backup.metadata.name,
  )
}

/** Asks for deletion; asking again changes nothing. @throws ApiError 404, 409 while a branch is being made from it, 412 */
export async function deleteBackup(
  { context, account }: Writer,
  id: string,
  requireCurrent: ((current: Backup) => Promise<void>) | undefined,
): Promise<void> {
  const { cluster } = context
  await guarded({ namespace: account.namespace, id, what: 'backup' }, async () => {
    const backup = await readOwned(cluster, 'Backup', account.namespace, id)
    if (backup === undefined) throw notFound('backup')
    if (backup.metadata.deletionTimestamp !== undefined) return
    await requireCurrent?.(backup)
    const branch = madeFrom(context, backup)
    if (branch !== undefined)
      throw conflict(
        `the branch ${branch.metadata.name} is being made from it: it goes by itself then`,
        retryAfter.busy,
      )
    const { namespace, name, uid, resourceVersion } = backup.metadata
    // Where nothing depends on its version, what the operator writes meanwhile is no reason to try again.
    await cluster.delete(
      'Backup',
      { namespace, name },
      requireCurrent === undefined ? { uid } : { uid, resourceVersion },
    )
  })
}
