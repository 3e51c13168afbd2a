/** The API server's paths and query parameters. Values that could change the path or widen a selector are refused. */
import { endedTaskStatuses } from '../../crds/index.ts'
import { ClusterError } from '../errors.ts'
import type { KindName } from '../kinds.ts'
import { kindInfo } from '../kinds.ts'
import type { LabelSelector, ListOptions, ObjectKey } from '../port.ts'
import { requireSelectable } from '../selection.ts'

type Query = Record<string, string | number | boolean | undefined>

/** The path of all objects of a kind, in one namespace. If it is absent: in all namespaces. */
export function collectionPath(kind: KindName, namespace?: string): string {
  const { apiVersion, plural, namespaced } = kindInfo[kind]
  const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const inNamespace = namespaced && namespace !== undefined
  return `${base}${inNamespace ? `/namespaces/${segment('namespace', namespace)}` : ''}/${plural}`
}

/**
 * Path of one object.
 * @throws ClusterError `BadRequest` for an invalid name, or a missing namespace
 */
export function objectPath(kind: KindName, key: ObjectKey, subresource?: 'status' | 'log'): string {
  const path = `${requiredCollection(kind, key.namespace)}/${segment('name', key.name)}`
  return subresource === undefined ? path : `${path}/${subresource}`
}

/**
 * The path at which an object is created.
 * @throws ClusterError `BadRequest` if the kind has namespaces and none is given
 */
export function requiredCollection(kind: KindName, namespace: string | undefined): string {
  if (kindInfo[kind].namespaced && namespace === undefined)
    throw new ClusterError('BadRequest', `metadata.namespace: Required value: ${kind} has namespaces`)
  return collectionPath(kind, namespace)
}

/** Returns `?a=1&b=2` with the parameters that are set, or an empty string. */
export function queryText(query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

const labelValue = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/
const labelKey = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/

/**
 * The `labelSelector` parameter.
 * @throws ClusterError `BadRequest` for an invalid label: a comma in a value would add a requirement
 */
export function selectorText(labels: LabelSelector | undefined): string | undefined {
  if (labels === undefined) return undefined
  const requirements = Object.entries(labels).map(([key, value]) => {
    if (!labelKey.test(key)) throw new ClusterError('BadRequest', `labels: ${JSON.stringify(key)} is not a label key`)
    if (value === true) return key
    if (!labelValue.test(value))
      throw new ClusterError('BadRequest', `labels: ${JSON.stringify(value)} is not a value of label ${key}`)
    return `${key}=${value}`
  })
  return requirements.length === 0 ? undefined : requirements.join(',')
}

/**
 * The `fieldSelector` parameter: Events about one object, or Tasks that have not ended.
 * @throws ClusterError `BadRequest` for another kind, or for an invalid uid
 */
export function fieldsText(kind: KindName, { about, open }: Pick<ListOptions, 'about' | 'open'>): string | undefined {
  requireSelectable(kind, { about, open })
  if (open) return endedTaskStatuses.map(phase => `status.phase!=${phase}`).join(',')
  if (about === undefined) return undefined
  if (!labelValue.test(about)) throw new ClusterError('BadRequest', `about: ${JSON.stringify(about)} is not a uid`)
  return `involvedObject.uid=${about}`
}

/** One path segment. One or two dots would be resolved. A slash or a percent sign would change the path. */
function segment(field: string, text: string): string {
  if (text === '' || text === '.' || text === '..' || text.length > 253 || /[/%]/.test(text))
    throw new ClusterError(
      'BadRequest',
      `metadata.${field}: ${JSON.stringify(text.slice(0, 253))} cannot be a ${field}`,
    )
  return encodeURIComponent(text)
}
