/**
 * Decides when to probe a Postgres next. Without events, that is every five to six minutes. The pod reports failures:
 * it ends, or is not ready. The pod's report causes a probe at once. A gateway reports that it cannot connect. This
 * report causes a probe at least 5 s after the previous probe. Pure.
 */

import { createHash } from 'node:crypto'
import type { FoundReferences } from '../../postgres/administrator.ts'
import type { PostgresFacts } from '../observed.ts'

/** The shortest time between two probes of a database without events. */
export const intervalMs = 300_000
/**
 * How soon to repeat a probe that found no machine at the address. A second such result in a row counts as a failure.
 */
const uncertainMs = 1_000
/**
 * The shortest time between a probe and a probe that a suspicion causes. A gateway may report many failed connections,
 * and a client can cause them.
 */
const suspicionMs = 5_000
/**
 * The shortest time between two probes while changes to Postgres fail. A change that always fails must not keep
 * Postgres busy.
 */
const failureMs = { first: 250, most: 60_000 }
/** A hanging commit keeps a server process busy, so the operator repeats the probe rarely. */
const hangingMs = 60_000
/**
 * The time between probes while a role, schema or table is missing. Users often create the missing object soon after
 * the service.
 */
const missingMs = { first: 3_000, most: 60_000 }
/** The longest time between probes that time out. */
const rarestMs = 4 * intervalMs

/** A constant number from 0 to 1 for each key, which spreads the probes of many databases over time. */
const spreadOf = (key: string): number => createHash('sha256').update(key).digest().readUInt32BE() / 2 ** 32

/** How long to wait after a failed probe: short while Postgres starts, longer later. */
export function retryDelay(sinceStartMs: number): number {
  if (sinceStartMs < 5_000) return 20
  return sinceStartMs < 60_000 ? 250 : 2_000
}

/**
 * How long to wait before the next probe checks whether Postgres has loaded the new certificate or files. The kubelet
 * mounts them within a minute.
 */
function reloadDelay(sinceIssuedMs: number): number {
  if (sinceIssuedMs < 5_000) return 100
  return sinceIssuedMs < 120_000 ? 5_000 : 60_000
}

/** A delay that grows with the time since Postgres was started. */
const missingDelay = (sinceStartMs: number): number =>
  Math.min(missingMs.most, Math.max(missingMs.first, sinceStartMs / 20))

function lacksObjects({ answer }: PostgresFacts): boolean {
  if (answer?.state !== 'answered') return false
  const found = answer.references?.found
  if (found !== undefined && lacksReferences(found)) return true
  return Object.values(answer.authenticator?.anonymousRoles ?? {}).some(({ kind }) => kind === 'missing')
}

const lacksReferences = ({ missingSchemas, vector, tables }: FoundReferences): boolean =>
  missingSchemas.length > 0 ||
  vector === 'absent' ||
  vector === 'available' ||
  tables.some(({ exists, missing }) => !exists || missing.length > 0)

const failureDelay = (failures: number): number =>
  failures === 0 ? 0 : Math.min(failureMs.most, failureMs.first * 2 ** (failures - 1))

/** How long to wait after a probe that timed out: twice as long after each timeout, and at least the usual delay. */
export function slowDelay(slow: number, usualMs: number): number {
  return Math.max(usualMs, Math.min(rarestMs, Math.max(usualMs, 1_000) * 2 ** (slow - 1)))
}

export type ProbeTime = {
  key: string
  facts: PostgresFacts | undefined
  /** The current state of the pod. */
  pod: { run: string; ready: boolean; startedAt: number | undefined }
  /** A pass waits for a fact that only Postgres can report. */
  awaited: boolean
  /** If Postgres presents an old certificate: the issue time of the current certificate. */
  certificateIssuedAt: number | undefined
  /** The issue time of the current certificate, even if Postgres already presents it. */
  latestCertificateAt: number | undefined
  /** The time of the last reported failed connection. Undefined if none was reported since the last probe began. */
  suspectedAt: number | undefined
  operatorStartedAt: number
  now: number
}

/** Returns the time of the next probe, in ms since the epoch. */
export function nextProbe({ key, facts, pod, awaited, suspectedAt, ...more }: ProbeTime): number {
  const { certificateIssuedAt, latestCertificateAt, operatorStartedAt, now } = more
  if (facts?.run !== pod.run) {
    // Postgres presents a reissued certificate only after a reload. The probe also detects that the authority was lost
    // and created again.
    const isReissued = latestCertificateAt !== undefined && latestCertificateAt >= operatorStartedAt
    const isUrgent = awaited || suspectedAt !== undefined || isReissued
    return isUrgent ? now : operatorStartedAt + spreadOf(key) * intervalMs
  }
  if (facts.ready !== pod.ready) return now
  const sinceStartMs = now - (pod.startedAt ?? now)
  const seldom = intervalMs * (1 + 0.2 * spreadOf(key))
  const atRest = lacksObjects(facts) ? missingDelay(sinceStartMs) : seldom
  const usually = awaited ? retryDelay(sinceStartMs) : atRest
  if (facts.slow > 0) return facts.at + slowDelay(facts.slow, usually)
  const failure = failureDelay(facts.failures ?? 0)
  if (facts.isOutdated && certificateIssuedAt !== undefined)
    return facts.at + Math.max(failure, reloadDelay(now - certificateIssuedAt))
  if (facts.isOutdated) return Math.max(now, facts.at + failure)
  if (facts.isUncertain) return facts.at + uncertainMs
  if (facts.answer?.state === 'answered' && facts.answer.walHangs) return facts.at + hangingMs
  const since = facts.otherFilesSince
  if (since !== undefined) return facts.at + Math.min(usually, reloadDelay(now - since))
  if (suspectedAt !== undefined) return Math.min(facts.at + usually, Math.max(suspectedAt, facts.at + suspicionMs))
  return facts.at + usually
}
