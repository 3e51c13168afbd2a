/**
 * The audit log: one JSON line for every write attempt, successful or not, appended and never changed. A successful
 * write is logged as soon as it is done. A line has the caller, the action, the object and the outcome; no bodies, no
 * query strings, no credentials.
 */
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import type { FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { ServiceType } from '../crds/index.ts'
import type { UserType } from './schemas/common.ts'

export type AuditEntry = {
  time: string
  request_id: string
  /** Absent if the caller is unknown. */
  tenant?: string | undefined
  member?: string | undefined
  address: string
  method: string
  path: string
  /** The id of the written object. */
  subject_id?: string | undefined
  task_id?: string | undefined
  status: number
  outcome: 'accepted' | 'refused' | 'failed'
  /** Statements that the SQL endpoint runs. */
  sql?: SqlAudit | undefined
  /** A request that the API sends to a service. */
  service?: ServiceAudit | undefined
}

/** One entry before the statements run, without `result`, and one when they have ended. Never their text. */
export type SqlAudit = {
  database_id: string
  branch_id?: string
  mode: 'read' | 'write'
  role: UserType
  explain?: 'plan' | 'analyze'
  statements: number
  /** Of the text of the request. */
  sha256: string
  result?: 'completed' | 'failed' | 'canceled'
  /** Statements that completed. */
  completed?: number
  /** Of the statement that failed. */
  sqlstate?: string
}

/** One entry before the request is sent, without `result`, and one when it has ended. Never its path, body or token. */
export type ServiceAudit = {
  database_id: string
  branch_id?: string
  type: ServiceType
  /** Of `rest`. */
  method?: string
  /** Of `mcp`. */
  tool?: string
  /** Of `rag`. */
  pipeline?: string
  result?: 'answered' | 'failed' | 'canceled'
  /** Of the service's response. */
  status?: number
}

export type AuditDestination = {
  write: (entry: AuditEntry) => void
  /** Resolves once everything written is passed to the operating system. */
  close: () => Promise<void>
}

/** The response of a completed write, and the task that follows it. */
export type DoneWrite = {
  status: number
  taskId?: string | undefined
  subjectId?: string | undefined
  sql?: SqlAudit | undefined
  service?: ServiceAudit | undefined
}

/** Information that write routes report. */
export type Audit = {
  /** Logs a completed write. What its response waits for later is not part of the audit log. */
  done(request: FastifyRequest, done: DoneWrite): void
  /** Logs another entry of a request, whose first entry was logged before the work ended. */
  also(request: FastifyRequest, done: DoneWrite): void
}

/** Writes to the log, for installations that collect it. */
export function auditToLog(logger: Logger): AuditDestination {
  return { write: entry => logger.info({ audit: entry }, 'write attempt'), close: async () => {} }
}

/**
 * Writes to a file that only its owner can read. A failed write, such as on a full disk, is logged: requests continue,
 * and the next write opens the file again.
 * @throws if the file cannot be opened
 */
export async function auditToFile(path: string, logger: Logger): Promise<AuditDestination> {
  const open = () => createWriteStream(path, { flags: 'a', mode: 0o600 })
  let stream = open()
  await new Promise<void>((resolve, reject) => stream.once('open', () => resolve()).once('error', reject))
  const onError = (error: Error) => logger.error({ err: error }, 'cannot write the audit log')
  stream.on('error', onError)
  return {
    write: entry => {
      if (!stream.writable) stream = open().on('error', onError)
      stream.write(`${JSON.stringify(entry)}\n`, error => {
        if (error) logger.error({ audit: entry }, 'missing from the audit log')
      })
    },
    close: async () => {
      stream.end()
      await finished(stream).catch(() => {})
    },
  }
}
