/** The two servers that are compared, each before its own copy of one database: PostgREST 12.0.2 as a program that is not root's, and ours in this process. */
import { Agent } from 'node:http'
import { type Answer, ask } from '../../../testing/client.ts'
import { startPostgres } from '../../../testing/postgres.ts'
import { type Settings, startPostgrest } from '../programs.ts'
import { startService } from '../service.ts'
import { type Asked, pathOf, secret } from './request.ts'
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
  /** Asks PostgREST the first request, and ours the second. */
  ask(their: Asked, our: Asked): Promise<Answers>
  /** Asks PostgREST alone. */
  askTheirs(asked: Asked): Promise<Answer>
  /** Asks ours alone. */
  askOurs(asked: Asked): Promise<Answer>
  stop(): Promise<void>
}

/** The error of a refused HEAD has no body, so it is read by GET, where GET is refused as well. `isKnown`: whether the error is known. */
async function answered(port: number, asked: Asked, agent: Agent): Promise<Answer & { isKnown: boolean }> {
  const { method, headers, body } = asked
  // Node writes the headers in the encoding of a body that is a text.
  const said = { headers, ...(body === undefined ? {} : { body: Buffer.from(body) }) }
  const answer = await ask(port, pathOf(asked), { method, ...said }, agent)
  if (method !== 'HEAD' || answer.status < 400) return { ...answer, isKnown: true }
  // GET alone takes a range.
  const { Range: _, ...kept } = headers
  const { status, text } = await ask(port, pathOf(asked), { ...said, method: 'GET', headers: kept }, agent)
  return status === answer.status ? { ...answer, text, isKnown: true } : { ...answer, isKnown: false }
}

/** Starts both; `more` is what both are configured with besides. */
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
      async ask(oldWords, newWords) {
        const [their, our] = await Promise.all([
          answered(theirs.port, oldWords, agent),
          answered(ours.port, newWords, agent),
        ])
        // An error that one of them does not show cannot be compared.
        const isKnown = their.status !== our.status || (their.isKnown && our.isKnown)
        return { theirs: isKnown ? their : { ...their, text: '' }, ours: isKnown ? our : { ...our, text: '' } }
      },
      askTheirs: asked => answered(theirs.port, asked, agent),
      askOurs: asked => answered(ours.port, asked, agent),
      ports: { theirs: theirs.port, ours: ours.port },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
