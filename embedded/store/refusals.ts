/** Refusals of the store, in the API server's words. */
import { ClusterError } from '../../cluster/errors.ts'
import type { Problem } from './problems.ts'
import type { Resource } from './resource.ts'

export const notFound = (resource: Resource, name: string): ClusterError =>
  new ClusterError('NotFound', `${resource.qualifiedPlural} "${name}" not found`)

export const alreadyExists = (resource: Resource, name: string): ClusterError =>
  new ClusterError('AlreadyExists', `${resource.qualifiedPlural} "${name}" already exists`)

export const conflict = (resource: Resource, name: string, why: string): ClusterError =>
  new ClusterError('Conflict', `Operation cannot be fulfilled on ${resource.qualifiedPlural} "${name}": ${why}`)

export const modified = 'the object has been modified; please apply your changes to the latest version and try again'

export const otherUid = (wanted: string, actual: string | undefined): string =>
  `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${actual ?? ''}`

export const invalidObject = (resource: Resource, name: string, problems: readonly Problem[]): ClusterError => {
  const texts = problems.map(({ text }) => text)
  const list = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`
  return new ClusterError('Invalid', `${resource.qualifiedKind} "${name}" is invalid: ${list}`)
}

export const unknownFieldsRefusal = (resource: Resource, name: string, paths: readonly string[]): ClusterError => {
  const list = paths.map(path => `unknown field "${path}"`).join(', ')
  return new ClusterError('Invalid', `${resource.qualifiedKind} "${name}" is invalid: strict decoding error: ${list}`)
}

/** Usage beyond a ResourceQuota, each as `<name>=<amount>`. */
export function exceededQuota(
  resource: Resource,
  name: string,
  quota: string,
  exceeded: readonly { requested: string; used: string; limit: string }[],
): ClusterError {
  const list = (which: 'requested' | 'used' | 'limit') => exceeded.map(each => each[which]).join(',')
  return new ClusterError(
    'Forbidden',
    `${resource.qualifiedPlural} "${name}" is forbidden: exceeded quota: ${quota}, requested: ${list('requested')}, used: ${list('used')}, limited: ${list('limit')}`,
  )
}

export const notAdmitted = (resource: Resource, name: string, why: string): ClusterError =>
  new ClusterError('Forbidden', `${resource.qualifiedPlural} "${name}" is forbidden: ${why}`)

export const terminating = (resource: Resource, name: string, namespace: string): ClusterError =>
  new ClusterError(
    'Forbidden',
    `${resource.qualifiedPlural} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
  )
