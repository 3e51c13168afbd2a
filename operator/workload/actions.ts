/**
 * Actions that a plan can request. The actions of one plan are independent, and the operator performs them
 * concurrently.
 */
import type { EndpointAction } from '../endpoint/actions.ts'
import type { MemberAction } from '../member/actions.ts'
import type { ServiceAction } from '../service/actions.ts'

export type Action = MemberAction | EndpointAction | ServiceAction
