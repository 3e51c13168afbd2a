/**
 * Looking at Postgres, beside the passes: a look may take seconds where a machine is gone, and must hold up no other
 * database meanwhile. So a pass asks for one and goes on; when the answer is there, the database is looked at again.
 * What is kept are answers, by which nothing but the time of the next look is decided twice.
 */
import { createHash } from 'node:crypto'
import type { Logger } from 'pino'
import { databaseRoles } from '../../crds/index.ts'
import type { PostgresObservation, PostgresTarget } from '../postgres/administrator.ts'
import type { Login, PostgresAccess } from './access.ts'
import type { Passwords } from './children/credentials.ts'
import type { PostgresAnswer, PostgresFacts } from './observed.ts'

export type LookRequest = {
  key: string
  access: PostgresAccess
  target: PostgresTarget
  run: string
  ready: boolean
  passwords: Passwords | undefined
  mark: string | undefined
  /** The certificate it should show. */
  certificate: string | undefined
}

export type Looks = {
  get(key: string): PostgresFacts | undefined
  /** Has a look taken as soon as there is room; one that is under way for this key already is enough. */
  request(request: LookRequest): void
  /** What was learnt is not true any more: something was done in Postgres. */
  outdate(key: string): void
  forget(key: string): void
  stop(): Promise<void>
}

const concurrentLooks = 32
const lookTimeoutMs = 10_000
/** How soon to look again where the last look was too slow to count. */
const doubtMs = 1_000
/** Refusals that may be a busy machine's and nothing more, the first time. */
const slow = new Set(['timeout', 'busy'])
const intervalMs = 30_000

/** A number from 0 to 1 that is always the same for a key, so that looks at many databases spread out. */
const spreadOf = (key: string): number => createHash('sha256').update(key).digest().readUInt32BE() / 2 ** 32

/** How long after a look in vain the next is worth it: at once while Postgres starts, rarely when it has been long. */
export function retryDelay(sinceStartMs: number): number {
  if (sinceStartMs < 5_000) return 20
  return sinceStartMs < 60_000 ? 250 : 2_000
}

/** How long after a reload to see whether the certificate is the new one: a mounted Secret takes up to a minute to change. */
function reloadDelay(sinceIssuedMs: number): number {
  if (sinceIssuedMs < 5_000) return 100
  return sinceIssuedMs < 120_000 ? 5_000 : 60_000
}

/** When to look next, in ms since the epoch. */
export function nextLook(options: {
  key: string
  facts: PostgresFacts | undefined
  /** The pod as it is now. */
  pod: { run: string; ready: boolean; startedAt: number | undefined }
  /** Something is waited for that only Postgres can tell. */
  awaited: boolean
  /** Where Postgres shows another certificate than the one it should: when that was issued. */
  certificateIssuedAt: number | undefined
  operatorStartedAt: number
  now: number
}): number {
  const { key, facts, pod, awaited, certificateIssuedAt, operatorStartedAt, now } = options
  const isPresent = facts?.run === pod.run
  if (!isPresent) return awaited ? now : operatorStartedAt + spreadOf(key) * intervalMs
  if (facts.isOutdated && certificateIssuedAt !== undefined) return facts.at + reloadDelay(now - certificateIssuedAt)
  if (facts.isOutdated || facts.ready !== pod.ready) return now
  if (facts.isDoubtful) return facts.at + doubtMs
  if (awaited) return facts.at + retryDelay(now - (pod.startedAt ?? now))
  return facts.at + intervalMs * (0.8 + 0.4 * spreadOf(key))
}

