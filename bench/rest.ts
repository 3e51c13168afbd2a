/**
 * Compares the REST service with PostgREST 12.0.2 in one run, with the same Postgres, the same database, a pool of 10
 * and 16 keep-alive connections. Short rounds alternate, and the result is the median of the ratios of neighbouring
 * rounds. The REST service runs with one worker per core, because PostgREST uses all cores too, and also with one
 * worker. Postgres, load and servers share two cores, and then four if the machine has them: such a service runs on
 * small machines, and idle cores would improve the figures. The benchmark measures:
 * - six requests: requests per second, p99 and processor time per request, p99 of an open loop at half of PostgREST's
 *   rate, and the memory of one worker in that loop;
 * - a response of 50 MB: memory, and the time to the first byte;
 * - the read of the schema of 10,000 tables, and its effect on requests.
 *
 * Arguments select requests by name, `memory` or `schema` (default: all). `--cores=2` uses only two cores.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../operator/postgres/testing/postgres.ts'
import { postgrestBinary, type Server, startPostgrest } from '../services/rest/testing/programs.ts'
import { startPostgres, type TestPostgres } from '../services/testing/postgres.ts'
import { forgetPeak, memoryMiB, postmasterOf, processorSeconds } from './processes.ts'
import { bulkInsertsAlone, insertsAlone } from './rest-alone.ts'
import {
  bulkInsert,
  largeAnswer,
  makeDatabase,
  makeManyTables,
  makeRoles,
  oneOfMany,
  type Question,
  questions,
  singleInsert,
  smallAnswer,
} from './rest-database.ts'
import { type Load, loadAlone, type Measure, startLoad } from './rest-load.ts'
import { commonSettings, startService } from './rest-servers.ts'
import { against, median, print } from './statistics.ts'

const rounds = 5
const seconds = 3
const connections = 16
const pool = 10
const database = 'bench'

type Round = Measure & { processorMs: number; databaseMs: number }

const coresOption = '--cores='
const cores = process.argv.find(argument => argument.startsWith(coresOption))?.slice(coresOption.length)
const wanted = process.argv.slice(2).filter(argument => !argument.startsWith(coresOption))
const isWanted = (name: string): boolean => wanted.length === 0 || wanted.includes(name)

/** Runs one round, and measures the processor time per request of the server and of Postgres. */
async function round(load: Load, server: Server, postgres: TestPostgres, request: string): Promise<Round> {
  await postgres.run('TRUNCATE entries', database)
  const postmaster = postmasterOf(join(postgres.directory, 'data'))
  const before = [processorSeconds(server.pid), processorSeconds(postmaster)] as const
  const measured = await load.measure({ port: server.port, request, connections, seconds })
  const after = [processorSeconds(server.pid), processorSeconds(postmaster)] as const
  return {
    ...measured,
    processorMs: ((after[0] - before[0]) / measured.answers) * 1000,
    databaseMs: ((after[1] - before[1]) / measured.answers) * 1000,
  }
}

type Comparison = {
  readonly load: Load
  readonly postgres: TestPostgres
  readonly postgrest: Server
  readonly services: readonly Server[]
}

/** Runs an open loop at half of the slower server's rate, so that the latencies show the difference. */
async function compareOpen({ load, postgres, postgrest, services }: Comparison, request: string, perSecond: number) {
  const all = services.at(-1)
  if (all === undefined) return
  const ratios: number[] = []
  const times: [number[], number[]] = [[], []]
  for (let number = 0; number < rounds; number++) {
    await postgres.run('TRUNCATE entries', database)
    const order = { request, connections, seconds, perSecond }
    const base = await load.measure({ ...order, port: postgrest.port })
    const own = await load.measure({ ...order, port: all.port })
    ratios.push(own.p99 / base.p99)
    times[0].push(own.p99)
    times[1].push(base.p99)
  }
  const [own, base] = times.map(list => median(list).toFixed(1))
  const alone = await loadAlone(load, { connections, perSecond })
  const text = `${against(median(ratios), 0.5, 'at most')} (${own} to ${base} ms; of a server that does nothing ${alone.p99.toFixed(1)})`
  print(`    p99 of an open loop, ${perSecond.toFixed(0)} a second`, text)
}

