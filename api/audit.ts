/**
 * The audit log: one JSON line for every attempt to write, whatever came of it, appended and never changed; that of a
 * write that was done says so as soon as it is done. It says who
 * did what to which object with which outcome; it holds no bodies, no query strings, no credentials.
 */
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import type { FastifyRequest } from 'fastify'
import type { Logger } from 'pino'

export type AuditEntry = {
  time: string
  request_id: string
  /** Absent where the caller was not known. */
  tenant?: string | undefined
  member?: string | undefined
  address: string
  method: string
  path: string
  /** The id of the object written. */
  subject_id?: string | undefined
  task_id?: string | undefined
  status: number
  outcome: 'accepted' | 'refused' | 'failed'
}

export type AuditDestination = {
  write: (entry: AuditEntry) => void
  /** Resolves once everything written is handed to the operating system. */
  close: () => Promise<void>
}

/** What a write that is done will be answered with, and the task that follows it. */
export type DoneWrite = { status: number; taskId?: string | undefined; subjectId?: string | undefined }

/** What routes that write tell. */
export type Audit = {
  /** Notes a write that has been done; what its answer waits for after that is not the audit log's. */
  done(request: FastifyRequest, done: DoneWrite): void
}

/** To the log, for installations that collect it. */
export function auditToLog(logger: Logger): AuditDestination {
  return { write: entry => logger.info({ audit: entry }, 'write attempt'), close: async () => {} }
}

/**
 * To a file, readable by its owner only. A write that fails, such as on a full disk, is logged: requests go on, and the
 * next write opens the file anew.
 * @throws where the file cannot be opened
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
        if (error) logger.error({ audit: entry }, 'not in the audit log')
      })
    },
    close: async () => {
      stream.end()
      await finished(stream).catch(() => {})
    },
  }
}
