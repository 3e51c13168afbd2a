/**
 * Probing Postgres, beside the passes: a probe may take seconds where a machine is gone, and must hold up no other
 * database meanwhile. So a pass asks for one and goes on; when the answer is there, the database is looked at again.
 * What is kept are answers, by which nothing but the time of the next probe (next-probe.ts) is decided twice.
 *
 * Slow is not broken: a probe that is not answered in time changes nothing but when the next one is taken, and that is
 * later. Only what answers wrongly, or refuses, or is not there, counts against a Postgres.
 */

import type { Logger } from 'pino'
import { databaseRoles, type Passwords } from '../../../sealing/credentials.ts'
import type {
  DesiredAuthenticator,
  DesiredMcpState,
  PostgresObservation,
  PostgresTarget,
  References,
} from '../../postgres/administrator.ts'
import { slowReasons } from '../../postgres/errors.ts'
import { markOfRole } from '../../postgres/marks.ts'
import type { PostgresAnswer, PostgresFacts } from '../observed.ts'
import type { PostgresAccess } from './access.ts'
import { type ClientPath, notSelectedMessage } from './target.ts'

export type ProbeRequest = {
  key: string
  access: PostgresAccess
  target: PostgresTarget
  clientPath: ClientPath
  run: string
  ready: boolean
  passwords: Passwords | undefined
  mark: string | undefined
  /** The login of the service `rest` as it is to be. */
  authenticator?: DesiredAuthenticator | undefined
  /** What the configurations of services name. */
  references?: References | undefined
  /** Where the service `mcp` keeps its conversations. */
  mcpState?: DesiredMcpState | undefined
  /** Nothing in the pod sees to it that WAL can be written: the probe does. */
  commits: boolean
  /** The digest of the files that should be in force. */
  configuration: string | undefined
  /** The pod says that its disk hangs or is full; a probe that does not soon find it full says that it hangs. */
  isUrgent: boolean
}

type Prober = {
  get(key: string): PostgresFacts | undefined
  /** Has a probe taken as soon as there is room; one that is under way for this key already is enough. */
  request(request: ProbeRequest): void
  /** Marks the last answer as outdated: Postgres was changed. `failed`: the change failed. */
  outdate(key: string, failed: boolean): void
  /** A client could not reach it: the last answer may be outdated. */
  reportUnreachable(key: string): void
  /** Since when it has been suspected without a probe. */
  suspectedAt(key: string): number | undefined
  forget(key: string): void
  stop(): Promise<void>
}

type Concluded = Pick<ProbeRequest, 'run' | 'ready' | 'mark' | 'configuration'> & {
  /** A gateway could not connect, before the probe. */
  isSuspected?: boolean
}

const concurrentProbes = 32
/** Longer than a commit may take (administrator.ts): one that hangs is found, not broken off. */
const probeTimeoutMs = 40_000
const urgentTimeoutMs = 3_000

/** What an observation comes to, without a login. */
export function answerOf(
  observation: PostgresObservation,
  mark: string | undefined,
  wanted: { authenticator?: DesiredAuthenticator | undefined; mcpState?: DesiredMcpState | undefined } = {},
): PostgresAnswer {
  if (!observation.reachable) return { state: 'refused', reason: observation.reason, message: observation.message }
  if (observation.inRecovery) return { state: 'refused', reason: 'starting', message: 'Postgres is in recovery' }
  const { roles, privilegesInOrder, applicationDatabase, authenticator, mcpState } = observation
  const marked = databaseRoles.every(
    role => mark === undefined || roles[role].credentialsMark === markOfRole(mark, role),
  )
  const changed = databaseRoles.filter(role => roles[role].password === 'changed' || roles[role].password === 'absent')
  return {
    state: 'answered',
    systemIdentifier: observation.systemIdentifier,
    rolesInOrder: privilegesInOrder && applicationDatabase && marked,
    changedByUser: marked ? changed : [],
    login: 'untried',
    certificate: observation.certificate,
    hasRoom: observation.hasRoom,
    walHangs: observation.wal === 'hangs',
    walPosition: observation.walPosition ?? undefined,
    checksumFailures: observation.checksumFailures ?? undefined,
    configuration: observation.configuration,
    platformInOrder:
      observation.platformInOrder &&
      authenticator?.inOrder !== false &&
      (mcpState?.kind !== 'ours' || mcpState.inOrder),
    ...(authenticator === undefined || wanted.authenticator === undefined
      ? {}
      : { authenticator: { ...authenticator, mark: wanted.authenticator.mark } }),
    ...(mcpState === undefined || wanted.mcpState?.login === undefined
      ? {}
      : { mcpState: { ...mcpState, mark: wanted.mcpState.login.mark } }),
    ...(observation.references === undefined ? {} : { references: observation.references }),
    ...(observation.closed === undefined ? {} : { closed: observation.closed }),
  }
}

/**
 * What is known after a probe that came to this. Pure. A probe that finds no machine counts only with another witness: a
 * second one in a row, or a gateway that could not connect before the first.
 */
