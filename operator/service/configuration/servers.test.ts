/** The servers as they are rendered, on a real Postgres: each starts, answers its own probe, and goes on while Postgres restarts. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serviceConfig } from '../../../crds/services.ts'
import { until } from '../../../services/testing/client.ts'
import { createAdministrator } from '../../postgres/administrator.ts'
import { connectAs, type RunningPostgres, runPostgres, startPostgres } from '../../postgres/testing/postgres.ts'
import { configurationDirectory, renderService, type ServiceContainer, type ServiceInput } from './index.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const authenticator = { password: 'rest-secret-1', mark: 'r', anonymousRoles: ['web_anon'] }
const mcpState = { owner: 'one', isRequested: true, login: { password: 'state-secret-1', mark: 's' } }
const program = join(import.meta.dirname, '../../../bin/espalier.mjs')
const signal = new AbortController().signal

let server: RunningPostgres
let folder: string
/** By container: runs its startup probe. */
/** Each reports what is wrong; undefined: it is answered. */
const probes = new Map<string, () => Promise<string | undefined>>()
const running: { name: string; child: ChildProcess; log: () => string }[] = []

if (isSoak) describeServers()
else test.skip('services as rendered: takes half a minute, and runs with ESPALIER_SOAK=1', () => {})

beforeAll(async () => {
  if (!isSoak) return
  server = await startPostgres({ major: '18' })
  const administrator = createAdministrator({
    authority: server.authority,
    now: Date.now,
    logger: pino({ level: 'silent' }),
  })
  const ensure = () =>
    administrator.ensureRoles(server.target, async () => ({ passwords, mark: 'm', authenticator, mcpState }), signal)
  await ensure()
  const admin = await connectAs(server, 'admin', passwords.admin)
  await admin.query(
    'CREATE ROLE web_anon NOLOGIN; SET ROLE app; CREATE TABLE public.people (id int); INSERT INTO public.people VALUES (7)',
  )
  await admin.query('GRANT USAGE ON SCHEMA public TO web_anon; GRANT SELECT ON public.people TO web_anon')
  await admin.end()
  await ensure()
  folder = mkdtempSync(join(tmpdir(), 'espalier-servers-'))
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/espalier'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  chmodSync(join(folder, 'bin/espalier'), 0o755)
})
afterAll(async () => {
  for (const { child } of running) child.kill('SIGKILL')
  await server?.kill()
  if (server !== undefined) rmSync(server.mounts.root, { recursive: true, force: true })
  if (folder !== undefined) rmSync(folder, { recursive: true })
})

const llm = { provider: 'openai', model: 'm' }
const configs = {
  mcp: { serviceType: 'mcp' },
  rest: { serviceType: 'rest', rest: { dbSchemas: 'public', dbAnonRole: 'web_anon' } },
  rag: {
    serviceType: 'rag',
    rag: {
      embeddingLlm: llm,
      completionLlm: llm,
      pipelines: [{ name: 'docs', tables: [{ table: 'docs', textColumn: 'body', vectorColumn: 'embedding' }] }],
    },
  },
}
const resources = { requests: { cpu: '50m', memory: '128Mi' }, limits: {} }

function inputOf(config: object): ServiceInput {
  const keys = { embedding_llm_api_key: 'k', completion_llm_api_key: 'k', init_users: 'alice:secret' }
  return {
    config: serviceConfig.parse({ serviceId: '0123abcd', ...config }),
    keys,
    minted: { token: 'the-token-of-this-service', password: authenticator.password },
    state: mcpState.login,
    database: {
      host: 'localhost',
      port: server.port,
      name: 'app',
      authority: server.authority.cert,
      // The newest is one that Postgres does not have yet.
      passwords: {
        admin: [],
        app: ['not-yet', passwords.app],
        app_read_only: ['not-yet', passwords.app_read_only],
      },
    },
    publicUrl: undefined,
    settings: {
      resources: { mcp: resources, rest: resources, rag: resources },
      baseUrls: { openai: 'http://127.0.0.1:1' },
      trustedProxies: ['127.0.0.0/8'],
    },
  }
}

/** As the runtime makes it: a directory in place of the mounted one, and an address of its own. */
function environmentOf(container: ServiceContainer, place: (text: string) => string, address: string) {
  const own = Object.entries(container.environment).map(([name, value]) => [
    name,
    place(value.replaceAll('$(POD_IP)', address)),
  ])
  return {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: folder,
    POD_IP: address,
    ...Object.fromEntries(own),
  }
}

