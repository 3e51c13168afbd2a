/**
 * Where Postgres keeps its log, and how it is told to: beside the data directory and not in it, so that what copies or checks the
 * data knows nothing of it.
 *
 *     espalier-log/owner                     whose log it is: the id of a database or branch
 *     espalier-log/prepared                  Postgres was not started since the volume was prepared
 *     espalier-log/postgres-<time>.json      the JSON log from that time on, UTC
 *     espalier-log/postgres-<time>.log       what Postgres's processes, or libraries in them, print past their log
 *
 * Postgres turns the files over and removes none; the agent bounds them (agent/log/bound.ts). So it is told to keep a log there only
 * where an agent does, which the pod's template says by a variable: an image from before reads no variable, and a template from
 * before sets none.
 */

/** In the volume's root. */
export const logDirectory = 'espalier-log'
/** In the environment of what prepares a volume, and of an agent: where they find the directory. */
export const logVariable = 'ESPALIER_LOG_DIRECTORY'
export const ownerFile = 'owner'
export const preparedFile = 'prepared'

/** A file is turned over at so many bytes, or once a day. */
export const fileBytes = 4 * 1024 * 1024

/** The settings by which Postgres keeps its log there. */
export const logSettings = (directory: string): Record<string, string> => ({
  logging_collector: 'on',
  log_destination: 'jsonlog',
  log_directory: directory,
  log_filename: 'postgres-%Y%m%dT%H%M%S.log',
  log_file_mode: '0600',
  log_rotation_size: `${fileBytes / 1024}kB`,
  log_rotation_age: '1d',
  log_truncate_on_rotation: 'off',
  // The names of the files and the times in them.
  log_timezone: 'UTC',
})

const named = /^postgres-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\.(json|log)$/

/** What the name of a file says: its kind, and when it was begun, in ms since the epoch. Undefined for a file that is none of these. */
export function readName(name: string): { kind: 'json' | 'log'; begunAt: number } | undefined {
  const [, year, month, day, hour, minute, second, kind] = named.exec(name) ?? []
  const begunAt = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
  return Number.isNaN(begunAt) ? undefined : { kind: kind === 'json' ? 'json' : 'log', begunAt }
}
