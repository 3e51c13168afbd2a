/**
 * The directory and settings of Postgres's log: next to the data directory, not in it, so that copies and checks of the
 * data ignore it.
 *
 *     espalier-log/owner                     the log's owner: the id of a database or branch
 *     espalier-log/prepared                  Postgres was not started since the volume was prepared
 *     espalier-log/postgres-<time>.json      the JSON log from that time on, UTC
 *     espalier-log/postgres-<time>.log       other output of Postgres's processes, or libraries in them
 *
 * Postgres rotates the files and deletes none; the agent limits their size (agent/log/bound.ts). So Postgres logs there
 * only if there is an agent that does this, as a variable in the pod's template shows: an older image does not read the
 * variable, and an older template does not set it.
 */

/** In the volume's root. */
export const logDirectory = 'espalier-log'
/** Environment variable of prepare and of an agent: the directory of the log. */
export const logVariable = 'ESPALIER_LOG_DIRECTORY'
export const ownerFile = 'owner'
export const preparedFile = 'prepared'

/** A file is rotated at this size, or once a day. */
export const fileBytes = 4 * 1024 * 1024

/** The settings that make Postgres log to this directory. */
export const logSettings = (directory: string): Record<string, string> => ({
  logging_collector: 'on',
  log_destination: 'jsonlog',
  log_directory: directory,
  log_filename: 'postgres-%Y%m%dT%H%M%S.log',
  log_file_mode: '0600',
  log_rotation_size: `${fileBytes / 1024}kB`,
  log_rotation_age: '1d',
  log_truncate_on_rotation: 'off',
  // For the file names, and the times in them.
  log_timezone: 'UTC',
})

const named = /^postgres-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\.(json|log)$/

/** The kind and start time (ms since the epoch) from a file's name. Undefined for other files. */
export function readName(name: string): { kind: 'json' | 'log'; begunAt: number } | undefined {
  const [, year, month, day, hour, minute, second, kind] = named.exec(name) ?? []
  const begunAt = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
  return Number.isNaN(begunAt) ? undefined : { kind: kind === 'json' ? 'json' : 'log', begunAt }
}
