/**
 * Figures of the REST service, side by side with PostgREST 12.0.2 in one run: the same Postgres, database, pool of 10 and 16 keep-alive connections. Short rounds
 * alternate, and the median of the ratios of neighbours counts. Ours runs with a worker per core, as PostgREST uses all cores too, and beside it with one.
 * - requests per second, p99 and processor time per request of six requests, and the memory of one worker then;
 * - what an answer of 50 MB costs in memory;
 * - reading the schema of 10,000 tables, and what requests feel of it.
 * Names of requests can be given as arguments, or `memory`, `schema`; none is all.
 */
import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { temporaryDirectory } from '../operator/postgres/testing/postgres.ts'
import { startPostgres, type TestPostgres } from '../services/testing/postgres.ts'
import { forgetPeak, memoryMiB, postmasterOf, processorSeconds } from './processes.ts'
import {
  bulkInsert,
  bulkInsertsAlone,
  largeAnswer,
  makeDatabase,
  makeManyTables,
  makeRoles,
  oneOfMany,
  type Question,
  questions,
  smallAnswer,
} from './rest-database.ts'
import { type Load, loadAlone, type Measure, startLoad } from './rest-load.ts'
import { commonSettings, installPostgrest, type Server, startOurs, startPostgrest } from './rest-servers.ts'
import { against, median, print } from './statistics.ts'

const rounds = 5
const seconds = 3
const connections = 16
const pool = 10
const database = 'bench'

type Round = Measure & { processorMs: number; databaseMs: number }

const wanted = process.argv.slice(2)
const isWanted = (name: string): boolean => wanted.length === 0 || wanted.includes(name)

/** One round: the load, and the processor time per request of the server and of Postgres. */
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

type Contest = {
  readonly load: Load
  readonly postgres: TestPostgres
  readonly theirs: Server
  readonly ours: readonly Server[]
}

async function compare({ load, postgres, theirs, ours }: Contest, { name, request }: Question): Promise<void> {
  for (const server of [theirs, ...ours]) await load.measure({ port: server.port, request, connections, seconds: 1 })
  const found: Round[][] = []
  for (let number = 0; number < rounds; number++) {
    const each: Round[] = []
    for (const server of [theirs, ...ours]) each.push(await round(load, server, postgres, request))
    found.push(each)
  }
  const of = (at: number) => found.map(each => each[at]).filter(one => one !== undefined)
  const base = of(0)
  print(name, '')
  for (const [at, { name: who }] of ours.entries()) {
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
    print(`  ${who}: requests per second`, `${against(rate.ratio, 2, 'at least')} (${rate.detail})`)
    print('    p99', `${against(slowest.ratio, 0.6, 'at most')} (${slowest.detail} ms)`)
    print('    processor time per request', `${against(processor.ratio, 1, 'at most')} (${processor.detail} ms)`)
    print('    of Postgres per request', `${inDatabase.ratio.toFixed(2)} (${inDatabase.detail} ms)`)
    if (failures > 0) print('    FAILURES', String(failures))
  }
  if (name !== bulkInsert) return
  const [json, made] = await bulkInsertsAlone(postgres.uri('postgres', database), pool, seconds)
  print('  Postgres alone: of the JSON, of rows it makes', `${json.toFixed(0)}, ${made.toFixed(0)} a second`)
}

/** Of servers that have answered little yet: one that has been under load has memory to spare. */
async function largeAnswers({ load, begin }: { load: Load; begin: readonly (() => Promise<Server>)[] }): Promise<void> {
  for (const start of begin) {
    const server = await start()
    try {
      await load.measure({ port: server.port, request: smallAnswer, connections, seconds: 0.5 })
      const idle = memoryMiB(server.pid, 'now')
      forgetPeak(server.pid)
      let bytes = 0
      for (let number = 0; number < 3; number++) {
        bytes = (await load.measure({ port: server.port, request: largeAnswer, connections: 1, seconds: 0 })).bytes
      }
      const growth = memoryMiB(server.pid, 'peak') - idle
      const size = bytes / 1024 / 1024
      const text = `${growth.toFixed(0)} MiB over ${idle.toFixed(0)} for ${size.toFixed(0)} MiB`
      print(`an answer of 50 MB, ${server.name}`, `${against(growth / size, 3, 'at most')} times its size (${text})`)
    } finally {
      await server.stop()
    }
  }
}

/** Of the admin server's metrics one value. */
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
  const theirs = await startPostgrest(binary, directory, settings)
  await theirs.stop()
  const ours = await startOurs(directory, 1, settings)
  try {
    print('10,000 tables: start to ready', `${ours.startMs.toFixed(0)} ms; PostgREST ${theirs.startMs.toFixed(0)} ms`)
    const order = { port: ours.port, request: oneOfMany, connections, seconds: 5 }
    await load.measure(order)
    const calm = await load.measure(order)
    const busy = load.measure(order)
    await pause(500)
    process.kill(ours.pid, 'SIGUSR1')
    const during = await busy
    const count = 'rst_schema_cache_loads_total{status="success"}'
    while (!((await metric(ours, count)) >= 2)) await pause(50)
    const took = await metric(ours, 'rst_schema_cache_load_seconds')
    print('  schema read again under load', against(took, 2, 'at most', ' s'))
    const worst = (one: Measure) =>
      `p99 ${one.p99.toFixed(1)} ms, worst ${one.worst.toFixed(1)} ms, ${one.failures} failed`
    print('  requests meanwhile', `${worst(during)}; without it ${worst(calm)}`)
    print('  memory afterwards', `${memoryMiB(ours.pid, 'now').toFixed(0)} MiB`)
  } finally {
    await ours.stop()
  }
}

async function sideBySide(load: Load, postgres: TestPostgres, directory: string, binary: string): Promise<void> {
  await makeDatabase(postgres, database)
  const settings = commonSettings(postgres.uri('authenticator', database), pool)
  const theirs = await startPostgrest(binary, directory, settings)
  const one = await startOurs(directory, 1, settings)
  const all = await startOurs(directory, availableParallelism(), settings)
  const contest: Contest = { load, postgres, theirs, ours: [one, all] }
  try {
    for (const question of questions) if (isWanted(question.name)) await compare(contest, question)
    const memory = memoryMiB(one.pid, 'peak')
    print('memory of one worker under load', against(memory, 150, 'at most', ' MiB'))
    print('  of PostgREST', `${memoryMiB(theirs.pid, 'peak').toFixed(0)} MiB`)
  } finally {
    await Promise.all([theirs, one, all].map(server => server.stop()))
  }
  if (!isWanted('memory')) return
  const begin = [() => startOurs(directory, 1, settings), () => startPostgrest(binary, directory, settings)]
  await largeAnswers({ load, begin })
}

async function main(): Promise<void> {
  const directory = temporaryDirectory('bench-rest')
  const load = startLoad()
  const postgres = await startPostgres('17')
  try {
    const binary = installPostgrest(directory)
    if (binary === undefined) {
      console.log('PostgREST cannot be installed on this machine: nothing is measured')
      return
    }
    await makeRoles(postgres)
    print('load against a server that does nothing', `${(await loadAlone(load, connections)).toFixed(0)} a second`)
    await sideBySide(load, postgres, directory, binary)
    if (isWanted('schema')) await manyTables(load, postgres, directory, binary)
  } finally {
    load.stop()
    await postgres.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

await main()
