/**
 * Rules for Kubernetes' built-in kinds: the defaults, required fields and immutable fields that Espalier relies on. The
 * store does not check other fields of these kinds.
 */
import type { KindName } from '../../cluster/kinds.ts'
import { shapes } from './builtin-shapes.ts'
import { checkClaim, checkVolume } from './builtin-storage.ts'
import { immutableField, otherFieldsChanged } from './immutable.ts'
import { equal, isObject, type JsonObject, type JsonValue, listIn, objectIn, textIn, withField } from './json.ts'
import { duplicate, forbidden, invalid, type Problem, required, tooLong } from './problems.ts'
import { claimProtection, volumeProtection } from './protection.ts'
import type { Shape } from './shape.ts'

type BuiltIn = {
  readonly shape: Shape
  readonly generation: 'all' | 'spec' | 'none'
  readonly initialStatus: JsonObject | undefined
  /** The finalizer that every object of the kind has until its controller removes it. */
  readonly finalizers: readonly string[]
  complete(object: JsonObject): JsonObject
  check(object: JsonObject, previous?: JsonObject): Problem[]
}
type BuiltInKind = Extract<
  KindName,
  | 'Namespace'
  | 'Node'
  | 'Pod'
  | 'ResourceQuota'
  | 'Service'
  | 'Secret'
  | 'ConfigMap'
  | 'PersistentVolumeClaim'
  | 'PersistentVolume'
  | 'Event'
  | 'StatefulSet'
  | 'Deployment'
  | 'Job'
  | 'Lease'
  | 'NetworkPolicy'
  | 'PodDisruptionBudget'
  | 'RoleBinding'
  | 'VolumeSnapshot'
>

const builtIn = (options: Partial<BuiltIn> = {}): BuiltIn => ({
  shape: shapes.plain,
  generation: 'none',
  initialStatus: undefined,
  finalizers: [],
  complete: object => object,
  check: () => [],
  ...options,
})

/** Returns the object with these spec fields set where they are missing. */
const specDefaults =
  (defaults: JsonObject) =>
  (object: JsonObject): JsonObject => ({ ...object, spec: { ...defaults, ...objectIn(object, 'spec') } })

function checkContainers(spec: JsonObject, path: string): Problem[] {
  const containers = listIn(spec, 'containers')
  if (containers.length === 0) return [required(`${path}.containers`)]
  return [...containers.entries()].flatMap(([index, container]) => [
    ...(textIn(container, 'name') ? [] : [required(`${path}.containers[${index}].name`)]),
    ...(textIn(container, 'image') ? [] : [required(`${path}.containers[${index}].image`)]),
    ...[...listIn(isObject(container) ? container : {}, 'ports').entries()]
      .filter(([, port]) => !isObject(port) || port.containerPort === undefined)
      .map(([port]) => required(`${path}.containers[${index}].ports[${port}].containerPort`)),
  ])
}

/** A workload's selector must match the labels of its pod template. */
function checkTemplate(object: JsonObject): Problem[] {
  const spec = objectIn(object, 'spec')
  if (!isObject(spec.selector)) return [required('spec.selector')]
  const template = objectIn(spec, 'template')
  const labels = objectIn(objectIn(template, 'metadata'), 'labels')
  const wanted = Object.entries(objectIn(spec.selector, 'matchLabels'))
  const problems = checkContainers(objectIn(template, 'spec'), 'spec.template.spec')
  if (wanted.every(([label, value]) => labels[label] === value)) return problems
  return [...problems, invalid('spec.template.metadata.labels', labels, '`selector` does not match template `labels`')]
}

const statefulSetMutable = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
]

function checkStatefulSet(object: JsonObject, previous?: JsonObject): Problem[] {
  const problems = checkTemplate(object)
  if (previous !== undefined && otherFieldsChanged(object, previous, statefulSetMutable)) {
    const list = statefulSetMutable.map(field => `'${field}'`).join(', ')
    problems.push(forbidden('spec', `updates to statefulset spec for fields other than ${list} are forbidden`))
  }
  return problems
}

function checkDeployment(object: JsonObject, previous?: JsonObject): Problem[] {
  const before = objectIn(previous, 'spec').selector
  const immutable =
    previous === undefined ? [] : immutableField('spec.selector', before, objectIn(object, 'spec').selector)
  return [...checkTemplate(object), ...immutable]
}