function conclude(
  { run, ready, mark, configuration, isSuspected = false }: Concluded,
  answer: PostgresAnswer,
  last: PostgresFacts | undefined,
  at: number,
): PostgresFacts {
  const before = last?.run === run ? last : undefined
  if (answer.state === 'refused' && slowReasons.has(answer.reason)) {
    const known = before ?? { mark, answer: undefined, isOutdated: false }
    return { ...known, at, run, ready, slow: (before?.slow ?? 0) + 1, isDoubtful: false }
  }
  const failures = before?.failures
  const none = { at, run, ready, slow: 0, isOutdated: false, ...(failures === undefined ? {} : { failures }) }
  const isSilent = answer.state === 'refused' && answer.reason === 'silent'
  if (isSilent && !isSuspected && before?.answer?.state === 'answered' && !before.isDoubtful)
    return { ...none, mark: before.mark, answer: before.answer, isDoubtful: true }
  const since = hasOtherFiles(configuration, answer) ? (before?.otherFilesSince ?? at) : undefined
  return { ...none, mark, answer, isDoubtful: false, ...(since === undefined ? {} : { otherFilesSince: since }) }
}

export function createProber(options: { now: () => number; onAnswer: (key: string) => void; logger: Logger }): Prober {
  const { now, onAnswer, logger } = options
  const answers = new Map<string, PostgresFacts>()
  const underWay = new Map<string, symbol>()
  const suspected = new Map<string, number>()
  const waiting: ProbeRequest[] = []
  const running = new Set<Promise<void>>()
  const stopping = new AbortController()

  const take = async (request: ProbeRequest, isSuspected: boolean): Promise<PostgresAnswer> => {
    const { key, access, target, passwords, mark, authenticator, references, mcpState, commits, isUrgent } = request
    const timeout = AbortSignal.timeout(isUrgent ? urgentTimeoutMs : probeTimeoutMs)
    const signal = AbortSignal.any([stopping.signal, timeout])
    const observation = await access.observe(
      target,
      { passwords, commits, authenticator, references, mcpState },
      signal,
    )
    const answer = answerOf(observation, mark, { authenticator, mcpState })
    return answer.state === 'answered'
      ? withLogin(request, answer, isSuspected ? undefined : answers.get(key), signal)
      : answer
  }

  const probe = async (request: ProbeRequest) => {
    const { key } = request
    const ticket = Symbol(key)
    const isSuspected = suspected.delete(key)
    underWay.set(key, ticket)
    let answer: PostgresAnswer
    try {
      answer = await take(request, isSuspected)
    } catch (error) {
      if (stopping.signal.aborted) return
      const message = error instanceof Error ? error.message : String(error)
      answer = { state: 'refused', reason: 'timeout', message }
      logger.debug({ key, err: error }, 'a probe at Postgres failed')
    }
    // Outdated meanwhile: what was seen may have been before that.
    if (underWay.get(key) !== ticket) return onAnswer(key)
    underWay.delete(key)
    answers.set(key, conclude({ ...request, isSuspected }, answer, answers.get(key), now()))
    onAnswer(key)
  }

  const pump = () => {
    while (running.size < concurrentProbes && !stopping.signal.aborted) {
      const next = waiting.shift()
      if (next === undefined) return
      const taken = probe(next).finally(() => {
        running.delete(taken)
        pump()
      })
      running.add(taken)
    }
  }

  return {
    get: key => answers.get(key),
    request: request => {
      if (underWay.has(request.key) || stopping.signal.aborted) return
      underWay.set(request.key, Symbol(request.key))
      waiting.push(request)
      pump()
    },
    outdate: (key, failed) => {
      const facts = answers.get(key)
      const failures = failed ? (facts?.failures ?? 0) + 1 : undefined
      if (facts !== undefined) answers.set(key, { ...facts, failures, isOutdated: true })
      underWay.delete(key)
    },
    reportUnreachable: key => void suspected.set(key, now()),
    suspectedAt: key => suspected.get(key),
    forget: key => {
      answers.delete(key)
      suspected.delete(key)
      underWay.delete(key)
    },
    stop: async () => {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

/** Whether Postgres reads its files where they are mounted, and has not read those that it should. */
function hasOtherFiles(configuration: string | undefined, answer: PostgresAnswer): boolean {
  if (answer.state !== 'answered' || configuration === undefined || !answer.configuration.isMounted) return false
  return answer.configuration.inForce !== configuration
}

type Answered = Extract<PostgresAnswer, { state: 'answered' }>

/**
 * Adds a real login, the proof that a client is answered, where the password is ours and none has succeeded in this run
 * with these passwords.
 */
async function withLogin(
  request: ProbeRequest,
  answer: Answered,
  before: PostgresFacts | undefined,
  signal: AbortSignal,
): Promise<PostgresAnswer> {
  const { access, passwords, run, mark } = request
  if (passwords === undefined || !answer.rolesInOrder || answer.walHangs || answer.changedByUser.includes('app'))
    return answer
  if (answer.closed !== undefined) return answer
  const last = before?.run === run && before.mark === mark ? before.answer : undefined
  if (last?.state === 'answered' && last.login === 'succeeded') return { ...answer, login: 'succeeded' }
  const target = clientsTarget(request)
  if (target === undefined) return { ...answer, login: 'unreachable', loginMessage: notSelectedMessage }
  const login = await access.login(target, passwords.app, signal)
  switch (login.result) {
    case 'succeeded':
      return { ...answer, login: 'succeeded' }
    case 'refused':
      return { ...answer, login: 'refused', loginMessage: login.message }
    case 'unreachable':
      return { ...answer, login: 'unreachable', loginMessage: `${notSelectedMessage}: ${login.message}` }
    case 'busy':
      return answer
    // Nothing is concluded from half a probe.
    case 'slow':
      return { state: 'refused', reason: 'timeout', message: 'a login as app took too long' }
  }
}

function clientsTarget({ target, clientPath }: ProbeRequest): PostgresTarget | undefined {
  if (clientPath.by === 'elsewhere') return undefined
  return clientPath.by === 'service' ? { ...target, host: clientPath.address } : target
}
