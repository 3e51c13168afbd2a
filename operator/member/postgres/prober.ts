/**
 * Probes Postgres outside the passes: a probe may take seconds if a machine does not respond, and must not delay other
 * databases. A pass requests a probe and continues. When the answer arrives, the prober enqueues the database again.
 * The time of the next probe also depends on the stored answers (next-probe.ts).
 *
 * A slow Postgres is not a failed Postgres: a timeout only delays the next probe. Only a wrong answer, a refusal or a
 * missing server counts as a failure.
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
import { versionOfRole } from '../../postgres/password-versions.ts'
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
  passwordVersion: string | undefined
  /** The desired login of the service `rest`. */
  authenticator?: DesiredAuthenticator | undefined
  /** The objects that the services' configurations name. */
  references?: References | undefined
  /** The storage of the service `mcp` for its conversations. */
  mcpState?: DesiredMcpState | undefined
  /** The pod has no WAL probe: this probe checks whether WAL can be written. */
  commits: boolean
  /** The digest of the files that Postgres should have applied. */
  configuration: string | undefined
  /**
   * The pod reports that its disk hangs or is full. The probe then has a short timeout; if it times out, the disk
   * counts as hanging.
   */
  isUrgent: boolean
}

type Prober = {
  get(key: string): PostgresFacts | undefined
  /** Starts a probe as soon as a slot is free. Does nothing if a probe with this key waits or runs. */
  request(request: ProbeRequest): void
  /** Marks the last answer as outdated, after a change to Postgres. `failed`: the change failed. */
  outdate(key: string, failed: boolean): void
  /** Reports that a client could not connect, so the last answer may be outdated. */
  reportUnreachable(key: string): void
  /** The time of the last reported failed connection. Undefined if none was reported since the last probe began. */
  suspectedAt(key: string): number | undefined
  forget(key: string): void
  stop(): Promise<void>
}

type Concluded = Pick<ProbeRequest, 'run' | 'ready' | 'passwordVersion' | 'configuration'> & {
  /** A gateway could not connect before the probe. */
  isSuspected?: boolean
}

const concurrentProbes = 32
/**
 * Longer than the timeout of a commit (administrator.ts), so that the probe detects a hanging commit instead of being
 * cancelled.
 */
const probeTimeoutMs = 40_000
const urgentTimeoutMs = 3_000

/** The answer for an observation, before a login. */
export function answerOf(
  observation: PostgresObservation,
  passwordVersion: string | undefined,
  wanted: { authenticator?: DesiredAuthenticator | undefined; mcpState?: DesiredMcpState | undefined } = {},
): PostgresAnswer {
  if (!observation.reachable) return { state: 'refused', reason: observation.reason, message: observation.message }
  if (observation.inRecovery) return { state: 'refused', reason: 'starting', message: 'Postgres is in recovery' }
  const { roles, privilegesInOrder, applicationDatabase, authenticator, mcpState } = observation
  const isCurrent = databaseRoles.every(
    role => passwordVersion === undefined || roles[role].passwordVersion === versionOfRole(passwordVersion, role),
  )
  const changed = databaseRoles.filter(role => roles[role].password === 'changed' || roles[role].password === 'absent')
  return {
    state: 'answered',
    systemIdentifier: observation.systemIdentifier,
    rolesInOrder: privilegesInOrder && applicationDatabase && isCurrent,
    changedByUser: isCurrent ? changed : [],
    login: 'untried',
    certificate: observation.certificate,
    hasFreeSpace: observation.hasFreeSpace,
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
      : { authenticator: { ...authenticator, passwordVersion: wanted.authenticator.passwordVersion } }),
    ...(mcpState === undefined || wanted.mcpState?.login === undefined
      ? {}
      : { mcpState: { ...mcpState, passwordVersion: wanted.mcpState.login.passwordVersion } }),
    ...(observation.references === undefined ? {} : { references: observation.references }),
    ...(observation.importing === undefined ? {} : { importing: observation.importing }),
    ...(observation.closed === undefined ? {} : { closed: observation.closed }),
  }
}

/**
 * The facts after a probe's answer. Pure. One probe that finds no machine is not enough: a second probe, or an earlier
 * gateway report, must confirm the failure.
 */
function conclude(
  { run, ready, passwordVersion, configuration, isSuspected = false }: Concluded,
  answer: PostgresAnswer,
  last: PostgresFacts | undefined,
  at: number,
): PostgresFacts {
  const before = last?.run === run ? last : undefined
  if (answer.state === 'refused' && slowReasons.has(answer.reason)) {
    const known = before ?? { passwordVersion, answer: undefined, isOutdated: false }
    return { ...known, at, run, ready, slow: (before?.slow ?? 0) + 1, isUncertain: false }
  }
  const failures = before?.failures
  const none = { at, run, ready, slow: 0, isOutdated: false, ...(failures === undefined ? {} : { failures }) }
  const isSilent = answer.state === 'refused' && answer.reason === 'silent'
  if (isSilent && !isSuspected && before?.answer?.state === 'answered' && !before.isUncertain)
    return { ...none, passwordVersion: before.passwordVersion, answer: before.answer, isUncertain: true }
  const since = hasOtherFiles(configuration, answer) ? (before?.otherFilesSince ?? at) : undefined
  return {
    ...none,
    passwordVersion,
    answer,
    isUncertain: false,
    ...(since === undefined ? {} : { otherFilesSince: since }),
  }
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
    const { key, access, target, passwords, passwordVersion, authenticator, references, mcpState, commits, isUrgent } =
      request
    const timeout = AbortSignal.timeout(isUrgent ? urgentTimeoutMs : probeTimeoutMs)
    const signal = AbortSignal.any([stopping.signal, timeout])
    const observation = await access.observe(
      target,
      { passwords, commits, authenticator, references, mcpState },
      signal,
    )
    const answer = answerOf(observation, passwordVersion, { authenticator, mcpState })
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
      logger.debug({ key, err: error }, 'a probe of Postgres failed')
    }
    // `outdate` or `forget` was called during the probe, so the answer may be outdated.
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

/** Whether Postgres reads its files from the mount, but has not read the desired files yet. */
function hasOtherFiles(configuration: string | undefined, answer: PostgresAnswer): boolean {
  if (answer.state !== 'answered' || configuration === undefined || !answer.configuration.isMounted) return false
  return answer.configuration.inForce !== configuration
}

type Answered = Extract<PostgresAnswer, { state: 'answered' }>

/**
 * Adds a real login, which proves that Postgres serves clients. Skips the login if the role's password is not the
 * Secret's, or if a login has already succeeded in this run with these passwords.
 */
async function withLogin(
  request: ProbeRequest,
  answer: Answered,
  before: PostgresFacts | undefined,
  signal: AbortSignal,
): Promise<PostgresAnswer> {
  const { access, passwords, run, passwordVersion } = request
  if (passwords === undefined || !answer.rolesInOrder || answer.walHangs || answer.changedByUser.includes('app'))
    return answer
  if (answer.closed !== undefined) return answer
  const last = before?.run === run && before.passwordVersion === passwordVersion ? before.answer : undefined
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
    // An incomplete probe has no result.
    case 'slow':
      return { state: 'refused', reason: 'timeout', message: 'a login as app took too long' }
  }
}

function clientsTarget({ target, clientPath }: ProbeRequest): PostgresTarget | undefined {
  if (clientPath.by === 'elsewhere') return undefined
  return clientPath.by === 'service' ? { ...target, host: clientPath.address } : target
}