async function compare(comparison: Comparison, { name, request, isRead }: Question): Promise<void> {
  const { load, postgres, postgrest, services } = comparison
  for (const server of [postgrest, ...services])
    await load.measure({ port: server.port, request, connections, seconds: 1 })
  const found: Round[][] = []
  for (let number = 0; number < rounds; number++) {
    const each: Round[] = []
    for (const server of [postgrest, ...services]) each.push(await round(load, server, postgres, request))
    found.push(each)
  }
  const of = (at: number) => found.map(each => each[at]).filter(one => one !== undefined)
  const base = of(0)
  print(name, '')
  for (const [at, { name: who }] of services.entries()) {
    const own = of(at + 1)
    const figure = (pick: (round: Round) => number, digits: number) => {
      const ratio = median(own.map((one, index) => pick(one) / pick(base[index] ?? one)))
      return { ratio, detail: `${median(own.map(pick)).toFixed(digits)} to ${median(base.map(pick)).toFixed(digits)}` }
    }
    const rate = figure(({ perSecond }) => perSecond, 0)
    const slowest = figure(({ p99 }) => p99, 1)
    const processor = figure(({ processorMs }) => processorMs, 3)
    const inDatabase = figure(({ databaseMs }) => databaseMs, 3)
    const failures = [...own, ...base].reduce((sum, one) => sum + one.failures, 0)
    print(`  ${who}: requests per second`, `${against(rate.ratio, isRead ? 3 : 2.5, 'at least')} (${rate.detail})`)
    print('    p99', `${against(slowest.ratio, 0.5, 'at most')} (${slowest.detail} ms)`)
    print('    processor time per request', `${against(processor.ratio, 1, 'at most')} (${processor.detail} ms)`)
    print('    processor time of Postgres per request', `${inDatabase.ratio.toFixed(2)} (${inDatabase.detail} ms)`)
    if (failures > 0) print('    FAILURES', String(failures))
  }
  const half = median(base.map(({ perSecond }) => perSecond)) / 2
  await compareOpen(comparison, request, half)
  const uri = postgres.uri('postgres', database)
  if (name === singleInsert) {
    const alone = await insertsAlone(uri, pool, seconds * rounds, half)
    print('    p99 of the inserts directly to Postgres', `${alone.toFixed(1)} ms`)
  }
  if (name !== bulkInsert) return
  const [json, generated] = await bulkInsertsAlone(uri, pool, seconds)
  print('  directly to Postgres: JSON, generated rows', `${json.toFixed(0)}, ${generated.toFixed(0)} a second`)
}

/** Measures large responses of new servers, because a server keeps unused memory after a load. */
async function largeAnswers({ load, begin }: { load: Load; begin: readonly (() => Promise<Server>)[] }): Promise<void> {
  for (const start of begin) {
    const server = await start()
    try {
      await load.measure({ port: server.port, request: smallAnswer, connections, seconds: 0.5 })
      const idle = memoryMiB(server.pid, 'now')
      forgetPeak(server.pid)
      const measures: Measure[] = []
      for (let number = 0; number < 5; number++) {
        measures.push(await load.measure({ port: server.port, request: largeAnswer, connections: 1, seconds: 0 }))
      }
      const bytes = measures[0]?.bytes ?? 0
      const growth = memoryMiB(server.pid, 'peak') - idle
      const size = bytes / 1024 / 1024
      const text = `${growth.toFixed(0)} MiB over ${idle.toFixed(0)} for ${size.toFixed(0)} MiB`
      print(`an answer of 50 MB, ${server.name}`, `${against(growth / size, 3, 'at most')} times its size (${text})`)
      const [first, last] = [measures.map(({ firstByte }) => firstByte), measures.map(({ worst }) => worst)].map(median)
      print('  first byte, last byte', `${first?.toFixed(0)} ms, ${last?.toFixed(0)} ms`)
    } finally {
      await server.stop()
    }
  }
}

