/**
 * The operator's configuration of an instance for each start: `instance.json`, mounted into its init container. It is
 * validated by hand, since this folder imports only Node's own modules.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRecord } from './record.ts'
import { parseRecoverySource, type RecoverySource } from './recovery/source.ts'
import { Refusal } from './refusal.ts'

/** The files of Postgres's configuration that the operator writes completely. */
export const configurationFiles = ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf'] as const
export type ConfigurationFile = (typeof configurationFiles)[number]

export type InstanceConfiguration = {
  /** UUID of the database (or branch) that the volume belongs to. */
  databaseId: string
  /** The number of the database's volume; a restore creates the next one. */
  incarnation: number
  /** The number of the member whose data the volume contains; absent: the first. */
  member?: number
  /** Postgres's major version. */
  pgVersion: string
  /** Whether an empty volume may be initialised. False once the database has run. */
  initialise: boolean
  /** The volume was copied from another volume. This instance adopts it once. */
  prepareCopy?: boolean
  /** The id of the database whose volume was copied. Absent: this database's own. */
  copyOf?: string
  /** The incarnation of the copied volume. Absent: any. */
  copyOfIncarnation?: number
  /** The number of the member whose volume was copied; absent: the first. */
  copyOfMember?: number
  /** The source of an empty volume's data in the archive. */
  recover?: RecoverySource
  /** Libraries that Postgres loads at its start, if the image has them. */
  preload?: string[]
  /**
   * The text of each file. The files are also mounted next to instance.json, where Postgres reads them, so that a
   * change only needs a reload. This field is for an image whose `espalier instance prepare` copies them before every
   * start.
   */
  files: Record<ConfigurationFile, string>
}

const isIncarnation = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 1

/** @throws Refusal `configuration` that names the field, unless the text is a complete InstanceConfiguration */
export function parseInstanceConfiguration(text: string): InstanceConfiguration {
  const refuse = (message: string) => new Refusal('configuration', `instance.json: ${message}`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw refuse('is not JSON')
  }
  if (!isRecord(value)) throw refuse('must be an object')
  const { databaseId, incarnation, pgVersion, initialise, prepareCopy = false, preload, files } = value
  const { copyOf } = value
  /** A number that is missing if an older operator wrote the file. */
  const optional = <N extends string>(name: N): { [name in N]?: number } => {
    const number = value[name]
    if (number === undefined) return {}
    if (!isIncarnation(number)) throw refuse(`${name} must be a whole number from 1`)
    return { [name]: number } as { [name in N]?: number }
  }
  if (typeof databaseId !== 'string' || databaseId === '') throw refuse('databaseId must be a string')
  if (!isIncarnation(incarnation)) throw refuse('incarnation must be a whole number from 1')
  if (typeof pgVersion !== 'string' || !/^[1-9][0-9]$/.test(pgVersion))
    throw refuse('pgVersion must be a major version')
  if (typeof initialise !== 'boolean') throw refuse('initialise must be true or false')
  if (typeof prepareCopy !== 'boolean') throw refuse('prepareCopy must be true or false')
  if (copyOf !== undefined && typeof copyOf !== 'string') throw refuse('copyOf must be a string')
  if (initialise && prepareCopy) throw refuse('a copy is never initialised')
  const recover = value.recover === undefined ? undefined : parseRecoverySource(value.recover)
  if (recover !== undefined && 'wrong' in recover) throw refuse(`${recover.wrong} is missing or wrong`)
  if (recover !== undefined && (initialise || prepareCopy))
    throw refuse('a recovered volume is not initialised, and is not a copy')
  const isName = (name: unknown) => typeof name === 'string' && /^[a-z0-9_]{1,63}$/.test(name)
  if (preload !== undefined && !(Array.isArray(preload) && preload.every(isName)))
    throw refuse('preload must be a list of names of libraries')
  if (!isRecord(files)) throw refuse('files must be an object')
  const file = (name: ConfigurationFile): string => {
    const content = files[name]
    if (typeof content !== 'string') throw refuse(`files must contain ${name}`)
    return content
  }
  return {
    databaseId,
    incarnation,
    ...optional('member'),
    pgVersion,
    initialise,
    prepareCopy,
    ...(copyOf === undefined ? {} : { copyOf }),
    ...optional('copyOfIncarnation'),
    ...optional('copyOfMember'),
    ...(recover === undefined ? {} : { recover }),
    ...(preload === undefined ? {} : { preload }),
    files: {
      'postgresql.conf': file('postgresql.conf'),
      'pg_hba.conf': file('pg_hba.conf'),
      'pg_ident.conf': file('pg_ident.conf'),
    },
  }
}

/** Reads `instance.json` in a directory. @throws Refusal `configuration` */
export function readInstanceConfiguration(directory: string): InstanceConfiguration {
  const path = join(directory, 'instance.json')
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Refusal('configuration', `cannot read ${path}: ${cause instanceof Error ? cause.message : cause}`)
  }
  return parseInstanceConfiguration(text)
}
