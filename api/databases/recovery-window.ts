/** `GET /databases/{id}/recovery-window`: the times that a database can be restored to. */
import { z } from 'zod'
import { type RecoveryWindow, recoveryWindow } from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { findDatabase } from './find.ts'
import { backupsOf } from './moment.ts'

const iso = (at: number): string => new Date(at).toISOString()
const moment = z.iso.datetime()

const recoveryWindowShape = z.strictObject({
  earliest_time: moment.nullable().describe('The earliest time that can be restored to. `null`: none.'),
  latest_time: moment.nullable().describe('The latest time that can be restored to.'),
  latest_lsn: z.string().nullable().describe('The WAL position up to which everything is archived.'),
  gaps: z
    .array(
      z.strictObject({
        from: moment.describe('The last time before the gap.'),
        to: moment.describe('The first time after the gap.'),
      }),
    )
    .describe('Gaps in the window that cannot be restored to, in order.'),
})

function renderWindow({ spans }: RecoveryWindow): z.output<typeof recoveryWindowShape> {
  const [first, last] = [spans[0], spans.at(-1)]
  if (first === undefined || last === undefined)
    return { earliest_time: null, latest_time: null, latest_lsn: null, gaps: [] }
  const between = spans.slice(1).map((span, index) => ({ from: spans[index]?.to ?? span.from, to: span.from }))
  // Spans may overlap if the servers' clocks differed.
  const gaps = between.filter(({ from, to }) => from < to).map(({ from, to }) => ({ from: iso(from), to: iso(to) }))
  return { earliest_time: iso(first.from), latest_time: iso(last.to), latest_lsn: last.through, gaps }
}

const windowShape = output(
  'RecoveryWindow',
  recoveryWindowShape.meta({
    description: 'The times that a database can be restored to.',
    example: {
      earliest_time: '2026-01-25T02:00:11.000Z',
      latest_time: '2026-01-31T12:00:00.000Z',
      latest_lsn: '0/5A0012F8',
      gaps: [],
    },
  }),
)

export function addRecoveryWindow(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'getRecoveryWindow',
      tag: 'databases',
      summary: 'Get the recovery window of a database',
      description:
        'With the durable tier, a database can be restored to any time from the end of its oldest durable backup up to the end of the archived WAL. A restore starts a new archive: the time between the end of the old archive and the first backup of the new one is a gap. If there is no such time, `gaps` is empty, and all other members are `null`.',
      success: { status: 200, description: 'The window.', shape: windowShape },
      errors: [400, 404],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.get('/databases/:id/recovery-window', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { id } = request.params
    const { cluster, caches } = context
    const database = await findDatabase({ cluster, caches }, namespace, id)
    return sendJson(reply, JSON.stringify(renderWindow(recoveryWindow(database, backupsOf(context, namespace, id)))))
  })
}
