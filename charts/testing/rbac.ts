/** Kubernetes' RBAC, as far as the chart uses it: evaluates roles and bindings. Pure. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { type AnyObject, type Cluster, ClusterError, type KindName } from '../../cluster/index.ts'
import { kindInfo } from '../../cluster/kinds.ts'
import { isRecord } from '../../values/record.ts'

type Rule = { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] }
type Subject = { kind: string; name: string; namespace?: string }
export type RbacObject =
  | { kind: 'ClusterRole' | 'Role'; metadata: { name: string; namespace?: string }; rules: Rule[] }
  | {
      kind: 'ClusterRoleBinding' | 'RoleBinding'
      metadata: { name: string; namespace?: string }
      roleRef: { kind: string; name: string }
      subjects?: Subject[]
    }

export type Request = {
  /** The name of a ServiceAccount of the system namespace. */
  account: string
  verb: string
  /** For example `pods` or `pods/log`. */
  resource: string
  group: string
  /** If omitted: the whole cluster. */
  namespace?: string | undefined
  name?: string | undefined
}

const systemOf = 'espalier-system'

const matches = (rule: Rule, { verb, resource, group, name }: Request): boolean =>
  rule.verbs.includes(verb) &&
  rule.apiGroups.includes(group) &&
  rule.resources.includes(resource) &&
  (rule.resourceNames === undefined || (name !== undefined && rule.resourceNames.includes(name)))

/** Whether the roles and bindings allow the request. */
export function isAllowed(objects: readonly RbacObject[], request: Request): boolean {
  return objects.some(binding => {
    if (!('roleRef' in binding)) return false
    const isOfAll = binding.kind === 'ClusterRoleBinding'
    if (!isOfAll && (request.namespace === undefined || binding.metadata.namespace !== request.namespace)) return false
    const isOurs = (binding.subjects ?? []).some(
      ({ kind, name, namespace }) => kind === 'ServiceAccount' && name === request.account && namespace === systemOf,
    )
    const { kind, name } = binding.roleRef
    const role = objects.find(
      object =>
        object.kind === kind &&
        object.metadata.name === name &&
        (kind === 'ClusterRole' || object.metadata.namespace === binding.metadata.namespace),
    )
    return isOurs && role !== undefined && 'rules' in role && role.rules.some(rule => matches(rule, request))
  })
}

const groupOf = (kind: KindName): string => {
  const { apiVersion } = kindInfo[kind]
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : ''
}

/**
 * A cluster that refuses an account every request that the roles do not allow, as an API server does. It uses the
 * RoleBindings that are in the cluster now. `denied` is called for each refusal.
 */
export function withRights(
  cluster: Cluster,
  account: string,
  roles: readonly RbacObject[],
  bindings: () => Promise<readonly RbacObject[]>,
  denied: (what: string) => void = () => {},
): Cluster {
  const check = async (
    verb: string,
    kind: KindName,
    { namespace, name }: { namespace?: string | undefined; name?: string | undefined },
    subresource = '',
  ) => {
    const { plural, namespaced } = kindInfo[kind]
    const request: Request = {
      ...{ account, verb, resource: `${plural}${subresource}`, group: groupOf(kind), name },
      namespace: namespaced ? namespace : undefined,
    }
    if (isAllowed([...roles, ...(await bindings())], request)) return
    const what = `${account} cannot ${verb} ${request.resource} ${namespace ?? '*'}/${name ?? '*'}`
    denied(what)
    throw new ClusterError('Forbidden', what)
  }
  const placeOf = ({ metadata: { namespace, name } }: Pick<AnyObject, 'metadata'>) => ({ namespace, name })
  return {
    get: async (kind, key) => {
      await check('get', kind, key)
      return cluster.get(kind, key)
    },
    list: async (kind, options = {}) => {
      await check('list', kind, { namespace: options.namespace })
      return cluster.list(kind, options)
    },
    watch: (kind, options) =>
      (async function* () {
        await check('watch', kind, { namespace: options.namespace })
        yield* cluster.watch(kind, options)
      })(),
    logs: async (pod, options) => {
      await check('get', 'Pod', pod, '/log')
      return cluster.logs(pod, options)
    },
    create: async (kind, draft) => {
      await check('create', kind, { namespace: draft.metadata.namespace })
      return cluster.create(kind, draft)
    },
    // Server-side apply also needs the permission to create.
    apply: async (kind, draft) => {
      await check('patch', kind, placeOf(draft))
      await check('create', kind, { namespace: draft.metadata.namespace })
      return cluster.apply(kind, draft)
    },
    replace: async (kind, object) => {
      await check('update', kind, placeOf(object))
      return cluster.replace(kind, object)
    },
    replaceStatus: async (kind, object) => {
      await check('update', kind, placeOf(object), '/status')
      return cluster.replaceStatus(kind, object)
    },
    delete: async (kind, key, options) => {
      await check('delete', kind, key)
      return cluster.delete(kind, key, options)
    },
  }
}

const files = ['api-rbac.yaml', 'operator-rbac.yaml']

/**
 * The chart's roles of API and operator, read without Helm. This works because these files contain almost only YAML.
 */
export function readRoles(): RbacObject[] {
  return files.flatMap(file => {
    const text = readFileSync(join(import.meta.dirname, '../espalier/templates', file), 'utf8')
    const yaml = text
      .replace(/^\{\{-.*-\}\}\n/, '')
      .replace(/^ *\{\{- \$labels .*\n/gm, '')
      // A role that a value enables does not exist by default.
      .replace(/^ *\{\{- if [\s\S]*?\{\{- end \}\}\n/gm, '')
      .replaceAll('{{ .Release.Namespace }}', systemOf)
    if (yaml.includes('{{')) throw new Error(`${file}: holds a template that this reader does not know`)
    return yaml
      .split(/^---$/m)
      .map((document): unknown => parse(document))
      .filter(isRbac)
  })
}

const isRbac = (value: unknown): value is RbacObject =>
  isRecord(value) && value.apiVersion === 'rbac.authorization.k8s.io/v1'
