/** Performs one action of a plan, on the member's or the endpoint's objects. */
import { type EndpointExecutor, type EndpointPass, performEndpoint, readRolesOf } from '../endpoint/act.ts'
import { type MemberExecutor, type MemberPass, performMember } from '../member/act.ts'
import { withRolesLocked } from '../member/postgres/act.ts'
import type { ReadDesiredRoles } from '../postgres/administrator.ts'
import { performService, type ServicePass } from '../service/act.ts'
import { readLogin } from '../service/login.ts'
import { readMcpState } from '../service/mcp-state.ts'
import type { Action } from './actions.ts'
import type { Observation } from './observe.ts'

export type Executor = MemberExecutor & EndpointExecutor

export type Pass = MemberPass & EndpointPass & ServicePass & Observation

/** `refused`: the cluster does not allow the volume to grow. */
export type Done = 'done' | 'refused'

/** Member and endpoint apply and delete their children in the same way. */
export async function perform(executor: Executor, pass: Pass, action: Action): Promise<Done> {
  switch (action.do) {
    case 'relabel':
    case 'mint-credentials':
    case 'find-credentials':
    case 'rotate-passwords':
    case 'forget-previous-passwords':
    case 'take-back-passwords':
    case 'issue-certificate':
    case 'note-loaded':
    case 'claim-port':
    case 'leave-port':
      await performEndpoint(executor, pass, action, work => withRolesLocked(executor, pass, work))
      return 'done'
    case 'mint-service-secret':
    case 'create-service-configuration':
    case 'delete-service-workload':
    case 'delete-service-configuration':
      await performService(executor, pass, action)
      return 'done'
    default:
      return performMember(executor, pass, action, rolesOf(executor, pass))
  }
}

/** The users' roles, and the roles with which services log in. */
function rolesOf(executor: Executor, pass: Pass): ReadDesiredRoles | undefined {
  const read = readRolesOf(executor, pass)
  const { owner, services } = pass.observed
  if (read === undefined || owner === undefined) return read
  const { cluster } = executor
  const { login, mcpState } = services
  return async () => ({
    ...(await read()),
    ...(login === undefined
      ? {}
      : { authenticator: await readLogin(cluster, executor.keys(), owner.namespace, login) }),
    mcpState: await readMcpState(cluster, executor.keys(), owner, mcpState),
  })
}
