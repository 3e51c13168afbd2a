/**
 * How volumes grow: what drives it, what of it runs at the moment, and how the claim's status tells of it, as a cluster's
 * resizer writes it. The capacity is what is granted: it follows the request, or stays where growing fails.
 */
// @ts-nocheck

import type { ObjectKey, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { parseQuantity } from '../../../values/quantity.ts'
import { timestamp } from '../../../values/time.ts'
import { messageOf } from '../errors.ts'

export type GrowthRequest = { claim: ObjectKey; handle: string; from: string; to: string }
/** Grows a volume; resolves when it is done. What it throws is said in the claim's conditions, and tried again. */
type GrowVolume = (request: GrowthRequest) => Promise<void>

/** Growing that cannot be done at all: what is asked for must change first. */
export class InfeasibleGrowth extends Error {}

export type GrowthOptions = {
  grow: GrowVolume
  /** After how long growing that failed is tried again. */
  retryMs: number
}

/** A directory is as large as its disk. */
export const directoryGrowth: GrowthOptions = { grow: async () => undefined, retryMs: 10_000 }

type Attempt =
  | { kind: 'running' }
  | { kind: 'grown'; to: string }
  | { kind: 'failed'; message: string; infeasible: boolean; at: number }

/** Attempts run beside the passes that ask for them; `ended` is called when one has. */
export function createGrowth({ grow, retryMs }: GrowthOptions, now: () => number, ended: (claim: ObjectKey) => void) {
  const attempts = new Map<string, { to: string; attempt: Attempt }>()

  async function outcome(request: GrowthRequest): Promise<Attempt> {
    try {
      await grow(request)
      return { kind: 'grown', to: request.to }
    } catch (error) {
      return { kind: 'failed', message: messageOf(error), infeasible: error instanceof InfeasibleGrowth, at: now() }
    }
  }

  /** What came of an earlier attempt, as long as it says something about this one. */
  function earlier(uid: string, to: string): Attempt | undefined {
    const current = attempts.get(uid)
    if (current === undefined) return undefined
    if (current.attempt.kind === 'running') return current.attempt
    if (current.attempt.kind === 'failed' && current.to === to && now() < current.attempt.at + retryMs) {
      return current.attempt
    }
    attempts.delete(uid)
    return current.attempt.kind === 'grown' ? current.attempt : undefined
  }

  return {
    /** Begins to grow the volume of a claim, or says how that goes. */
    attempt(uid: string, request: GrowthRequest): Attempt {
      const before = earlier(uid, request.to)
      if (before !== undefined) return before
      const entry: { to: string; attempt: Attempt } = { to: request.to, attempt: { kind: 'running' } }
      attempts.set(uid, entry)
      void outcome(request).then(attempt => {
        entry.attempt = attempt
        ended(request.claim)
      })
      return entry.attempt
    },
  }
}

type ClaimStatus = NonNullable<PersistentVolumeClaim['status']>
type Condition = NonNullable<ClaimStatus['conditions']>[number]

/** The conditions by which a cluster tells of growing. */
const conditionTypes = ['Resizing', 'ControllerResizeError']

/** The status of a claim whose volume is to grow, after an attempt that has not grown it. */
export function growingStatus(
  status: ClaimStatus,
  to: string,
  attempt: Exclude<Attempt, { kind: 'grown' }>,
  now: number,
): ClaimStatus {
  const condition = (type: string, message?: string): Condition => {
    const before = status.conditions?.find(each => each.type === type && each.message === message)
    const lastTransitionTime = before?.lastTransitionTime ?? timestamp(now)
    return { type, status: 'True', lastTransitionTime, ...(message !== undefined && { message }) }
  }
  const infeasible = 'ControllerResizeInfeasible'
  // A later try of what could not be done says nothing new until it has ended.
  const isStill = status.allocatedResourceStatuses?.storage === infeasible && status.allocatedResources?.storage === to
  if (attempt.kind === 'running' && isStill) return status
  const isInfeasible = attempt.kind === 'failed' && attempt.infeasible
  const told =
    attempt.kind === 'failed'
      ? [condition('ControllerResizeError', attempt.message), ...(isInfeasible ? [] : [condition('Resizing')])]
      : [condition('Resizing'), ...(status.conditions ?? []).filter(({ type }) => type === 'ControllerResizeError')]
  return {
    ...status,
    allocatedResources: { ...status.allocatedResources, storage: to },
    allocatedResourceStatuses: {
      ...status.allocatedResourceStatuses,
      storage: isInfeasible ? infeasible : 'ControllerResizeInProgress',
    },
    conditions: [...otherConditions(status), ...told],
  }
}

const otherConditions = ({ conditions = [] }: ClaimStatus): Condition[] =>
  conditions.filter(({ type }) => !conditionTypes.includes(type))

/** The status of a claim of which nothing is being grown. */
export function settledStatus(status: ClaimStatus): ClaimStatus {
  const { conditions: _conditions, allocatedResourceStatuses, ...rest } = status
  const { storage: _storage, ...statuses } = allocatedResourceStatuses ?? {}
  const conditions = otherConditions(status).filter(({ type }) => type !== 'Provisioned')
  return {
    ...rest,
    ...(Object.keys(statuses).length > 0 && { allocatedResourceStatuses: statuses }),
    ...(conditions.length > 0 && { conditions }),
  }
}

/** Whether one quantity is more than another. */
export const isMore = (one: string | undefined, other: string | undefined): boolean =>
  (parseQuantity(one) ?? 0) > (parseQuantity(other) ?? 0)
