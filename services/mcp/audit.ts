/**
 * A line in the log for each statement that was sent to a database: who, by which tool, what came of it. Literals in a statement may be secrets and personal data, most of all in what is
 * written, so the text itself is logged for reads alone unless the settings say otherwise; the hash tells statements apart in any case.
 */
import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type { McpSettings } from './configuration/types.ts'
import type { AuditEntry } from './database/access.ts'

const maximumText = 2_000

export function createAudit(
  logger: Pick<Logger, 'info'>,
  text: McpSettings['auditStatements'],
): (entry: AuditEntry) => void {
  return ({ tool, database, principal, requestId, mode, author, statement, rows, milliseconds, outcome }) => {
    // This server's own statements are long and always the same.
    const isLogged = author === 'caller' && (text === 'all' || (text === 'reads' && mode === 'read'))
    const statementHash = hash('sha256', statement).slice(0, 32)
    const audit = { tool, database, principal, requestId, mode, author, rows, milliseconds, outcome, statementHash }
    logger.info(
      { audit: isLogged ? Object.assign(audit, { statement: statement.slice(0, maximumText) }) : audit },
      'statement',
    )
  }
}