/** Reads one metric from the admin server. */
async function metric({ adminPort }: Server, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return Number(
    text
      .split('\n')
      .find(line => line.startsWith(name))
      ?.split(' ')
      .at(-1) ?? Number.NaN,
  )
}

async function manyTables(load: Load, postgres: TestPostgres, directory: string, binary: string): Promise<void> {
  await makeManyTables(postgres, 'many')
  const settings = commonSettings(postgres.uri('authenticator', 'many'), pool)
  const postgrest = await startPostgrest(binary, directory, settings)
  await postgrest.stop()
  const services = await startService(directory, 1, settings)
  try {
    print(
      '10,000 tables: from start to ready',
      `${services.startMs.toFixed(0)} ms; PostgREST ${postgrest.startMs.toFixed(0)} ms`,
    )
    const order = { port: services.port, request: oneOfMany, connections, seconds: 5 }
    await load.measure(order)
    const calm = await load.measure(order)
    const busy = load.measure(order)
    await pause(500)
    process.kill(services.pid, 'SIGUSR1')
    const during = await busy
    const count = 'rst_schema_cache_loads_total{status="success"}'
    while (!((await metric(services, count)) >= 2)) await pause(50)
    const took = await metric(services, 'rst_schema_cache_load_seconds')
    print('  schema reload under load', against(took, 2, 'at most', ' s'))
    const worst = (one: Measure) =>
      `p99 ${one.p99.toFixed(1)} ms, worst ${one.worst.toFixed(1)} ms, ${one.failures} failed`
    print('  requests during the reload', `${worst(during)}; without a reload ${worst(calm)}`)
    print('  memory afterwards', `${memoryMiB(services.pid, 'now').toFixed(0)} MiB`)
  } finally {
    await services.stop()
  }
}

async function sideBySide(load: Load, postgres: TestPostgres, directory: string, binary: string): Promise<void> {
  await makeDatabase(postgres, database)
  const settings = commonSettings(postgres.uri('authenticator', database), pool)
  const postgrest = await startPostgrest(binary, directory, settings)
  const one = await startService(directory, 1, settings)
  const all = await startService(directory, availableParallelism(), settings)
  const comparison: Comparison = { load, postgres, postgrest, services: [one, all] }
  try {
    for (const question of questions) if (isWanted(question.name)) await compare(comparison, question)
    const memory = memoryMiB(one.pid, 'peak')
    print('memory of one worker under load', against(memory, 150, 'at most', ' MiB'))
    print('  memory of PostgREST', `${memoryMiB(postgrest.pid, 'peak').toFixed(0)} MiB`)
  } finally {
    await Promise.all([postgrest, one, all].map(server => server.stop()))
  }
  if (!isWanted('memory')) return
  const begin = [() => startService(directory, 1, settings), () => startPostgrest(binary, directory, settings)]
  await largeAnswers({ load, begin })
}

/** Runs all measurements on this number of cores. */
function runPinned(count: number): void {
  console.log(`\non ${count} cores, shared by Postgres, load and servers`)
  const script = fileURLToPath(import.meta.url)
  const command = [process.execPath, script, `${coresOption}${count}`, ...wanted]
  const { status } = spawnSync('taskset', ['-c', `0-${count - 1}`, ...command], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}

async function main(): Promise<void> {
  if (cores === undefined) {
    for (const count of [2, 4]) if (count <= availableParallelism()) runPinned(count)
    return
  }
  const directory = temporaryDirectory('bench-rest')
  // PostgREST runs as the user of Postgres, and reads its settings from this directory.
  chmodSync(directory, 0o755)
  const load = startLoad()
  const postgres = await startPostgres('17')
  try {
    const binary = postgrestBinary()
    if (binary === undefined) {
      console.log('PostgREST cannot be installed on this machine: nothing is measured')
      return
    }
    await makeRoles(postgres)
    print(
      'load against a server that does nothing',
      `${(await loadAlone(load, { connections })).perSecond.toFixed(0)} a second`,
    )
    await sideBySide(load, postgres, directory, binary)
    if (isWanted('schema')) await manyTables(load, postgres, directory, binary)
  } finally {
    load.stop()
    await postgres.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

await main()
