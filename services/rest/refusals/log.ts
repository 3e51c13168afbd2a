/**
 * Logs why Postgres refused a request, after the response was sent. At most one diagnosis runs at a time: many refusals
 * must not cause many queries.
 */
import type { Logger } from 'pino'
import { DatabaseError } from '../../../wire/errors.ts'
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

/** Logged if the role has all privileges that the request names. */
const noneNamed = 'nothing that the request names; a view, trigger or function that it reaches'

export class RefusalLog {
  readonly #logger: Logger
  readonly #pool: Pool
  #isBusy = false

  constructor(logger: Logger, pool: Pool) {
    this.#logger = logger
    this.#pool = pool
  }

  /** `line` identifies the request. */
  log({ cause, role, plans, preRequest }: Refused, line: Readonly<Record<string, unknown>>): void {
    // In a batch, the error contains its request's index, and is not Postgres's own error.
    const origin = cause instanceof RestError ? cause.cause : cause
    const isRefusal = origin instanceof DatabaseError && origin.sqlState === noPrivilege
    if (!isRefusal || role === undefined || this.#isBusy || !this.#logger.isLevelEnabled('warn')) return
    this.#isBusy = true
    diagnose(this.#pool, role, plans, preRequest)
      .then(({ lacks, policies }) => {
        const reason = lacks.length > 0 ? { lacks } : policies.length > 0 ? { policies } : { lacks: [noneNamed] }
        this.#logger.warn({ ...line, role, ...reason }, 'refused because of a missing privilege')
      })
      .catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error)
        this.#logger.warn(
          { ...line, role, reason },
          'refused because of a missing privilege, which could not be determined',
        )
      })
      .finally(() => {
        this.#isBusy = false
      })
  }
}
