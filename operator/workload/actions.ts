/** Actions that a plan can request. All that a plan names at once is independent, and is done at once. */
import type { EndpointAction } from '../endpoint/actions.ts'
import type { MemberAction } from '../member/actions.ts'
import type { InstanceCondition } from './plan/findings.ts'

export type Action = MemberAction | EndpointAction

/** A temporary problem of an action that is not the operator's fault: a condition reports it, and the action is retried. */
export type Problem = { condition: InstanceCondition; reason: string; message: string }
