/**
 * Periodically queries the agents of databases with the durable tier for their archiving state, and stores each result.
 * Enqueues a database when its result changes. After a restart, the operator queries everything again.
 */
import type { Logger } from 'pino'
import { keyOf } from '../../cluster/informer/index.ts'
import { childNames, labels, type ManagedDatabase, memberOfClaim } from '../../crds/index.ts'
import { agentPort } from '../../instance/agent/contract.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { archivesAnnotation } from '../member/pod/stateful-set.ts'
import { targetAt } from '../member/postgres/target.ts'
import type { Finding } from '../objects/conditions.ts'
import { ownerOf } from '../objects/ownership.ts'
import { type AgentAnswer, archivingFinding, expectedReasons, starting } from './condition.ts'
import { type ArchivePosition, positionAfter } from './position.ts'
import type { AgentTarget, ArchiveWays } from './ways.ts'

type WatchOptions = {
  caches: Pick<Caches, 'databases' | 'pods'>
  keys: () => InstallationKeys
  /** Undefined if the installation has no archive, or if the authority is missing at present. */
  ways: () => ArchiveWays | undefined
  hasArchive: boolean
  checkMs: number
  now: () => number
  logger: Logger
}

export type ArchiveWatch = {
  /** The archived position of the database. Undefined if unknown. */
  position(database: ManagedDatabase): ArchivePosition | undefined
  /** Undefined if unknown. */
  finding(database: ManagedDatabase): Finding | undefined
  /** The last answer of each database, for metrics. */
  answers(): readonly AgentAnswer[]
  onChange(listener: (key: string) => void): () => void
  stop(): Promise<void>
}

const atOnce = 16

/** The known state of a database. */
type Known = {
  identity: string
  answer?: (AgentAnswer & { incarnation: number }) | undefined
  finding?: Finding | undefined
  position?: ArchivePosition | undefined
  startingSince?: number | undefined
}

const identityOf = ({ metadata }: ManagedDatabase): string => `${metadata.uid} ${metadata.labels?.[labels.id]}`
const isSameFinding = (one: Finding, other: Finding | undefined): boolean =>
  one.reason === other?.reason && one.message === other.message

/**
 * `target`: an agent that archives, even in a terminating pod. `unprepared`: the pod was created before the durable
 * tier was enabled.
 */
export type AgentFacts = { pod: 'absent' | 'unprepared' | 'prepared'; target?: AgentTarget | undefined }

/** The address of a database's agent, and whether its pod archives. */
export function agentOf(
  { pods }: Pick<Caches, 'pods'>,
  { kind, metadata, status }: ManagedDatabase,
  { authority }: InstallationKeys,
): AgentFacts {
  const { namespace } = metadata
  const id = metadata.labels?.[labels.id]
  if (id === undefined || status?.incarnation === undefined) return { pod: 'absent' }
  const name = childNames.pod(id, status.incarnation, memberOfClaim(status.volume?.claim))
  const pod = pods.get({ namespace, name })
  const address = pod?.status?.podIP
  if (pod === undefined || address === undefined) return { pod: 'absent' }
  const archives = pod.metadata.annotations?.[archivesAnnotation] === 'true'
  const owner = ownerOf({ kind, metadata, status }, id)
  const target = archives && authority ? { ...targetAt(owner, address, authority), port: agentPort } : undefined
  if (pod.metadata.deletionTimestamp !== undefined) return { pod: 'absent', target }
  return { pod: archives ? 'prepared' : 'unprepared', target }
}

function report(
  logger: Logger,
  database: string,
  { status, reason, message }: Finding,
  before: Finding | undefined,
): void {
  if (status === 'False' && !expectedReasons.has(reason))
    logger.warn({ database, reason, message }, 'the WAL of a database does not reach the archive')
  if (status === 'True' && before?.status === 'False')
    logger.info({ database, before: before.reason }, 'the WAL of a database reaches the archive again')
}

/** The time since which the agent has been starting. Undefined when it archives. */
const startingAfter = (since: number | undefined, found: Finding | undefined, now: number): number | undefined =>
  found?.reason === starting ? (since ?? now) : found?.status === 'True' ? undefined : since

