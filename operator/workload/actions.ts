/** Actions that a plan can request. All actions of one plan are independent, and are performed at once. */
import type { EndpointAction } from '../endpoint/actions.ts'
import type { MemberAction } from '../member/actions.ts'
import type { ServiceAction } from '../service/actions.ts'

export type Action = MemberAction | EndpointAction | ServiceAction
