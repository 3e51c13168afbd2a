import { expect, test } from 'vitest'
import { actionText, databaseOf, detailText, outcomeOf } from './audit.ts'

const id = '0198c0de-0000-7000-8000-000000000001'
const other = '0198c0de-0000-7000-8000-000000000002'
const entry = {
  ...{ id: other, time: '2026-01-31T12:00:00Z', request_id: 'r', address: '::1', status: 200 },
  ...{ method: 'POST', path: '/managed/v1/databases', outcome: 'accepted' as const },
}

test.each([
  ['POST', '/databases', 'Create database'],
  ['PATCH', `/databases/${id}`, 'Change settings'],
  ['POST', `/databases/${id}/branches`, 'Create branch'],
  ['DELETE', `/databases/${id}/branches/${other}`, 'Delete branch'],
  ['POST', `/databases/${id.toUpperCase()}/branches/${other}/sql`, 'Run SQL'],
  ['POST', `/databases/${id}/roles/app_read_only/rotate-password`, 'Rotate password'],
  ['DELETE', `/backups/${id}`, 'Delete backup'],
  ['POST', `/databases/${id}/services/mcp/try`, 'Try service'],
  ['POST', '/databases/x/sql', 'POST /databases/x/sql'],
  ['PUT', '/later', 'PUT /later'],
])('%s %s is "%s"', (method, path, text) => {
  expect(actionText({ method, path: `/managed/v1${path}` })).toBe(text)
})

test('finds the database of an entry by its path or subject, and ignores unknown databases', () => {
  const databases = [{ id, name: 'shop' }]
  expect(databaseOf({ ...entry, subject_id: id }, databases)?.name).toBe('shop')
  expect(databaseOf({ ...entry, path: `/managed/v1/databases/${id}/branches/${other}` }, databases)?.name).toBe('shop')
  expect(databaseOf({ ...entry, subject_id: other }, databases)).toBeUndefined()
  expect(databaseOf(entry, databases)).toBeUndefined()
})

test('describes SQL by its mode, role, number of statements and result', () => {
  const sql = { database_id: id, mode: 'read', role: 'application_read_only', statements: 1, sha256: '' } as const
  expect(detailText({ sql })).toBe('Read as app_read_only, 1 statement: started')
  expect(
    detailText({ sql: { ...sql, mode: 'write', role: 'admin', statements: 2, result: 'failed', sqlstate: '42P01' } }),
  ).toBe('Write as admin, 2 statements: failed (42P01)')
  expect(detailText({ sql: { ...sql, mode: 'constructor', role: 'later' } as never })).toBe(
    'constructor as later, 1 statement: started',
  )
})

test('describes a service request by its tool and result', () => {
  const service = { database_id: id, type: 'mcp', tool: 'query_database' } as const
  expect(detailText({ service })).toBe('mcp query_database: started')
  expect(detailText({ service: { ...service, result: 'answered', status: 200 } })).toBe(
    'mcp query_database: answered (200)',
  )
  expect(detailText({})).toBeUndefined()
})

test('returns the text and tone of an outcome, and accepts an unknown outcome', () => {
  expect(outcomeOf({ outcome: 'refused', status: 409 })).toEqual({ text: 'Refused (409)', tone: 'warning' })
  expect(outcomeOf({ outcome: 'toString', status: 200 })).toEqual({ text: 'toString (200)', tone: 'quiet' })
})
