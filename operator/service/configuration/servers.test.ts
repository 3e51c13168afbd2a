/**
 * Runs the rendered servers on a real Postgres. Each server starts, answers its probe, and continues while Postgres
 * restarts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
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
import { servicePorts } from './ports.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const authenticator = { password: 'rest-secret-1', passwordVersion: 'r', anonymousRoles: ['web_anon'] }
const mcpState = { owner: 'one', isRequested: true, login: { password: 'state-secret-1', passwordVersion: 's' } }
const token = 'the-token-of-this-service'
const program = join(import.meta.dirname, '../../../bin/espalier.mjs')
const signal = new AbortController().signal

let server: RunningPostgres
let folder: string
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
    administrator.ensureRoles(
      server.target,
      async () => ({ passwords, passwordVersion: 'm', authenticator, mcpState }),
      signal,
    )
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
  const keys = { embedding_llm_api_key: 'k', completion_llm_api_key: 'k', init_users: 'alice:secret-of-alice' }
  return {
    config: serviceConfig.parse({ serviceId: '0123abcd', ...config }),
    keys,
    minted: { token, password: authenticator.password },
    state: mcpState.login,
    database: {
      host: 'localhost',
      port: server.port,
      name: 'app',
      authority: server.authority.cert,
      // Postgres does not have the newest password yet.
      passwords: {
        admin: [],
        app: ['not-yet', passwords.app],
        app_read_only: ['not-yet', passwords.app_read_only],
      },
    },
    publicUrl: Object(config).serviceType === 'mcp' ? 'https://shop.db.test/mcp' : undefined,
    settings: {
      resources: { mcp: resources, rest: resources, rag: resources },
      baseUrls: { openai: 'http://127.0.0.1:1' },
      trustedProxies: ['127.0.0.0/8'],
    },
  }
}

/** Replaces values like the runtime: a directory instead of the mounted one, and a separate address. */
function environmentOf(container: ServiceContainer, replaced: (text: string) => string, address: string) {
  const own = Object.entries(container.environment).map(([name, value]) => [
    name,
    replaced(value.replaceAll('$(POD_IP)', address)),
  ])
  return {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: folder,
    POD_IP: address,
    ESPALIER_SAMPLES_ID: 'of-this-test',
    ...Object.fromEntries(own),
  }
}

/** @returns the time until the server answered its probe */
async function start(type: keyof typeof configs, address: string): Promise<Record<string, number>> {
  const rendering = renderService(inputOf(configs[type]))
  if (rendering.kind === 'refused') throw new Error(rendering.message)
  const { files: filesOf, containers, writable } = rendering.service
  const files = await filesOf()
  const [mounted, state] = [join(folder, type), join(folder, `${type}-state`)]
  mkdirSync(mounted)
  mkdirSync(state)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(mounted, name), text)
  const replaced = (text: string) =>
    writable.reduce((all, path) => all.replaceAll(path, state), text.replaceAll(configurationDirectory, mounted))
  const took: Record<string, number> = {}
  for (const container of containers) {
    const env = environmentOf(container, replaced, address)
    const from = performance.now()
    const child = spawn(process.execPath, [program, ...container.args.map(replaced)], { env, stdio: 'pipe' })
    let log = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', text => {
        log += text
      })
    running.push({ name: container.name, child, log: () => log })
    const ready = async (): Promise<string | undefined> => {
      await pause(50)
      const { port, path } = container.startupProbe.httpGet
      const answer = await fetch(`http://${address}:${port}${path}`).catch(() => undefined)
      return answer?.status === 200 ? undefined : ((await answer?.text()) ?? 'no connection')
    }
    let last = await ready()
    while (last !== undefined && performance.now() - from < 60_000 && child.exitCode === null) last = await ready()
    if (last !== undefined) throw new Error(`${container.name}: ${last}\n${log}`)
    took[container.name] = Math.round(performance.now() - from)
    const { httpGet } = container.readinessProbe
    expect((await fetch(`http://${address}:${httpGet.port}${httpGet.path}`)).status).toBe(200)
  }
  return took
}

/** Reads through the server that listens for HTTP itself. */
async function readByTool(): Promise<string> {
  const answer = await fetch(`http://127.9.1.2:${servicePorts.mcp.tools}/mcp/v1`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name: 'query_database', arguments: { query: 'SELECT id FROM people' } },
    }),
  })
  return await answer.text()
}

/** The error of the retrieval server, because the pipeline's table does not exist. */
async function databaseOfRag(): Promise<unknown> {
  const answer = await fetch(`http://127.9.1.3:${servicePorts.rag.http}/v1/health`)
  return JSON.parse(await answer.text()).pipelines[0].database.error
}

/** Includes processes that the server has started. */
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
    // The bridge's authorization server has created its tables. The tables for conversations are created with the first
    // conversation.
    const client = await connectAs(server, 'mcp_state', mcpState.login.password, 'espalier')
    const { rows } = await client.query("SELECT tableowner FROM pg_tables WHERE tablename = 'espalier_oauth_records'")
    await client.end()
    expect(rows).toEqual([{ tableowner: 'mcp_state' }])
    const answer = await fetch('http://127.9.1.1:3000/people')
    expect(await answer.json()).toEqual([{ id: 7 }])
  }, 180_000)

  test('each server returns its own measurements', async () => {
    const at = { rest: ['127.9.1.1', 'samples'], mcp: ['127.9.1.2', 'toolsSamples'], rag: ['127.9.1.3', 'samples'] }
    const ports: Record<string, number> = { ...servicePorts.mcp, ...servicePorts.rag }
    for (const [type, [host, name = '']] of Object.entries(at)) {
      const { id, names, samples } = JSON.parse(await (await fetch(`http://${host}:${ports[name]}/samples`)).text())
      expect(id, type).toBe('of-this-test')
      expect(samples.length, type).toBeGreaterThan(0)
      expect(samples.at(-1)[1 + names.indexOf('memory_bytes')], type).toBeGreaterThan(20_000_000)
    }
    const bridge = await fetch(`http://127.9.1.2:${servicePorts.mcp.bridgeSamples}/samples`)
    expect(JSON.parse(await bridge.text()).names).toContain('sessions')
  })

  test('a restart of Postgres causes only 503 with Retry-After, and no server loses its pool', async () => {
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
    await expect.poll(readByTool, { timeout: 60_000 }).toContain('7')
    await expect.poll(databaseOfRag, { timeout: 60_000 }).not.toBe('the database cannot be reached')
    expect(running.map(({ child }) => child.exitCode)).toEqual(running.map(() => null))
  }, 180_000)

  test('each server stops without a crash', async () => {
    for (const { name, child } of running) {
      child.kill('SIGTERM')
      const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode]
      expect([name, code]).toEqual([name, 0])
    }
  }, 60_000)
}
