/** Tells the log why Postgres has refused a request, after its client has been answered. At most one is looked into at a time: a flood of refusals is no reason for one of questions. */
import type { Logger } from 'pino'
import { DatabaseError } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import { RestError } from '../errors/rest-error.ts'
import type { Plan } from '../plan/types.ts'
import { diagnose } from './diagnosis.ts'

export type Refused = {
  readonly cause: unknown
  readonly role: string | undefined
  readonly plans: readonly Plan[]
  readonly preRequest: string | undefined
}

const noPrivilege = '42501'

/** Where nothing lacks that the request names. */
const elsewhere = 'nothing that the request names; a view, trigger or function that it reaches'

export class RefusalLog {
  readonly #logger: Logger
  readonly #pool: Pool
  #isBusy = false

  constructor(logger: Logger, pool: Pool) {
    this.#logger = logger
    this.#pool = pool
  }

  /** `line` says which request it was. */
  tell({ cause, role, plans, preRequest }: Refused, line: Readonly<Record<string, unknown>>): void {
    // Of a batch, the error says which request it is of, and is not Postgres's own.
    const origin = cause instanceof RestError ? cause.cause : cause
    const isRefusal = origin instanceof DatabaseError && origin.sqlState === noPrivilege
    if (!isRefusal || role === undefined || this.#isBusy || !this.#logger.isLevelEnabled('warn')) return
    this.#isBusy = true
    diagnose(this.#pool, role, plans, preRequest)
      .then(({ lacks, policies }) => {
        const reason = lacks.length > 0 ? { lacks } : policies.length > 0 ? { policies } : { lacks: [elsewhere] }
        this.#logger.warn({ ...line, role, ...reason }, 'refused for want of a privilege')
      })
      .catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error)
        this.#logger.warn(
          { ...line, role, reason },
          'refused for want of a privilege; which one could not be found out',
        )
      })
      .finally(() => {
        this.#isBusy = false
      })
  }
}