/** Queries an agent, and stores the state of each database. */
function createCheck({ caches, keys, ways, hasArchive, now, logger }: WatchOptions, signal: AbortSignal) {
  const known = new Map<string, Known>()

  /** The known state of this database. A deleted database may have had the same name. */
  const of = (database: ManagedDatabase): Known | undefined => {
    const found = known.get(keyOf(database))
    return found?.identity === identityOf(database) ? found : undefined
  }

  async function query(database: string, before: AgentAnswer | undefined, target: AgentTarget) {
    try {
      const status = await ways()?.status(target, signal)
      return status === undefined ? before : { status, at: now(), failure: undefined }
    } catch (error) {
      const failure = error instanceof Error ? error.message : String(error)
      logger.debug({ database, err: error }, 'the agent did not answer the query for its archiving state')
      return { status: before?.status, at: before?.at ?? now(), failure }
    }
  }

  /** The agent's last answer. Undefined if there is none for the serving volume. */
  async function answerOf(database: ManagedDatabase, before: Known, agent: AgentFacts): Promise<Known['answer']> {
    const incarnation = database.status?.incarnation
    if (agent.pod !== 'prepared' || incarnation === undefined) return undefined
    const last = before.answer?.incarnation === incarnation ? before.answer : undefined
    if (agent.target === undefined || database.spec.suspended) return last
    const answer = await query(keyOf(database), last, agent.target)
    return answer && { ...answer, incarnation }
  }

  /** @returns whether the state must be reported */
  async function check(database: ManagedDatabase): Promise<boolean> {
    const key = keyOf(database)
    const before = of(database) ?? { identity: identityOf(database) }
    const agent = agentOf(caches, database, keys())
    const answer = await answerOf(database, before, agent)
    // Starts with this volume: a restored volume has its own first minute.
    const startingSince = before.answer?.incarnation === answer?.incarnation ? before.startingSince : undefined
    const isSuspended = database.spec.suspended
    const found = archivingFinding({ hasArchive, isSuspended, pod: agent.pod, agent: answer, startingSince }, now())
    const reported = before.position ?? database.status?.archive
    const position = answer?.status && positionAfter(reported, answer.incarnation, answer.status)
    known.set(key, {
      ...{ identity: before.identity, answer },
      finding: found ?? before.finding,
      position: position ?? before.position,
      startingSince: startingAfter(startingSince, found, now()),
    })
    if (found !== undefined && found.reason !== before.finding?.reason) report(logger, key, found, before.finding)
    const isSame = found === undefined || isSameFinding(found, before.finding)
    return !isSame || (position !== undefined && position !== reported)
  }
  return { known, of, check }
}

export function startArchiveWatch(options: WatchOptions): ArchiveWatch {
  const { caches, checkMs, logger } = options
  const listeners = new Set<(key: string) => void>()
  const stopping = new AbortController()
  const { known, of, check } = createCheck(options, stopping.signal)

  async function checkAll(): Promise<void> {
    const databases = caches.databases.list().filter(({ spec }) => spec.backup.durable)
    const present = new Set(databases.map(keyOf))
    for (const key of known.keys()) if (!present.has(key)) known.delete(key)
    const queue = databases.values()
    const work = async () => {
      for (const database of queue) {
        if (stopping.signal.aborted || !(await check(database))) continue
        for (const listener of listeners) listener(keyOf(database))
      }
    }
    await Promise.all(Array.from({ length: Math.min(atOnce, databases.length) }, work))
  }

  const running = repeat(checkAll, checkMs, stopping.signal, error =>
    logger.error({ err: error }, 'checking the archiving state failed'),
  )
  return {
    finding: database => of(database)?.finding,
    position: database => of(database)?.position,
    answers: () => [...known.values()].flatMap(({ answer }) => answer ?? []),
    onChange: listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

async function repeat(
  work: () => Promise<void>,
  everyMs: number,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(onError)
    await new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, everyMs)
      signal.addEventListener('abort', end, { once: true })
      if (signal.aborted) end()
    })
  }
}