function checkJob(object: JsonObject, previous?: JsonObject): Problem[] {
  const spec = objectIn(object, 'spec')
  const problems = checkContainers(objectIn(objectIn(spec, 'template'), 'spec'), 'spec.template.spec')
  if (previous === undefined) return problems
  const before = objectIn(previous, 'spec')
  return [
    ...problems,
    ...immutableField('spec.template', before.template, spec.template),
    ...immutableField('spec.selector', before.selector, spec.selector),
    ...immutableField('spec.completions', before.completions, spec.completions),
  ]
}

const podMutable = ['activeDeadlineSeconds', 'tolerations', 'terminationGracePeriodSeconds', 'schedulingGates']

function checkPod(object: JsonObject, previous?: JsonObject): Problem[] {
  const spec = objectIn(object, 'spec')
  if (previous === undefined) return checkContainers(spec, 'spec')
  const withoutImages = (pod: JsonObject): JsonObject => {
    const strip = (field: string): JsonValue =>
      listIn(objectIn(pod, 'spec'), field).map(container =>
        withField(isObject(container) ? container : {}, 'image', ''),
      )
    return { ...objectIn(pod, 'spec'), containers: strip('containers'), initContainers: strip('initContainers') }
  }
  // A pod is bound to a node only once.
  const bound = objectIn(previous, 'spec').nodeName === undefined ? ['nodeName'] : []
  const changed = otherFieldsChanged({ spec: withoutImages(object) }, { spec: withoutImages(previous) }, [
    ...podMutable,
    ...bound,
  ])
  const list = podMutable.map(field => `\`spec.${field}\``).join(', ')
  return changed
    ? [forbidden('spec', `pod updates may not change fields other than \`spec.containers[*].image\`, ${list}`)]
    : []
}

/**
 * Names and pairs of number and protocol must be unique. If a Service has several ports, each port must have a name.
 */
function repeatedPorts(ports: readonly JsonObject[]): Problem[] {
  const keyOf = ({ port, protocol = 'TCP' }: JsonObject) => `${port}/${protocol}`
  return ports.flatMap((port, index) => {
    const before = ports.slice(0, index)
    const path = `spec.ports[${index}]`
    if (ports.length > 1 && !textIn(port, 'name')) return [required(`${path}.name`)]
    return [
      ...(before.some(({ name }) => name === port.name) ? [duplicate(`${path}.name`, port.name ?? '')] : []),
      ...(before.some(other => keyOf(other) === keyOf(port)) ? [duplicate(path, port)] : []),
    ]
  })
}

function checkService(object: JsonObject, previous?: JsonObject): Problem[] {
  const ports = listIn(objectIn(object, 'spec'), 'ports')
  const unnumbered = [...ports.entries()].filter(([, port]) => !isObject(port) || port.port === undefined)
  if (unnumbered.length > 0) return unnumbered.map(([index]) => required(`spec.ports[${index}].port`))
  const repeated = repeatedPorts(ports.filter(isObject))
  if (repeated.length > 0) return repeated
  const before = objectIn(previous, 'spec').clusterIP
  const after = objectIn(object, 'spec').clusterIP
  if (before === undefined || before === after) return []
  return [invalid('spec.clusterIPs[0]', after ?? '', 'may not change once set')]
}

const dataLimit = 1024 * 1024
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const dataKey = /^[-._a-zA-Z0-9]{1,253}$/

