/**
 * When to look at a Postgres next. Where nothing happens that is once in five minutes: what goes wrong is told by the pod
 * (it ends, it is not ready) and by the gateway (it cannot connect), and each of them has a probe taken at once. Pure.
 */

import { createHash } from 'node:crypto'
import type { FoundReferences } from '../../postgres/administrator.ts'
import type { PostgresFacts } from '../observed.ts'

/** Between two looks at a database at which nothing happens. */
export const intervalMs = 300_000
/** How soon a probe that found no machine at the address is repeated, before it counts. */
const doubtMs = 1_000
/** How soon a suspicion has another look taken: the gateway may meet many at once, and a client can make it meet them. */
const suspicionMs = 5_000
/** How soon after a look the next one is, where what is done in Postgres fails: what fails each time must not keep it busy. */
const failureMs = { first: 250, most: 60_000 }
/** A commit that hangs leaves a server process behind, so it is not tried often. */
const hangingMs = 60_000
/** While a role, schema or table is missing that a user has to create: users often create it soon after the service. */
const missingMs = { first: 3_000, most: 60_000 }
/** As rarely as it ever gets where looks are slow. */
const rarestMs = 4 * intervalMs

/** A number from 0 to 1 that is always the same for a key, so that looks at many databases spread out. */
const spreadOf = (key: string): number => createHash('sha256').update(key).digest().readUInt32BE() / 2 ** 32

/** How long after a probe in vain the next is worth it: at once while Postgres starts, rarely when it has been long. */
export function retryDelay(sinceStartMs: number): number {
  if (sinceStartMs < 5_000) return 20
  return sinceStartMs < 60_000 ? 250 : 2_000
}

/** How long after a probe to see whether certificate or files are the new ones: what is mounted takes up to a minute. */
function reloadDelay(sinceIssuedMs: number): number {
  if (sinceIssuedMs < 5_000) return 100
  return sinceIssuedMs < 120_000 ? 5_000 : 60_000
}

/** A wait that grows with the time since Postgres was started. */
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

/** How long after a probe that was too slow: twice as long after each, and never sooner than without it. */
export function slowDelay(slow: number, usualMs: number): number {
  return Math.max(usualMs, Math.min(rarestMs, Math.max(usualMs, 1_000) * 2 ** (slow - 1)))
}

export type ProbeTime = {
  key: string
  facts: PostgresFacts | undefined
  /** The pod as it is now. */
  pod: { run: string; ready: boolean; startedAt: number | undefined }
  /** Something is waited for that only Postgres can tell. */
  awaited: boolean
  /** Where Postgres shows another certificate than the one it should: when that was issued. */
  certificateIssuedAt: number | undefined
  /** When the certificate was issued that it should show, whatever it shows. */
  latestCertificateAt: number | undefined
  /** When somebody last could not reach it, since the last look. */
  suspectedAt: number | undefined
  operatorStartedAt: number
  now: number
}

/** In ms since the epoch. */
export function nextProbe({ key, facts, pod, awaited, suspectedAt, ...more }: ProbeTime): number {
  const { certificateIssuedAt, latestCertificateAt, operatorStartedAt, now } = more
  if (facts?.run !== pod.run) {
    // It has to be told to take that one; and where its authority was lost meanwhile, that is seen by this.
    const isIssuedAnew = latestCertificateAt !== undefined && latestCertificateAt >= operatorStartedAt
    const isUrgent = awaited || suspectedAt !== undefined || isIssuedAnew
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
  if (facts.isDoubtful) return facts.at + doubtMs
  if (facts.answer?.state === 'answered' && facts.answer.walHangs) return facts.at + hangingMs
  const since = facts.otherFilesSince
  if (since !== undefined) return facts.at + Math.min(usually, reloadDelay(now - since))
  if (suspectedAt !== undefined) return Math.min(facts.at + usually, Math.max(suspectedAt, facts.at + suspicionMs))
  return facts.at + usually
}
