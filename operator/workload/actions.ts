/** Actions that a plan can request. All that a plan names at once is independent, and is done at once. */
import type { EndpointAction } from '../endpoint/actions.ts'
import type { MemberAction } from '../member/actions.ts'
import type { ServiceAction } from '../service/actions.ts'

export type Action = MemberAction | EndpointAction | ServiceAction
