/**
 * Logs a line for each statement that the server sends to a database: caller, tool, outcome. Literals, mostly in
 * writes, may be secrets or personal data. So by default only the text of reads is logged. The hash always identifies
 * the statement.
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
    // The server's own statements are long and constant, so their text is not logged.
    const isLogged = author === 'caller' && (text === 'all' || (text === 'reads' && mode === 'read'))
    const statementHash = hash('sha256', statement).slice(0, 32)
    const audit = { tool, database, principal, requestId, mode, author, rows, milliseconds, outcome, statementHash }
    logger.info(
      { audit: isLogged ? Object.assign(audit, { statement: statement.slice(0, maximumText) }) : audit },
      'statement',
    )
  }
}
