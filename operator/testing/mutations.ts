/**
 * The changes that another manager can make to an object's fields. Every field is changed, removed and added to. Of
 * absent fields, only those with an effect are set.
 */
import type { AnyObject } from '../../cluster/index.ts'
import { isRecord } from '../../values/record.ts'

export type Mutation = {
  /** The field and the change. */
  name: string
  does: 'change' | 'remove' | 'add'
  field: string
  of: <T extends AnyObject>(object: T) => T
}

type Path = readonly (string | number)[]

const textOf = (path: Path): string =>
  path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1)

function edited(value: unknown, [step, ...rest]: Path, change: (value: unknown) => unknown): unknown {
  if (step === undefined) return change(value)
  if (Array.isArray(value)) {
    const items = value.map((item, index) => (index === step ? edited(item, rest, change) : item))
    return items.filter(item => item !== undefined)
  }
  const { [step]: inner, ...others } = isRecord(value) ? value : {}
  const after = edited(inner, rest, change)
  return after === undefined ? others : { ...others, [step]: after }
}

/** Another value of the same type. */
function another(value: unknown): unknown {
  if (typeof value === 'number') return value + 1
  if (typeof value === 'boolean') return !value
  return typeof value === 'string' ? `${value}x` : 'x'
}

/** An item that a list does not contain yet. */
function moreOf(list: readonly unknown[]): unknown {
  const [first] = list
  if (!isRecord(first)) return another(first)
  const named = Object.entries(first).map(([name, value]) =>
    ['name', 'port', 'containerPort', 'mountPath'].includes(name) ? [name, another(value)] : [name, value],
  )
  return Object.fromEntries(named)
}

/** Absent fields that affect clients and the next pod. */
const absent: Record<string, readonly (readonly [Path, unknown])[]> = {
  Service: [
    [['spec', 'internalTrafficPolicy'], 'Local'],
    [['spec', 'sessionAffinity'], 'ClientIP'],
    [['spec', 'externalIPs'], ['203.0.113.9']],
    [['spec', 'selector', 'team'], 'billing'],
  ],
  NetworkPolicy: [
    [['spec', 'egress'], [{}]],
    [['spec', 'podSelector', 'matchLabels', 'team'], 'billing'],
    [['spec', 'podSelector', 'matchExpressions'], [{ key: 'team', operator: 'Exists' }]],
    [['spec', 'ingress', 0, 'ports', 0, 'endPort'], 65535],
  ],
  PodDisruptionBudget: [[['spec', 'selector', 'matchLabels', 'team'], 'billing']],
  ConfigMap: [
    [['data', 'another.conf'], 'port = 1'],
    [['binaryData'], { more: 'AAAA' }],
  ],
  StatefulSet: [
    [['spec', 'minReadySeconds'], 600],
    [['spec', 'ordinals'], { start: 1 }],
    [['spec', 'revisionHistoryLimit'], 0],
    [['spec', 'template', 'spec', 'nodeSelector'], { disk: 'none' }],
    [['spec', 'template', 'spec', 'hostNetwork'], true],
    [['spec', 'template', 'spec', 'schedulerName'], 'nobody'],
    [['spec', 'template', 'spec', 'initContainers', 0, 'envFrom'], [{ configMapRef: { name: 'none' } }]],
    [['spec', 'template', 'spec', 'containers', 0, 'workingDir'], '/none'],
    [['spec', 'template', 'spec', 'containers', 0, 'livenessProbe'], { tcpSocket: { port: 1 } }],
  ],
}

function below(value: unknown, path: Path): Mutation[] {
  const mutation = (does: Mutation['does'], at: Path, change: (value: unknown) => unknown): Mutation => ({
    name: `${does} ${textOf(at)}`,
    does,
    field: textOf(at),
    // The same object with one field changed.
    of: object => edited(object, at, change) as typeof object,
  })
  const inner: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value ?? {})
  if (!Array.isArray(value) && !isRecord(value))
    return [mutation('change', path, another), mutation('remove', path, () => undefined)]
  const more = Array.isArray(value)
    ? mutation('add', [...path], list => [...(list as unknown[]), moreOf(list as unknown[])])
    : mutation('add', [...path, 'swept'], () => 'by-somebody')
  return [
    mutation('remove', path, () => undefined),
    more,
    ...inner.flatMap(([step, child]) => below(child, [...path, step])),
  ]
}

const parts = ['spec', 'data'] as const

/** All changes to try on an object. */
export function mutationsOf(object: AnyObject): Mutation[] {
  const content: Record<string, unknown> = { ...object }
  const { labels, annotations } = object.metadata
  const added = (absent[object.kind] ?? [])
    .filter(([[part]]) => content[String(part)] !== undefined)
    .map(([path, value]): Mutation => {
      const field = textOf(path)
      return { name: `add ${field}`, does: 'add', field, of: one => edited(one, path, () => value) as typeof one }
    })
  return [
    ...parts.filter(part => content[part] !== undefined).flatMap(part => below(content[part], [part])),
    ...below(labels, ['metadata', 'labels']),
    ...below(annotations, ['metadata', 'annotations']),
    ...added,
  ]
}
