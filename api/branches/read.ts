/** The responses to a read of a branch. */
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase } from '../../crds/index.ts'
import type { ApiContext } from '../context.ts'
import { renderConnection } from '../databases/credentials.ts'
import { withConnection } from '../databases/render.ts'
import { type UserType, userTypes } from '../schemas/common.ts'
import { renderBranch } from './render.ts'

type Branch = Kinds['Branch']

export const rendered = ({ caches }: ApiContext, branch: Branch): string =>
  JSON.stringify(renderBranch(branch, caches.Region.get({ name: branch.spec.region })))

/** Renders the branch. While the branch is available, adds the secrets of its services. */
async function plainOf(context: ApiContext, branch: Branch) {
  const text = rendered(context, branch)
  const isShown = branch.spec.services.length > 0 && ['creating', 'available'].includes(branchPhase(branch))
  return isShown ? context.serviceSecrets.shown(branch, text) : { text, containsSecret: false }
}

/**
 * The response to a read of the branch, with `connection` if the branch has connection details. @throws ApiError 503
 */
export async function readBy(context: ApiContext, branch: Branch, userType: UserType) {
  const { text, containsSecret } = await plainOf(context, branch)
  const endpoint = branchPhase(branch) === 'available' ? branch.status?.endpoint : undefined
  const secret = endpoint && (await context.readCredentials(branch))
  const password = secret && (await context.openPassword(secret, userType))
  if (endpoint === undefined || password === undefined) return { text, containsSecret }
  return { text: withConnection(text, renderConnection(endpoint, userType, password)), containsSecret: true }
}

/** Every body that a read of the branch can return now. @throws ApiError 503 */
export const bodiesOf = async (context: ApiContext, branch: Branch): Promise<string[]> =>
  (await Promise.all(userTypes.map(userType => readBy(context, branch, userType)))).map(({ text }) => text)