/** Rules for Secrets and ConfigMaps: text values, keys that are valid file names, a size limit, and `immutable`. */
function checkData(object: JsonObject, previous: JsonObject | undefined, encoded: boolean): Problem[] {
  const problems: Problem[] = []
  let bytes = 0
  for (const [key, value] of Object.entries(objectIn(object, 'data'))) {
    const path = `data[${key}]`
    if (!dataKey.test(key))
      problems.push(invalid(path, key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"))
    if (typeof value !== 'string') problems.push(invalid(path, 'not shown', 'must be text'))
    else if (encoded && !base64.test(value)) problems.push(invalid(path, 'not shown', 'must be base64'))
    else bytes += encoded ? (value.length * 3) / 4 : Buffer.byteLength(value)
  }
  if (bytes > dataLimit) problems.push(tooLong('data', dataLimit))
  if (previous?.immutable !== true) return problems
  if (object.immutable !== true) problems.push(forbidden('immutable', 'field is immutable when `immutable` is set'))
  for (const field of ['data', 'binaryData']) {
    if (!equal(previous[field], object[field])) {
      problems.push(forbidden(field, 'field is immutable when `immutable` is set'))
    }
  }
  return problems
}

function checkSecret(object: JsonObject, previous?: JsonObject): Problem[] {
  const type = previous === undefined ? [] : immutableField('type', previous.type, object.type)
  return [...checkData(object, previous, true), ...type]
}

/** `stringData` is write-only and is stored as data. */
function completeSecret(object: JsonObject): JsonObject {
  const { stringData, ...secret } = object
  const texts = Object.entries(isObject(stringData) ? stringData : {})
  const encoded = texts.map(([key, text]) => [key, Buffer.from(`${text}`).toString('base64')])
  const data = { ...objectIn(secret, 'data'), ...Object.fromEntries(encoded) }
  return { type: 'Opaque', ...secret, ...(encoded.length > 0 ? { data } : {}) }
}

function completeNamespace(object: JsonObject): JsonObject {
  const metadata = objectIn(object, 'metadata')
  const labels = { ...objectIn(metadata, 'labels'), 'kubernetes.io/metadata.name': metadata.name ?? '' }
  return {
    ...object,
    metadata: { ...metadata, labels },
    spec: { finalizers: ['kubernetes'], ...objectIn(object, 'spec') },
  }
}

/** The store copies a quota's limits to its status at once. On Kubernetes, a controller does that later. */
const completeQuota = (object: JsonObject): JsonObject => ({
  ...object,
  status: { hard: objectIn(objectIn(object, 'spec'), 'hard') },
})

const workload = { shape: shapes.workload, generation: 'spec' } as const

export const builtIns: { readonly [kind in BuiltInKind]: BuiltIn } = {
  Namespace: builtIn({
    shape: shapes.withConditions,
    initialStatus: { phase: 'Active' },
    complete: completeNamespace,
  }),
  Node: builtIn({ shape: shapes.withConditions }),
  Pod: builtIn({
    shape: shapes.pod,
    generation: 'spec',
    initialStatus: { phase: 'Pending' },
    complete: specDefaults({ restartPolicy: 'Always', terminationGracePeriodSeconds: 30 }),
    check: checkPod,
  }),
  ResourceQuota: builtIn({ initialStatus: {}, complete: completeQuota }),
  Service: builtIn({
    shape: shapes.service,
    initialStatus: { loadBalancer: {} },
    complete: specDefaults({ type: 'ClusterIP' }),
    check: checkService,
  }),
  Secret: builtIn({ complete: completeSecret, check: checkSecret }),
  ConfigMap: builtIn({ check: (object, previous) => checkData(object, previous, false) }),
  PersistentVolumeClaim: builtIn({
    shape: shapes.claim,
    initialStatus: { phase: 'Pending' },
    finalizers: [claimProtection],
    complete: specDefaults({ volumeMode: 'Filesystem' }),
    check: checkClaim,
  }),
  PersistentVolume: builtIn({
    shape: shapes.volume,
    initialStatus: { phase: 'Pending' },
    finalizers: [volumeProtection],
    complete: specDefaults({ persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' }),
    check: checkVolume,
  }),
  Event: builtIn({ shape: shapes.event }),
  StatefulSet: builtIn({
    ...workload,
    initialStatus: { replicas: 0 },
    complete: specDefaults({ replicas: 1, podManagementPolicy: 'OrderedReady' }),
    check: checkStatefulSet,
  }),
  Deployment: builtIn({
    ...workload,
    initialStatus: {},
    complete: specDefaults({ replicas: 1 }),
    check: checkDeployment,
  }),
  Job: builtIn({
    ...workload,
    initialStatus: {},
    complete: specDefaults({ parallelism: 1, completions: 1, backoffLimit: 6, suspend: false }),
    check: checkJob,
  }),
  Lease: builtIn(),
  NetworkPolicy: builtIn({ shape: shapes.networkPolicy, generation: 'spec' }),
  PodDisruptionBudget: builtIn({ shape: shapes.disruptionBudget, generation: 'spec' }),
  RoleBinding: builtIn({
    check: (object, previous) =>
      previous === undefined ? [] : immutableField('roleRef', previous.roleRef, object.roleRef),
  }),
  VolumeSnapshot: builtIn({
    generation: 'all',
    check: (object, previous) =>
      previous === undefined
        ? []
        : immutableField('spec.source', objectIn(previous, 'spec').source, objectIn(object, 'spec').source),
  }),
}
