/** The service `rag` with pgvector: created, queried with and without a stream, branched and restored. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fetchPgvector } from '../embedded/extensions/pgvector.ts'
import { type ProviderDouble, startProviderDouble } from '../services/providers/testing/double.ts'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import type { Fetch } from './https-fetch.ts'
import { type EmbeddedProvider, startEmbedded } from './providers/embedded.ts'
import { fetchingFrom } from './service-load.ts'

type Service = { service_type: string; state: string; uri?: string; bearer_token?: string }
type Served = Database & { services: Service[] }

const key = 'sk-of-this-test'
const words = ['harbour', 'orchard', 'glacier']
/** A vector with one component per word, which states whether the text contains the word. */
const embed = (text: string): number[] => words.map(word => (text.toLowerCase().includes(word) ? 1 : 0.01))

const models = await startProviderDouble({
  ...{ key, embed },
  reply: ({ system, texts }) => ({
    text: `told: ${[system, ...texts].join('\n').match(/Fact of the \w+/)?.[0] ?? 'nothing'}`,
  }),
})
let installation: EmbeddedProvider | undefined
try {
  installation = await startEmbedded({
    prepare: async home => void (await fetchPgvector(home, '18')),
    ...{ ownPostgres: true, variables: { ESPALIER_OPENAI_URL: `${models.url}/v1` } },
  })
} catch (error) {
  console.warn(`no pgvector: ${error instanceof Error ? error.message : error}`)
}
afterAll(async () => {
  await installation?.stop()
  await models.stop()
})

if (installation === undefined) test.skip('rag beside a database: needs the Python package embedded-postgres', () => {})
else described(installation, models)

function described(provider: EmbeddedProvider, { seen }: ProviderDouble): void {
  describe('rag beside a database', () => {
    let api: ApiClient
    let fetching: Fetch
    let database: Served

    const configuration = {
      embedding_llm: { provider: 'openai', model: 'm', api_key: key },
      completion_llm: { provider: 'openai', model: 'm', api_key: key },
      pipelines: [
        {
          name: 'docs',
          tables: [{ table: 'docs', text_column: 'content', vector_column: 'embedding', filter: 'NOT hidden' }],
        },
      ],
    }
    const read = async (path: string): Promise<Served> => (await api.call<Served>('GET', path)).body
    const running = (path: string) =>
      eventually('the database is available and its services run', async () => {
        const found = await read(path)
        return found.status === 'available' && found.services.every(({ state }) => state === 'running') && found
      })
    const send = ({ services: [rag] }: Served, body: object, token = rag?.bearer_token) =>
      fetching(`${rag?.uri}/v1/pipelines/docs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify(body),
      })
    const answerOf = (of: Served, about: string) =>
      eventually(`the service answers a question about the ${about}`, async () => {
        const answer = await send(of, { query: `Tell me of the ${about}` })
        return answer.status === 200 && ((await answer.json()) as { answer: string }).answer
      })

    beforeAll(async () => {
      api = await provider.client()
      fetching = await fetchingFrom(provider)
      const toThis = openTo(provider.clientAddress)
      const { body, status } = await api.create({
        ...{ name: 'library', pg_version: '18', ip_allowlist: toThis },
        services: [{ service_type: 'rag', ip_allowlist: toThis, rag_config: configuration }],
      })
      expect(status, JSON.stringify(body)).toBe(200)
      database = await running(`/databases/${body.id}`)
      const rows = words.map(word => `('Fact of the ${word}', '[${embed(word)}]', ${word === 'glacier'})`)
      await query(
        await api.connection(body.id),
        `CREATE EXTENSION vector;
         CREATE TABLE docs (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content text, embedding vector(3), hidden boolean);
         INSERT INTO docs (content, embedding, hidden) VALUES ${rows}`,
      )
    })

    test('uses the rows that the filter accepts for its answer, and requires its own token', async () => {
      expect(await answerOf(database, 'harbour')).toBe('told: Fact of the harbour')
      expect(await answerOf(database, 'glacier')).not.toContain('glacier')
      expect(seen.every(({ headers }) => headers.authorization === `Bearer ${key}`)).toBe(true)
      expect((await send(database, { query: 'harbour' }, 'another')).status).toBe(401)
      const own = await send(database, {
        query: 'Tell me of the orchard and the harbour',
        filter: { conditions: [{ column: 'id', operator: '=', value: 2 }] },
      })
      expect(await own.json()).toMatchObject({ answer: 'told: Fact of the orchard' })
    })

    test('answers with its sources by the API, without a token', async () => {
      const path = `/databases/${database.id}/services/rag/try`
      const question = { pipeline: 'docs', query: 'Tell me of the harbour' }
      const { status, body } = await api.call<{ status: number; body: string }>('POST', path, question)
      expect([status, body.status]).toEqual([200, 200])
      const { answer, sources } = JSON.parse(body.body) as { answer: string; sources: { content: string }[] }
      expect([answer, sources[0]?.content]).toEqual(['told: Fact of the harbour', 'Fact of the harbour'])
    })

    test('streams an answer', async () => {
      const answer = await send(database, { query: 'Tell me of the orchard', stream: true })
      expect(answer.headers.get('content-type')).toContain('text/event-stream')
      const events = (await answer.text()).split('\n').filter(line => line.startsWith('data: '))
      expect(events.length).toBeGreaterThan(1)
      const pieces = events.map(line => (JSON.parse(line.slice('data: '.length)) as { content?: string }).content ?? '')
      expect(pieces.join('')).toBe('told: Fact of the orchard')
    })

    test('a branch has its own token, and uses the keys of its source', async () => {
      const path = `/databases/${database.id}/branches`
      const { body } = await api.call<Served>('POST', path, {}, { prefer: 'wait=60' })
      const branch = await running(`${path}/${body.id}`)
      expect(await answerOf(branch, 'orchard')).toBe('told: Fact of the orchard')
      expect((await send(branch, { query: 'orchard' }, database.services[0]?.bearer_token)).status).toBe(401)
      expect((await send(database, { query: 'orchard' }, branch.services[0]?.bearer_token)).status).toBe(401)
      await api.call('DELETE', `${path}/${body.id}`, undefined, { prefer: 'wait=60' })
    })

    test('uses the restored rows for its answer', async () => {
      const path = `/databases/${database.id}`
      const { body: backup } = await api.call<{ id: string }>(
        'POST',
        `${path}/backup`,
        { kind: 'hot' },
        { prefer: 'wait=60' },
      )
      await query(await api.connection(database.id), 'DROP TABLE docs')
      await api.call('POST', `${path}/restore`, { backup_id: backup.id }, { prefer: 'wait=60' })
      const restored = await running(path)
      expect(restored.services[0]?.bearer_token).toBe(database.services[0]?.bearer_token)
      expect(await answerOf(restored, 'harbour')).toBe('told: Fact of the harbour')
    })

    test('a key that the provider revokes is named in the answer, and the database stays available', async () => {
      models.failures.push({ status: 401 })
      const refused = await send(database, { query: 'A text that was never embedded' })
      expect(refused.status).toBeGreaterThanOrEqual(500)
      expect(await refused.text()).toContain('refused the API key')
      expect((await running(`/databases/${database.id}`)).status).toBe('available')
    })
  })
}
