/** The report of a restore if a quota has no space for its objects. Pure. */
import type { ManagedDatabase } from '../../crds/index.ts'

const previousHint = (database: ManagedDatabase | undefined): string => {
  const count = database?.status?.previous?.length ?? 0
  if (count === 0) return ''
  const volumes = count === 1 ? 'a volume' : `${count} volumes`
  return `; ${volumes} of before earlier restores can be deleted: see status.previous of the database`
}

/** `message`: the cluster's. */
export function quotaMessage(message: string, database: ManagedDatabase | undefined): string {
  const isOfVolume = /persistentvolumeclaims|requests\.storage/.test(message)
  const what = isOfVolume ? 'the restored volume beside the present one' : 'what the restore makes'
  const hint = isOfVolume ? previousHint(database) : ''
  return `the quota has no space for ${what}: ${message}${hint}`
}
