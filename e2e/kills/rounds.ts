/**
 * Rounds of kills. While writers write, several operations are requested at once, and processes are killed at random
 * moments. At the end, every operation must have succeeded, every acknowledged row must exist, and every copy must be
 * the state of one instant. A failed operation is a fault, whatever its reason, since no round deletes an object that
 * an operation needs.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../client.ts'
import { type Chance, createChance, seed } from '../kubernetes/chance.ts'
import { createOperations, type Operation, type Operations, type Outcome, type Written } from './operations.ts'
import { createRequests, type Requests } from './requests.ts'
import type { Target } from './target.ts'
import { startWriters } from './writers.ts'

/** After this many rounds, the databases are deleted and other databases are created. */
const roundsOfDatabases = 5
/** The time between two kills of a round, in ms. */
const betweenKillsMs: [number, number] = [100, 3_000]
const mostKills = 3
/** Time limit until the installation is idle after the last operation. */
const restWithinMs = 10 * 60_000
/** The purposes of backups that a restore takes automatically. */
const ofRestores = ['prerestore', 'postrestore']

type Report = {
  seed: number
  rounds: number
  seconds: number
  kills: Record<string, number>
  /** Counts by operation and outcome. */
  operations: Record<string, number>
  acknowledged: number
  repeatedRequests: Record<string, number>
  faults: string[]
}

/** `reported`: the ids of the Tasks whose failure was already reported. */
type Run = { target: Target; requests: Requests; operations: Operations; report: Report; reported: Set<string> }
type Listed = {
  id: string
  status: string
  name: string
  purpose?: string
  error?: string
  deletion_requested_at?: string
}

function count(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1
}

export async function runRounds(target: Target, rounds: number): Promise<Report> {
  const requests = createRequests(target)
  const report: Report = {
    ...{ seed, rounds: 0, seconds: 0, kills: {}, operations: {}, acknowledged: 0, repeatedRequests: {}, faults: [] },
  }
  const run = { target, requests, operations: createOperations(target, requests), report, reported: new Set<string>() }
  const began = performance.now()
  let written: Written[] = []
  try {
    for (let round = 0; round < rounds; round++) {
      if (round % roundsOfDatabases === 0) {
        await replace(run, written)
        written = await Promise.all([database(run, `a${round}`), database(run, `b${round}`)])
      }
      await playRound(run, round, written)
      report.rounds = round + 1
    }
    await replace(run, written)
    written = []
    report.faults.push(...(await target.leftover()).map(line => `left over: ${line}`))
  } finally {
    await Promise.all(written.map(({ writers }) => writers.pause()))
    report.seconds = Math.round((performance.now() - began) / 1000)
    report.repeatedRequests = Object.fromEntries(requests.repeated)
    console.log(JSON.stringify(report, undefined, 2))
  }
  return report
}

async function database({ operations }: Run, name: string): Promise<Written> {
  const { body, outcome } = await operations.create('database with writers', name, {})
  const [end] = outcome.ends
  if (end?.status !== 'succeeded') throw new Error(`no database: ${end?.error}`)
  const writers = await startWriters(operations.connectionOf(`/databases/${body.id}`))
  return { id: body.id, name, writers, backup: undefined, isLarge: false }
}

/** Deletes databases with everything that belongs to them. */
async function replace({ operations, report }: Run, written: readonly Written[]): Promise<void> {
  for (const { id, writers } of written) {
    await writers.pause()
    report.acknowledged += writers.acknowledged()
    await operations.remove(`/databases/${id}?force=true`)()
  }
}

/** Chooses one operation on a whole database, and copies, for two databases at once. */
function choose({ operations }: Run, round: number, [first, second]: readonly Written[], chance: Chance): Operation[] {
  if (first === undefined || second === undefined) return []
  const [changed, copied] = chance.between(0, 2) < 1 ? [first, second] : [second, first]
  const { restore, resize, rotate, suspend, backup, branch, copy, empty } = operations
  const change = chance.of([restore, restore, restore, restore, suspend, rotate, resize])
  const any = () => (chance.between(0, 4) < 1 ? changed : copied)
  const wanted = [
    change(changed),
    backup(copied),
    chance.between(0, 4) < 3 ? branch(any()) : undefined,
    chance.between(0, 2) < 1 ? backup(changed) : undefined,
    chance.between(0, 2) < 1 ? copy(any(), `copy${round}`) : undefined,
    chance.between(0, 2) < 1 ? empty(`new${round}`) : undefined,
  ]
  return wanted.filter(operation => operation !== undefined)
}

