/** Logs as the API returns them: the entries of instance/log/entry.ts. */
import { z } from 'zod'
import { serviceTypes } from '../../crds/index.ts'
import type { LogEntry } from '../../instance/log/entry.ts'
import { queryLimit, queryTime, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const example = {
  timestamp: '2026-01-31T12:00:09.120Z',
  level: 'ERROR',
  message: 'relation "orders" does not exist',
  state_code: '42P01',
  user: 'app',
  dbname: 'app',
  pid: 4711,
  statement: 'SELECT * FROM orders',
}

export const logEntry = output(
  'LogEntry',
  z
    .strictObject({
      timestamp: time.describe('When it was written, to the millisecond.'),
      level: z
        .string()
        .describe(
          'The level from Postgres: `LOG`, `WARNING`, `ERROR`, `FATAL`, `PANIC` and more; `LOG` if it has none. A service has `DEBUG`, `INFO`, `WARNING`, `ERROR` and `FATAL`.',
        ),
      message: z.string().describe('What happened.'),
      state_code: z.string().optional().describe('The SQLSTATE.'),
      user: z.string().optional().describe('The role of the session.'),
      dbname: z.string().optional().describe('The database of the session.'),
      remote_host: z.string().optional().describe('The client address of the connection, usually a gateway.'),
      pid: z.int().optional().describe('The id of the server process.'),
      line_num: z.int().optional().describe('The number of this line in its session.'),
      detail: z.string().optional().describe('More details.'),
      hint: z.string().optional().describe('A hint.'),
      internal_query: z.string().optional().describe('The statement inside a function that failed.'),
      context: z
        .string()
        .optional()
        .describe('The call stack of functions; for a service, the other fields of the line, as JSON.'),
      statement: z.string().optional().describe('The statement that failed, with possible passwords removed.'),
    })
    .meta({ description: 'One entry of a log.', example }),
) satisfies z.ZodType<LogEntry>

export const logsShape = output(
  'DatabaseLogsResponse',
  z
    .strictObject({ logs: z.array(logEntry).describe('Newest first.') })
    .meta({ description: 'A part of a log.', example: { logs: [example] } }),
)

export const logsQuery = z
  .strictObject({
    service: z.enum(serviceTypes).optional().describe('The service whose log to read. Omitted: the log of Postgres.'),
    max_lines: queryLimit(1000, 100).describe('The most entries to return. A limit above 1000 is reduced to 1000.'),
    start_time: queryTime.optional().describe('Only entries at or after this time.'),
    end_time: queryTime.optional().describe('Only entries before this time.'),
  })
  .refine(({ start_time, end_time }) => !start_time || !end_time || Date.parse(start_time) < Date.parse(end_time), {
    path: ['start_time'],
    message: 'must be before end_time',
  })