/** What an observation and a login come to. */
export function answerOf(
  observation: PostgresObservation,
  mark: string | undefined,
  login: Login | undefined,
): PostgresAnswer {
  if (!observation.reachable) return { state: 'refused', reason: observation.reason, message: observation.message }
  if (observation.inRecovery) return { state: 'refused', reason: 'starting', message: 'Postgres is in recovery' }
  const { roles, privilegesInOrder, applicationDatabase } = observation
  const marked = databaseRoles.every(role => mark === undefined || roles[role].credentialsMark === mark)
  const changed = databaseRoles.filter(role => roles[role].password === 'changed' || roles[role].password === 'absent')
  return {
    state: 'answered',
    systemIdentifier: observation.systemIdentifier,
    rolesInOrder: privilegesInOrder && applicationDatabase && marked,
    changedByUser: marked ? changed : [],
    login: login === undefined || login.result === 'busy' ? 'untried' : login.result,
    loginMessage: login?.result === 'refused' ? login.message : undefined,
    certificate: login?.result === 'succeeded' ? login.certificate : undefined,
    databaseBytes: observation.databaseBytes,
    hasRoom: observation.hasRoom,
  }
}

export function createLooks(options: { now: () => number; onAnswer: (key: string) => void; logger: Logger }): Looks {
  const { now, onAnswer, logger } = options
  const answers = new Map<string, PostgresFacts>()
  const underWay = new Map<string, symbol>()
  const waiting: LookRequest[] = []
  const running = new Set<Promise<void>>()
  const stopping = new AbortController()

  const take = async (request: LookRequest): Promise<PostgresFacts> => {
    const { key, access, target, passwords, mark } = request
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(lookTimeoutMs)])
    const before = answers.get(key)
    const observation = await access.observe(target, passwords, signal)
    const first = answerOf(observation, mark, undefined)
    const answer = first.state === 'answered' ? await withLogin(request, first, before, signal) : first
    return conclude(request, answer)
  }

  const conclude = ({ key, run, ready, mark }: LookRequest, answer: PostgresAnswer): PostgresFacts => {
    const before = answers.get(key)
    const isSame = before?.run === run && before.mark === mark && before.answer.state === 'answered'
    const isDoubtful = isSame && !before.isDoubtful && answer.state === 'refused' && slow.has(answer.reason)
    return { at: now(), run, ready, mark, answer: isDoubtful ? before.answer : answer, isDoubtful, isOutdated: false }
  }

  const look = async (request: LookRequest) => {
    const { key } = request
    const ticket = Symbol(key)
    underWay.set(key, ticket)
    let facts: PostgresFacts
    try {
      facts = await take(request)
    } catch (error) {
      if (stopping.signal.aborted) return
      const message = error instanceof Error ? error.message : String(error)
      facts = conclude(request, { state: 'refused', reason: 'timeout', message })
      logger.debug({ key, err: error }, 'a look at Postgres failed')
    }
    // Outdated meanwhile: what was seen may have been before that.
    if (underWay.get(key) !== ticket) return onAnswer(key)
    underWay.delete(key)
    answers.set(key, facts)
    onAnswer(key)
  }

  const pump = () => {
    while (running.size < concurrentLooks && !stopping.signal.aborted) {
      const next = waiting.shift()
      if (next === undefined) return
      const taken = look(next).finally(() => {
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
    outdate: key => {
      const facts = answers.get(key)
      if (facts !== undefined) answers.set(key, { ...facts, isOutdated: true })
      underWay.delete(key)
    },
    forget: key => {
      answers.delete(key)
      underWay.delete(key)
    },
    stop: async () => {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

type Answered = Extract<PostgresAnswer, { state: 'answered' }>

/**
 * Adds a real login, where the password is ours and the last login in this run does not still stand: the roles are as
 * they were, and the certificate is the one that should be shown.
 */
async function withLogin(
  { access, target, passwords, run, mark, certificate }: LookRequest,
  answer: Answered,
  before: PostgresFacts | undefined,
  signal: AbortSignal,
): Promise<Answered> {
  if (passwords === undefined || !answer.rolesInOrder || answer.changedByUser.includes('app')) return answer
  const last =
    before?.run === run && before.mark === mark && before.answer.state === 'answered' ? before.answer : undefined
  if (last?.login === 'succeeded' && last.certificate === certificate)
    return { ...answer, login: 'succeeded', certificate: last.certificate }
  const login = await access.login(target, passwords.app, signal)
  if (login.result === 'refused') return { ...answer, login: 'refused', loginMessage: login.message }
  if (login.result === 'busy') return answer
  return { ...answer, login: 'succeeded', certificate: login.certificate }
}
