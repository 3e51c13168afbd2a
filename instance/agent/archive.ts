/** The agent's archive routes, for the operator: the archiving state, and base backups as jobs. */
import type { Archiving } from '../archive/index.ts'
import type { Answer, Routes } from './server.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** Shorter than the HTTPS server's client timeout (10 s). */
const archiveMs = 5_000

const json = (status: number, value: unknown): Answer => ({
  ...{ status, contentType: 'application/json', body: JSON.stringify(value) },
})
const empty = (status: number): Answer => ({ status, contentType: 'application/json', body: '' })

export const archiveRoutes = ({ status, backups }: Archiving): Routes => ({
  '/archive': { for: ['operator'], answer: () => json(200, status()) },
  '/backups/': {
    for: ['operator'],
    methods: ['GET', 'PUT', 'DELETE'],
    answer: async (_query, { method, rest: id }) => {
      if (!uuid.test(id)) return json(404, { error: 'backup id: must be a UUID' })
      if (method === 'DELETE') {
        await backups.end(id)
        return empty(204)
      }
      if (method === 'PUT') return begin(backups, id)
      const job = backups.job(id)
      return job === undefined ? json(404, { error: 'this agent has no such backup' }) : json(200, job)
    },
  },
})

async function begin(backups: Archiving['backups'], id: string): Promise<Answer> {
  try {
    const begun = await backups.begin(id, AbortSignal.timeout(archiveMs))
    if (begun === 'busy') return json(409, { error: 'another backup is running; retry after it has ended' })
    return json(begun === 'begun' ? 202 : 200, backups.job(id))
  } catch (error) {
    return json(503, { error: error instanceof Error ? error.message.slice(0, 400) : 'the archive does not answer' })
  }
}
