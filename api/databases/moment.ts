/**
 * The target of a restore or branch in a request: a backup, or a point in the archive. Refuses by throwing ApiError.
 */
import type { Kinds } from '../../cluster/index.ts'
import { momentFields, type RestoreTarget, recoveryTo, recoveryWindow } from '../../crds/index.ts'
import type { ApiContext } from '../context.ts'
import { badRequest } from '../errors.ts'
import { id } from '../schemas/common.ts'

/** Returns all cached backups of the database. */
export const backupsOf = ({ caches }: ApiContext, namespace: string, databaseId: string): Kinds['Backup'][] =>
  caches.Backup.list({ namespace }).filter(({ spec }) => spec.databaseId === databaseId)

/** The fields of a body that name a target. */
export const targetFields = {
  backup_id: id.optional().describe('The id of a completed backup of this database.'),
  target_time: momentFields.time.describe(
    'A time, RFC 3339. The data are those of the last commit at or before it. It must be within the recovery window.',
  ),
  target_lsn: momentFields.lsn.describe('A WAL position. The data include all earlier commits.'),
  target_name: momentFields.pointName.describe('A restore point created by `pg_create_restore_point`.'),
}
const targetNames = ['backup_id', 'target_time', 'target_lsn', 'target_name'] as const
type Named<Name extends string> = { [name in Name]?: string | undefined }
type TargetInput = Named<(typeof targetNames)[number]>

/**
 * Returns the only field that is set, if any. `more`: additional fields that name a target.
 * @throws ApiError 400 if several fields are set
 */
export function onlyTarget<More extends string = never>(
  input: TargetInput & Named<More>,
  more: readonly More[] = [],
): (typeof targetNames)[number] | More | undefined {
  const names = [...targetNames, ...more]
  const [first, second] = names.filter(name => input[name] !== undefined)
  if (second !== undefined)
    throw badRequest(`${second}: cannot be combined with ${first}: set one of ${names.join(', ')}`)
  return first
}

/** @throws ApiError 400 unless exactly one field is set */
export function refuseOtherThanOne<More extends string>(input: TargetInput & Named<More>, more: readonly More[]): void {
  if (onlyTarget(input, more) === undefined)
    throw badRequest(`backup_id: is required, or one of ${[...targetNames, ...more].slice(1).join(', ')}`)
}

/** @throws ApiError 400 if the archive cannot restore to that point */
export function decideMoment(
  database: Kinds['ManagedDatabase'],
  backups: readonly Kinds['Backup'][],
  { target_time: time, target_lsn: lsn, target_name: pointName }: TargetInput,
): RestoreTarget {
  const field = time !== undefined ? 'target_time' : lsn !== undefined ? 'target_lsn' : 'target_name'
  if (!database.spec.backup.durable) throw badRequest(`${field}: the durable tier of the database is off`)
  const target = { time, lsn, pointName }
  const chosen = recoveryTo(recoveryWindow(database, backups), target)
  if ('refused' in chosen) throw badRequest(`${field}: ${chosen.refused}`)
  return Object.fromEntries(Object.entries(target).filter(([, value]) => value !== undefined))
}