/** @returns how long the server took until its probe was answered */
async function start(type: keyof typeof configs, address: string): Promise<Record<string, number>> {
  const rendering = renderService(inputOf(configs[type]))
  if (rendering.kind === 'refused') throw new Error(rendering.message)
  const { files, containers, writable } = rendering.service
  const [mounted, state] = [join(folder, type), join(folder, `${type}-state`)]
  mkdirSync(mounted)
  mkdirSync(state)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(mounted, name), text)
  const place = (text: string) =>
    writable.reduce((all, path) => all.replaceAll(path, state), text.replaceAll(configurationDirectory, mounted))
  const took: Record<string, number> = {}
  for (const container of containers) {
    const env = environmentOf(container, place, address)
    const from = performance.now()
    const child = spawn(process.execPath, [program, ...container.args.map(place)], { env, stdio: 'pipe' })
    let log = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', text => {
        log += text
      })
    running.push({ name: container.name, child, log: () => log })
    const ready = async (): Promise<string | undefined> => {
      const { startupProbe } = container
      if ('exec' in startupProbe) {
        const [, ...probe] = startupProbe.exec.map(place)
        const { status, stderr } = spawnSync(process.execPath, [program, ...probe], { env, encoding: 'utf8' })
        return status === 0 ? undefined : stderr
      }
      await pause(50)
      const { port, path } = startupProbe.httpGet
      const answer = await fetch(`http://${address}:${port}${path}`).catch(() => undefined)
      return answer?.status === 200 ? undefined : ((await answer?.text()) ?? 'no connection')
    }
    probes.set(container.name, ready)
    let last = await ready()
    while (last !== undefined && performance.now() - from < 60_000 && child.exitCode === null) last = await ready()
    if (last !== undefined) throw new Error(`${container.name}: ${last}\n${log}`)
    took[container.name] = Math.round(performance.now() - from)
    const { httpGet } = container.readinessProbe
    expect((await fetch(`http://${address}:${httpGet.port}${httpGet.path}`)).status).toBe(200)
  }
  return took
}

/** With the processes that it has started. */
function figuresOf({ name, child: { pid = 0 } }: { name: string; child: ChildProcess }): object {
  const proc = (of: string | number, file: string) => readFileSync(`/proc/${of}/${file}`, 'utf8')
  const all = [
    String(pid),
    ...proc(pid, `task/${pid}/children`)
      .split(' ')
      .filter(one => one.trim() !== ''),
  ]
  const memory = all.map(one => Number(/^Pss: +(\d+)/m.exec(proc(one, 'smaps_rollup'))?.[1]) / 1024)
  const ticks = all.map(one => proc(one, 'stat').split(') ')[1]?.split(' ') ?? [])
  const seconds = ticks.map(fields => (Number(fields[11]) + Number(fields[12])) / 100)
  const sum = (values: number[]) => Math.round(values.reduce((total, value) => total + value, 0) * 100) / 100
  return { name, processes: all.length, memoryMiB: sum(memory), processorSeconds: sum(seconds) }
}

function describeServers(): void {
  test('each server starts and answers its probe', async () => {
    const took = {
      ...(await start('rest', '127.9.1.1')),
      ...(await start('mcp', '127.9.1.2')),
      ...(await start('rag', '127.9.1.3')),
    }
    if (process.env.ESPALIER_FIGURES) console.log(took, running.map(figuresOf))
    // The bridge's authorization server has created its tables; those of conversations are created with the first one.
    const client = await connectAs(server, 'mcp_state', mcpState.login.password, 'espalier')
    const { rows } = await client.query("SELECT tableowner FROM pg_tables WHERE tablename = 'espalier_oauth_records'")
    await client.end()
    expect(rows).toEqual([{ tableowner: 'mcp_state' }])
    const answer = await fetch('http://127.9.1.1:3000/people')
    expect(await answer.json()).toEqual([{ id: 7 }])
  }, 180_000)

  test('a restart of Postgres costs no more than 503 with Retry-After, and no server its pool', async () => {
    const from = performance.now()
    const seen = new Map<string, number>()
    let last = ''
    let isOver = false
    const load = async () => {
      while (!isOver) {
        const answer = await fetch('http://127.9.1.1:3000/people', { signal: AbortSignal.timeout(15_000) })
        await answer.text()
        last = `${answer.status} ${answer.headers.has('retry-after') ? 'retry' : ''}`
        seen.set(last, (seen.get(last) ?? 0) + 1)
      }
    }
    const loads = Array.from({ length: 4 }, load)
    await until(() => seen.size > 0)
    await server.kill('SIGINT')
    await until(() => last !== '200 ')
    const { kill } = await runPostgres(server.mounts, { major: '18', settings: { port: String(server.port) } })
    server = { ...server, kill }
    await until(() => last === '200 ')
    const back = performance.now() - from
    isOver = true
    await Promise.all(loads)
    expect([...seen.keys()].sort()).toEqual(['200 ', '503 retry'])
    expect(back).toBeLessThan(60_000)
    for (const { name } of running) {
      const probe = probes.get(name)
      await expect.poll(() => probe?.(), { timeout: 60_000, interval: 200 }).toBeUndefined()
    }
    expect(running.map(({ child }) => child.exitCode)).toEqual(running.map(() => null))
  }, 180_000)

  test('each server stops in order', async () => {
    for (const { name, child } of running) {
      child.kill('SIGTERM')
      const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode]
      expect([name, code]).toEqual([name, 0])
    }
  }, 60_000)
}