async function strike({ target, report }: Run, ids: string[], chance: Chance): Promise<string[]> {
  const names: string[] = []
  await sleep(chance.between(0, target.killsWithinMs))
  for (let kills = Math.ceil(chance.between(0, mostKills)); kills > 0; kills--) {
    const { name, strike: kill } = chance.of(target.kills(ids))
    if (await kill(chance)) {
      names.push(name)
      count(report.kills, name)
    }
    if (kills > 1) await sleep(chance.between(...betweenKillsMs))
  }
  return names
}

async function playRound(run: Run, round: number, written: readonly Written[]): Promise<void> {
  const { report } = run
  const began = performance.now()
  const chance = createChance(`round ${round}`)
  const operations = choose(run, round, written, chance).map(operate => operate())
  const ids = written.map(({ id }) => id)
  const [killed, ...ended] = await Promise.allSettled([strike(run, ids, chance), ...operations])
  if (killed.status === 'rejected') throw new Error(`round ${round}: a kill`, { cause: killed.reason })
  const faults: string[] = []
  const outcomes: Outcome[] = []
  for (const result of ended) {
    if (result.status === 'fulfilled') outcomes.push(result.value)
    else faults.push(`an operation did not end: ${String(result.reason)}`)
  }
  for (const { operation, ends } of outcomes) {
    for (const { status } of ends) count(report.operations, `${operation} ${status}`)
  }
  faults.push(...(await atRest(run)))
  await Promise.all(written.map(({ writers }) => writers.pause()))
  for (const { writers } of written) {
    const restored = outcomes.flatMap(outcome => outcome.restored ?? [])
    faults.push(...(await writers.settle(restored.filter(restore => restore.of === writers))))
  }
  for (const { operation, check } of outcomes) {
    for (const fault of (await check?.()) ?? []) faults.push(`${operation}: ${fault}`)
  }
  for (const { remove } of outcomes) await remove?.()
  await clear(run, written)
  const durations = outcomes.map(({ operation, tookMs }) => `${operation} ${(tookMs / 1000).toFixed(1)} s`)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`round ${round}, ${seconds} s; killed: ${killed.value.join(', ')}; ${durations.join(', ')}`, ...faults)
  report.faults.push(...faults.map(fault => `round ${round}: ${fault}`))
  for (const { writers } of written) writers.resume()
}

/**
 * Waits until no Task runs, and databases and branches are available. @returns the failed Tasks, also those that were
 * started automatically
 */
async function atRest({ requests: { read }, reported }: Run): Promise<string[]> {
  const tasks = (status: string) => read<Listed[]>(`/tasks?status=${status}&limit=100`)
  try {
    await eventually(
      'no Task runs and every database is available',
      async () => {
        const running = [...(await tasks('running')), ...(await tasks('queued'))]
        const databases = await read<Listed[]>('/databases')
        const busy = [...running, ...databases.filter(({ status }) => status !== 'available')]
        if (busy.length > 0) throw new Error(JSON.stringify(busy))
        await sleep(500)
        return true
      },
      restWithinMs,
    )
  } catch (error) {
    return [`not at rest: ${String(error instanceof Error ? error.cause : error)}`]
  }
  const failed = (await tasks('failed')).filter(({ id }) => !reported.has(id))
  for (const { id } of failed) reported.add(id)
  return failed.map(({ id, name, error }) => `the task ${id} ${name} failed: ${error}`)
}

/** Deletes objects that restores retain, so that the disk does not become full. */
async function clear({ requests: { read, request } }: Run, written: readonly Written[]): Promise<void> {
  for (const { id } of written) {
    for (const { incarnation } of await read<{ incarnation: number }[]>(`/databases/${id}/previous`))
      await request('DELETE', `/databases/${id}/previous/${incarnation}`)
    const backups = await read<Listed[]>(`/backups?database_id=${id}`)
    for (const backup of backups.filter(({ purpose = '' }) => ofRestores.includes(purpose)))
      await request('DELETE', `/backups/${backup.id}`)
  }
}
