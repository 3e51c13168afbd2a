/**
 * The two compared servers, each with its own copy of a database. PostgREST 12.0.2 runs as a process of a user other
 * than root. The service runs in this process.
 */
import { Agent } from 'node:http'
import { type Answer, sendRequest } from '../../../testing/client.ts'
import { startPostgres } from '../../../testing/postgres.ts'
import { type Settings, startPostgrest } from '../programs.ts'
import { startService } from '../service.ts'
import { pathOf, type SentRequest, secret } from './request.ts'
import { roles, schema } from './schema.ts'

const settings = {
  'db-schemas': 'api, склад',
  'db-anon-role': 'anon',
  'db-pool': 2,
  'db-aggregates-enabled': true,
  'db-plan-enabled': true,
  'db-pre-request': 'public.before',
  'db-tx-end': 'rollback-allow-override',
  'jwt-secret': secret,
  'openapi-mode': 'ignore-privileges',
}

type Answers = { readonly theirs: Answer; readonly ours: Answer }
type Judges = {
  readonly ports: { readonly theirs: number; readonly ours: number }
  /** Sends the first request to PostgREST, and the second to the service. */
  sendToBoth(their: SentRequest, our: SentRequest): Promise<Answers>
  /** Sends a request to PostgREST only. */
  sendToPostgrest(sent: SentRequest): Promise<Answer>
  /** Sends a request to the service only. */
  sendToService(sent: SentRequest): Promise<Answer>
  stop(): Promise<void>
}

/**
 * The error of a refused HEAD has no body. So the test repeats the request with GET, and reads the error if GET is
 * refused, too. `isKnown`: whether the error is known.
 */
async function answered(port: number, sent: SentRequest, agent: Agent): Promise<Answer & { isKnown: boolean }> {
  const { method, headers, body } = sent
  // For a string body, Node writes the headers in the body's encoding.
  const options = { headers, ...(body === undefined ? {} : { body: Buffer.from(body) }) }
  const answer = await sendRequest(port, pathOf(sent), { method, ...options }, agent)
  if (method !== 'HEAD' || answer.status < 400) return { ...answer, isKnown: true }
  // Only GET supports a range.
  const { Range: _, ...withoutRange } = headers
  const { status, text } = await sendRequest(
    port,
    pathOf(sent),
    { ...options, method: 'GET', headers: withoutRange },
    agent,
  )
  return status === answer.status ? { ...answer, text, isKnown: true } : { ...answer, isKnown: false }
}

/** Starts both servers. `more`: additional configuration of both. */
export async function startBoth(binary: string, more: Settings = {}): Promise<Judges> {
  const postgres = await startPostgres('17', { autovacuum: 'off' })
  const stops: (() => unknown)[] = [() => postgres.stop()]
  const stop = async () => {
    for (const one of stops.toReversed()) await one()
  }
  try {
    await postgres.run(roles)
    for (const name of ['theirs', 'ours']) {
      await postgres.run(`CREATE DATABASE ${name}`)
      await postgres.run(`ALTER DATABASE ${name} SET timezone TO 'utc'`)
      await postgres.run(schema, name)
    }
    const theirs = await startPostgrest(binary, postgres.directory, {
      ...settings,
      ...more,
      'db-uri': postgres.uri('authenticator', 'theirs'),
      'log-level': 'crit',
    })
    stops.push(() => theirs.stop())
    const ours = await startService(postgres.uri('authenticator', 'ours'), { ...settings, ...more })
    stops.push(() => ours.stop())
    const agent = new Agent({ keepAlive: true })
    stops.push(() => agent.destroy())
    return {
      async sendToBoth(oldWords, newWords) {
        const [their, our] = await Promise.all([
          answered(theirs.port, oldWords, agent),
          answered(ours.port, newWords, agent),
        ])
        // If one server hides an error, the test cannot compare it.
        const isKnown = their.status !== our.status || (their.isKnown && our.isKnown)
        return { theirs: isKnown ? their : { ...their, text: '' }, ours: isKnown ? our : { ...our, text: '' } }
      },
      sendToPostgrest: sent => answered(theirs.port, sent, agent),
      sendToService: sent => answered(ours.port, sent, agent),
      ports: { theirs: theirs.port, ours: ours.port },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
