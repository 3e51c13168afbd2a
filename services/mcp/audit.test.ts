/**
 * The audit log has the caller and the hash of each statement. The settings decide for which statements it has the
 * text.
 */
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { createAudit } from './audit.ts'
import type { McpSettings } from './configuration/types.ts'
import type { AuditEntry } from './database/access.ts'

const entry: AuditEntry = {
  tool: 'query_database',
  database: 'main',
  principal: 'user:alice',
  requestId: 'r1',
  mode: 'read',
  author: 'caller',
  statement: `SELECT 'secret' ${'x'.repeat(5_000)}`,
  rows: 3,
  milliseconds: 1.5,
  outcome: 'done',
}

function logged(text: McpSettings['auditStatements'], changed: Partial<AuditEntry> = {}) {
  const lines: string[] = []
  const stream = new Writable({
    write: (chunk, _, done) => {
      lines.push(String(chunk))
      done()
    },
  })
  createAudit(pino(stream), text)({ ...entry, ...changed })
  return JSON.parse(lines[0] ?? '{}').audit
}

test('a line has caller, statement and outcome; its hash identifies the statement', () => {
  const { statement, statementHash, ...rest } = logged('reads')
  const { statement: complete, ...others } = entry
  expect(rest).toEqual(others)
  expect(statement).toBe(complete.slice(0, 2_000))
  expect(statementHash).toMatch(/^[0-9a-f]{32}$/)
  expect(logged('reads', { statement: 'SELECT 2' }).statementHash).not.toBe(statementHash)
})

test('omits the text of writes, and the text of all statements if the settings require it', () => {
  expect(logged('reads', { mode: 'write' }).statement).toBeUndefined()
  expect(logged('none').statement).toBeUndefined()
  expect(logged('all', { mode: 'write' }).statement).toBeDefined()
  expect(JSON.stringify(logged('none'))).not.toContain('secret')
  expect(logged('all', { author: 'server' }).statement).toBeUndefined()
})
