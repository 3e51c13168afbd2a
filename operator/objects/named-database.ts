/**
 * Branches, Backups and Restores that refer to their database only by name, so that users can store them in git. The
 * operator sets `databaseId` once, and the API server refuses later changes. An object never switches to a new database
 * with the same name. A condition reports that there is one.
 */
import type { Cluster } from '../../cluster/index.ts'
import { type Informer, keyOf } from '../../cluster/informer/index.ts'
import {
  type Backup,
  type Branch,
  type Condition,
  isCreatedBefore,
  isTeardownBegun,
  labels,
  type ManagedDatabase,
  type Restore,
} from '../../crds/index.ts'
import { conditionsAfter, type Finding, no, yes } from './conditions.ts'

type Named = Branch | Backup | Restore

const idOf = (database: ManagedDatabase | undefined): string | undefined => database?.metadata.labels?.[labels.id]

/** Whether the operator must still set the id. */
export const lacksDatabaseId = ({ metadata, spec }: Named): boolean =>
  spec.databaseId === '' && metadata.deletionTimestamp === undefined

/**
 * Sets the id of the database. Reads the database from the cluster, because a cache may still have a deleted one.
 * Returns why to wait if there is no database yet.
 */
export async function fillInDatabaseId(cluster: Cluster, object: Named): Promise<'filled' | Finding> {
  const { databaseName: name } = object.spec
  const database = await cluster.get('ManagedDatabase', { namespace: object.metadata.namespace, name })
  const id = idOf(database)
  if (database === undefined) return no('DatabaseMissing', `spec.databaseName: there is no database ${name} yet`)
  if (isTooLate(object, database))
    return no('DatabaseDeleting', `spec.databaseName: the database ${name} is being deleted`)
  if (id === undefined) return no('DatabaseUnidentified', `spec.databaseName: the database ${name} has no id yet`)
  if (object.kind === 'Branch') await cluster.replace('Branch', withId(object, id))
  else if (object.kind === 'Backup') await cluster.replace('Backup', withId(object, id))
  else await cluster.replace('Restore', withId(object, id))
  return 'filled'
}

/** A branch is still created if it was created before a user requested the deletion of its database. */
function isTooLate(object: Named, database: ManagedDatabase): boolean {
  const { deletionTimestamp } = database.metadata
  if (deletionTimestamp === undefined) return false
  return object.kind !== 'Branch' || isTeardownBegun(database) || !isCreatedBefore(object, deletionTimestamp)
}

const withId = <N extends Named>(object: N, databaseId: string): N => ({
  ...object,
  spec: { ...object.spec, databaseId },
})

export const databaseReplaced = 'DatabaseReplaced'
const conditionTypes = { all: [databaseReplaced], passing: new Set([databaseReplaced]) }

type Status = { conditions?: Condition[] | undefined }

/** `status`, with a condition while another database has the database name in the object's spec. */
export function withReplacedDatabase<S extends Status>(
  status: S,
  { metadata, spec, status: before }: Named,
  database: ManagedDatabase | undefined,
  now: number,
): S {
  const id = idOf(database)
  const isReplaced = id !== undefined && spec.databaseId !== '' && id !== spec.databaseId
  const others = (status.conditions ?? []).filter(({ type }) => type !== databaseReplaced)
  if (!isReplaced && others.length === (status.conditions ?? []).length) return status
  const message = `the database ${spec.databaseName} now has the id ${id}; this object belongs to the previous database with the id ${spec.databaseId}`
  const findings = isReplaced ? { [databaseReplaced]: yes('AnotherId', message) } : {}
  const found = conditionsAfter(conditionTypes, before?.conditions ?? [], findings, metadata.generation, now)
  return { ...status, conditions: [...others, ...found] }
}

/** Calls back for each object that names the changed database and must be checked. */
export const onOtherDatabase = (
  databases: Pick<Informer<'ManagedDatabase'>, 'onChange'>,
  named: (key: string) => readonly Named[],
  enqueue: (key: string) => void,
): (() => void) =>
  databases.onChange(({ type, object, previous }) => {
    if (type === 'set' && previous !== undefined && idOf(previous) === idOf(object)) return
    for (const other of named(keyOf(object))) if (other.spec.databaseId !== idOf(object)) enqueue(keyOf(other))
  })
