/** The message of a restore that a ResourceQuota blocks. Pure. */
import type { ManagedDatabase } from '../../crds/index.ts'

const previousHint = (database: ManagedDatabase | undefined): string => {
  const count = database?.status?.previous?.length ?? 0
  if (count === 0) return ''
  const volumes = count === 1 ? 'a previous volume' : `${count} previous volumes`
  return `; ${volumes} from earlier restores can be deleted: see status.previous of the database`
}

/** `message`: the error message of the API server. */
export function quotaMessage(message: string, database: ManagedDatabase | undefined): string {
  const isOfVolume = /persistentvolumeclaims|requests\.storage/.test(message)
  const what = isOfVolume ? 'the restored volume in addition to the current one' : 'the objects of the restore'
  const hint = isOfVolume ? previousHint(database) : ''
  return `the quota has no space for ${what}: ${message}${hint}`
}
