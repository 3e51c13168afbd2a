/**
 * Volume growth: the driver, running attempts, and the claim's status, as a cluster's resizer writes it. The capacity
 * is the granted size. It changes to the requested size, or stays if growing fails.
 */
import type { ObjectKey, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { parseQuantity } from '../../../values/quantity.ts'
import { timestamp } from '../../../values/time.ts'
import { messageOf } from '../errors.ts'

export type GrowthRequest = { claim: ObjectKey; handle: string; from: string; to: string }
/** Grows a volume; resolves when it is done. An error is reported in the claim's conditions, and growth is retried. */
type GrowVolume = (request: GrowthRequest) => Promise<void>

/** Growth is impossible until the request changes. */
export class InfeasibleGrowth extends Error {}

export type GrowthOptions = {
  grow: GrowVolume
  /** Retry delay after failed growth. */
  retryMs: number
}

/** A directory has no own limit: its size is that of its disk, so growth always succeeds. */
export const directoryGrowth: GrowthOptions = { grow: async () => undefined, retryMs: 10_000 }

type Attempt =
  | { kind: 'running' }
  | { kind: 'grown'; to: string }
  | { kind: 'failed'; message: string; infeasible: boolean; at: number }

/** Runs attempts in the background. Calls `ended` at the end of each attempt. */
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

  /** The result of an earlier attempt, as long as it applies to the current one. */
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
    /** Starts to grow a claim's volume, or returns the state of a running attempt. */
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

/** The conditions that report growth on a cluster. */
const conditionTypes = ['Resizing', 'ControllerResizeError']

/** The status of a claim whose volume must grow, after an attempt that did not succeed. */
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
  // A retry of impossible growth changes nothing in the status until the retry has ended.
  const isStill = status.allocatedResourceStatuses?.storage === infeasible && status.allocatedResources?.storage === to
  if (attempt.kind === 'running' && isStill) return status
  const isInfeasible = attempt.kind === 'failed' && attempt.infeasible
  const reported =
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
    conditions: [...otherConditions(status), ...reported],
  }
}

const otherConditions = ({ conditions = [] }: ClaimStatus): Condition[] =>
  conditions.filter(({ type }) => !conditionTypes.includes(type))

/** The status of a claim whose volume is not growing. */
export function ungrowingStatus(status: ClaimStatus): ClaimStatus {
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
