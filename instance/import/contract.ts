/** The interface between the operator and an import: the Secret mounted into the pod, its progress and its result. */

/**
 * How to connect to a server. libpq reads these from each program's environment variables, never from its arguments.
 */
export type Endpoint = {
  /** The name that the server's certificate must have. */
  host: string
  /** The resolved address of `host`. The programs do not resolve the name again. */
  address: string
  port: number
  database: string
  user: string
  password: string
  sslmode: 'disable' | 'require' | 'verify-ca' | 'verify-full'
  /** Trusted authorities, PEM. Omitted: those that Node trusts. */
  ca?: string | undefined
  channelBinding?: 'disable' | 'prefer' | 'require' | undefined
}

/** The JSON content of the file with this name in the configuration directory. */
export const importFile = 'import.json'

export type ImportConfiguration = {
  source: Endpoint
  target: Endpoint
  /** The major version of the target. */
  major: number
  /** The capacity of the target's volume. */
  capacityBytes: number
  /** How many tables are copied, and indexes built, in parallel. */
  jobs: number
  /** An import fails if it makes no progress for this time. */
  stallMs: number
}

const importSteps = ['checking', 'schema', 'data', 'counting', 'indexes'] as const
export type ImportStep = (typeof importSteps)[number]

export type ImportProgress = {
  step: ImportStep
  tables: { done: number; total: number }
  /** `total` is the size of the tables on the source. The copied text can be larger, so `done` can exceed it. */
  bytes: { done: number; total: number }
  /** Changes whenever the import makes progress. */
  beat: number
}

/** Postgres truncates an application_name to 63 bytes. */
const longestName = 63
const kibibyte = 1024

/** The progress as the `application_name` of a session in the target, where the operator reads it. */
export function progressName({ step, tables, bytes, beat }: ImportProgress): string {
  const kib = (count: number) => Math.ceil(count / kibibyte)
  const text = `import ${step} ${tables.done}/${tables.total} ${kib(bytes.done)}/${kib(bytes.total)} ${beat % 100_000}`
  return text.slice(0, longestName)
}

const pattern = /^import ([a-z]+) (\d{1,9})\/(\d{1,9}) (\d{1,13})\/(\d{1,13}) (\d{1,5})$/

export function parseProgress(name: string): ImportProgress | undefined {
  const [, word, ...numbers] = pattern.exec(name) ?? []
  const step = importSteps.find(known => known === word)
  const [done = 0, total = 0, kibDone = 0, kibTotal = 0, beat = 0] = numbers.map(Number)
  if (step === undefined) return undefined
  return { step, tables: { done, total }, bytes: { done: kibDone * kibibyte, total: kibTotal * kibibyte }, beat }
}

/** Why an import failed. */
const importFaults = [
  'SourceUnreachable',
  'SourceRefused',
  'SourceVersion',
  'ProgramsMissing',
  'ExtensionMissing',
  'NotEnoughStorage',
  'SchemaReserved',
  'DumpFailed',
  'RestoreFailed',
  'RowCountsDiffer',
  'TargetUnavailable',
  'Stalled',
  'Interrupted',
] as const
export type ImportFault = (typeof importFaults)[number]

/** Faults that may not occur again in another attempt. */
const passing: readonly ImportFault[] = ['SourceUnreachable', 'TargetUnavailable', 'Stalled', 'Interrupted']
export const isPassingFault = (fault: ImportFault): boolean => passing.includes(fault)

export type ImportResult = {
  /** The version as the source reports it, such as `16.4`. */
  sourceVersion: string
  tables: number
  /** The rows of all tables, counted in the snapshot and in the target. */
  rows: number
  bytes: number
  /** Skipped objects, such as `EVENT TRIGGER audit`; at most 20. */
  leftOut: string[]
}

/** The termination message, as JSON. */
export type ImportOutcome = { result: ImportResult } | { fault: ImportFault; message: string }
