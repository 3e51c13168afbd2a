/** Audit entries as the API returns them. */
import { z } from 'zod'
import { serviceTypes } from '../../crds/index.ts'
import { id, idText, queryLimit, queryTime, time, userType } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const outcomes = ['accepted', 'refused', 'failed'] as const

const sqlAudit = output(
  'SqlAudit',
  z
    .strictObject({
      database_id: idText.describe('The id of the database.'),
      branch_id: idText.optional().describe('The id of the branch, if the statements ran on one.'),
      mode: z.enum(['read', 'write']).describe('`read` changes nothing.'),
      role: userType.describe('The role of the connection.'),
      explain: z.enum(['plan', 'analyze']).optional().describe('The kind of plan, if one was requested.'),
      statements: z.int().describe('The number of statements.'),
      sha256: z.string().describe('The SHA-256 of the text of the request, in hexadecimal.'),
      result: z
        .enum(['completed', 'failed', 'canceled'])
        .optional()
        .describe('Absent in the entry that is written before the statements run.'),
      completed: z.int().optional().describe('How many statements completed.'),
      sqlstate: z.string().optional().describe('The SQLSTATE of the failed statement.'),
    })
    .meta({
      description: 'Statements that ran. Their text is not recorded.',
      example: {
        database_id: '0198c0de-0000-7000-8000-000000000001',
        mode: 'read',
        role: 'application_read_only',
        statements: 1,
        sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
        result: 'completed',
        completed: 1,
      },
    }),
)

const serviceAudit = output(
  'ServiceAudit',
  z
    .strictObject({
      database_id: idText.describe('The id of the database.'),
      branch_id: idText.optional().describe('The id of the branch, if the service is that of a branch.'),
      type: z.enum(serviceTypes).describe('The type of the service.'),
      method: z.string().optional().describe('The method of a request to `rest`.'),
      tool: z.string().optional().describe('The tool of `mcp`.'),
      pipeline: z.string().optional().describe('The pipeline of `rag`.'),
      result: z
        .enum(['answered', 'failed', 'canceled'])
        .optional()
        .describe('Absent in the entry that is written before the request is sent.'),
      status: z.int().optional().describe("The HTTP status of the service's response."),
    })
    .meta({
      description: 'A request that the API sent to a service. Its path, body and token are not recorded.',
      example: {
        database_id: '0198c0de-0000-7000-8000-000000000001',
        type: 'mcp',
        tool: 'query_database',
        result: 'answered',
        status: 200,
      },
    }),
)

export const auditEntryShape = output(
  'AuditEntry',
  z
    .strictObject({
      id: idText.describe('The id of the entry, a UUID. Later entries have higher ids.'),
      time: time.describe('When the request was answered.'),
      request_id: z.string().describe('The `X-Request-Id` of the request.'),
      member: z.string().optional().describe('The subject of the token: who sent the request.'),
      address: z.string().describe('The IP address of the client.'),
      method: z.string().describe('The method of the request.'),
      path: z.string().describe('The path of the request, without its query.'),
      subject_id: z.string().optional().describe('The id of the object that the request created or named.'),
      task_id: idText.optional().describe('The task that records the operation.'),
      status: z.int().describe('The HTTP status of the response.'),
      outcome: z.enum(outcomes).describe('`refused`: a status from 400 to 499. `failed`: a status from 500.'),
      sql: sqlAudit.optional().describe('The statements that a request ran.'),
      service: serviceAudit.optional().describe('The request that the API sent to a service.'),
    })
    .meta({
      description: 'One attempt to write.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000009',
        time: '2026-01-31T12:00:00.000Z',
        request_id: '0b2d8a52-41f5-4f6b-9d0c-3d7c5a1f6d10',
        member: 'ada',
        address: '203.0.113.7',
        method: 'POST',
        path: '/managed/v1/databases',
        subject_id: '0198c0de-0000-7000-8000-000000000001',
        task_id: '0198c0de-0000-7000-8000-000000000005',
        status: 200,
        outcome: 'accepted',
      },
    }),
)

export const listAuditQuery = z.strictObject({
  database_id: id
    .optional()
    .describe('Only entries about this database, its branches, and its backups that exist. It may be deleted.'),
  outcome: z.enum(outcomes).optional().describe('Only entries with this outcome.'),
  since: queryTime.optional().describe('Only entries of this time or later.'),
  until: queryTime.optional().describe('Only entries before this time.'),
  limit: queryLimit(200, 50).describe('The most entries to return. A limit above 200 is reduced to 200.'),
  cursor: id.optional().describe('Only entries before the one with this id: the last of the previous page.'),
})
